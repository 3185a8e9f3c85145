"""Communities by hand, and against a plain greedy search over a whole matrix."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sbert_retriever.errors import InputError
from sbert_retriever.mining import communities


def cosine(degrees):
    return math.cos(math.radians(degrees))


def greedy(rows, threshold, least):
    """The row with the most free rows around it and those, again and again; in float64."""
    near = np.asarray(rows, np.float64) @ np.asarray(rows, np.float64).T >= threshold
    np.fill_diagonal(near, True)
    free = np.ones(len(rows), dtype=bool)
    found = []
    while free.any():
        around = np.where(free, (near & free).sum(axis=1), 0)
        middle = int(around.argmax())
        if around[middle] < least:
            break
        members = np.flatnonzero(near[middle] & free)
        found.append([middle, *(int(m) for m in members if m != middle)])
        free[members] = False
    return found


def test_by_hand(circle):
    """The row at 20 has four around it; then 100 and 110 are a pair; 200 is alone."""
    rows = circle(0, 10, 20, 30, 40, 100, 200, 110)
    found = communities(rows, cosine(21), min_size=2)
    assert found == [[2, 0, 1, 3, 4], [5, 7]]
    assert communities(rows, cosine(21), min_size=3) == [[2, 0, 1, 3, 4]]
    assert communities(rows, cosine(21), min_size=1) == [[2, 0, 1, 3, 4], [5, 7], [6]]


def test_what_a_community_took_no_longer_counts_for_others(circle):
    """40 has three around it at first; those of 20 are taken, and 40 to 60 remain."""
    rows = circle(0, 10, 20, 30, 40, 50, 60)
    assert communities(rows, cosine(21), min_size=2) == [[2, 0, 1, 3, 4], [5, 6]]
    assert communities(rows, cosine(11), min_size=2) == [[1, 0, 2], [4, 3, 5]]
    assert communities(rows, cosine(11), min_size=4) == []


@pytest.mark.parametrize("block", [7, 64, 1024])
@pytest.mark.parametrize("threshold", [0.3, 0.6, 0.8, 0.95])
@pytest.mark.parametrize("least", [2, 5])
def test_against_a_plain_greedy_search(block, threshold, least):
    rng = np.random.default_rng(4)
    centres = rng.standard_normal((12, 10))
    rows = centres[rng.integers(12, size=300)] + rng.normal(0, 0.4, (300, 10))
    rows = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    found = communities(rows, threshold, min_size=least, block=block)
    assert found == greedy(rows, threshold, least)
    sizes = [len(community) for community in found]
    assert sizes == sorted(sizes, reverse=True)
    assert len({row for community in found for row in community}) == sum(sizes)


def test_all_equal_vectors_are_one_community():
    rows = np.ones((50, 4), dtype=np.float32) / 2
    assert communities(rows, 1 - 1e-6, block=8) == [list(range(50))]


@pytest.mark.parametrize(("n", "least", "expected"), [(0, 1, []), (1, 1, [[0]]), (1, 2, [])])
def test_few_rows(n, least, expected):
    assert communities(np.ones((n, 3)), 0.5, min_size=least) == expected


@pytest.mark.parametrize(
    ("vectors", "threshold", "options", "said"),
    [
        ([1.0], 0.5, {}, "shape"),
        ([[np.nan]], 0.5, {}, "NaN"),
        ([[1.0]], np.nan, {}, "threshold is NaN"),
        ([[1.0]], 0.5, {"min_size": 0}, "min_size is 0"),
    ],
)
def test_wrong_use(vectors, threshold, options, said):
    with pytest.raises(InputError, match=said):
        communities(vectors, threshold, **options)
