"""All pairs from a threshold on, against one whole float64 matrix."""

from __future__ import annotations

import numpy as np
import pytest

from sbert_retriever.errors import InputError
from sbert_retriever.mining import pairs_at_least


def unit(n, dim, seed=0):
    rows = np.random.default_rng(seed).standard_normal((n, dim))
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def brute(rows, threshold):
    """[(i, j)] and scores in float64, best first, equal ones by (i, j)."""
    exact = np.asarray(rows, dtype=np.float64)
    i, j = np.triu_indices(len(exact), k=1)
    scores = (exact[i] * exact[j]).sum(axis=1)
    order = [n for n in np.lexsort((j, i, -scores)) if scores[n] >= threshold]
    return [(int(i[n]), int(j[n])) for n in order], scores[order]


def components(n, pairs):
    """Connected components by spreading the least number, in plain Python."""
    label = list(range(n))
    for _ in range(n):
        for i, j in pairs:
            label[i] = label[j] = min(label[i], label[j])
    groups = {}
    for row, first in enumerate(label):
        groups.setdefault(first, []).append(row)
    return sorted((g for g in groups.values() if len(g) > 1), key=lambda g: (-len(g), g))


@pytest.mark.parametrize("block", [7, 64, 1024])
@pytest.mark.parametrize("threshold", [-1.0, 0.0, 0.2, 0.35, 0.5, 1.0])
def test_against_a_whole_matrix_in_float64(threshold, block):
    rows = unit(150, 24)
    found = pairs_at_least(rows, threshold, limit=20_000, block=block)
    pairs, scores = brute(rows, threshold)
    assert [(p.i, p.j) for p in found.pairs] == pairs
    assert [p.score for p in found.pairs] == scores.tolist()
    assert found.found == len(pairs)
    assert found.groups == components(len(rows), pairs)


def test_a_score_at_the_threshold_itself_is_in_and_the_next_float_below_is_out():
    """What float32 cannot tell from the threshold is decided by the float64 score."""
    rows = unit(60, 384)
    pairs, scores = brute(rows, -1)
    for place in (0, 5, 50):
        at = pairs_at_least(rows, float(scores[place]), block=16)
        assert [(p.i, p.j) for p in at.pairs] == pairs[: place + 1]
        above = pairs_at_least(rows, float(np.nextafter(scores[place], 2)), block=16)
        assert [(p.i, p.j) for p in above.pairs] == pairs[:place]
        assert above.found == place


@pytest.mark.parametrize("limit", [1, 3, 10])
def test_the_limit_keeps_the_best_and_counts_and_groups_all(limit):
    rows = unit(80, 8, seed=1)
    pairs, _ = brute(rows, 0.6)
    found = pairs_at_least(rows, 0.6, limit=limit, block=9)
    assert [(p.i, p.j) for p in found.pairs] == pairs[:limit]
    assert found.found == len(pairs) > 10
    assert found.groups == components(len(rows), pairs)


def test_rows_that_are_all_equal_are_one_group():
    rows = np.repeat(unit(1, 16), 500, axis=0)
    found = pairs_at_least(rows, 1 - 1e-6, limit=5, block=64)
    assert found.found == 500 * 499 // 2
    assert [(p.i, p.j) for p in found.pairs] == [(0, 1), (0, 2), (0, 3), (0, 4), (0, 5)]
    assert found.groups == [list(range(500))]


@pytest.mark.parametrize("n", [0, 1])
def test_no_pairs_without_two_rows(n):
    assert pairs_at_least(np.ones((n, 4)), -1) == ([], 0, [])


def test_the_share_that_is_done_grows_to_one():
    shares = []
    pairs_at_least(unit(50, 4), 0.5, block=8, on_share=shares.append)
    assert shares == sorted(shares)
    assert shares[0] == pytest.approx(1 - (42 / 50) ** 2)
    assert shares[-1] == 1


@pytest.mark.parametrize(
    ("vectors", "threshold", "options", "said"),
    [
        ([1.0, 2.0], 0.5, {}, r"shape \(2,\)"),
        ([[1.0], [np.inf]], 0.5, {}, "vector 1 holds NaN or infinity"),
        ([[1.0], [2.0]], np.nan, {}, "threshold is NaN"),
        ([[1.0], [2.0]], 0.5, {"limit": 0}, "limit is 0"),
        ([[1.0], [2.0]], 0.5, {"block": 0}, "block 0"),
    ],
)
def test_wrong_use(vectors, threshold, options, said):
    with pytest.raises(InputError, match=said):
        pairs_at_least(vectors, threshold, **options)
