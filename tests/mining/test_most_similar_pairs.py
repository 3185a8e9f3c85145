"""All pairs in blocks against one whole float64 matrix."""

import numpy as np
import pytest

from sbert_retriever.errors import InputError
from sbert_retriever.mining import most_similar_pairs


def unit(n, dim, seed=0):
    rows = np.random.default_rng(seed).standard_normal((n, dim))
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def brute(rows, k):
    """(i, j) and scores, in float64, equal ones by (i, j)."""
    exact = np.asarray(rows, dtype=np.float64)
    i, j = np.triu_indices(len(exact), k=1)
    scores = (exact[i] * exact[j]).sum(axis=1)
    order = np.lexsort((j, i, -scores))[:k]
    return [(int(i[n]), int(j[n])) for n in order], scores[order]


@pytest.mark.parametrize("block", [1, 7, 64, 300, 1024])
@pytest.mark.parametrize("k", [1, 10, 500])
def test_against_a_whole_matrix_in_float64(k, block):
    rows = unit(300 if block > 1 else 40, 48)
    found = most_similar_pairs(rows, k, block=block)
    pairs, scores = brute(rows, k)
    assert [(p.i, p.j) for p in found] == pairs
    assert [p.score for p in found] == scores.tolist()


def test_pairs_that_float32_cannot_tell_apart_are_ordered_by_their_exact_scores():
    """Vectors within a rounding error of each other: the best pair is the exactly best one."""
    base = unit(1, 384)[0]
    rng = np.random.default_rng(3)
    rows = (base + rng.normal(0, 3e-8, (200, 384))).astype(np.float32)
    found = most_similar_pairs(rows, 20, block=32)
    pairs, scores = brute(rows, 20)
    assert [(p.i, p.j) for p in found] == pairs
    assert [p.score for p in found] == scores.tolist()


def test_equal_rows_are_pairs_like_others_in_the_order_of_their_places():
    rows = unit(50, 16)
    rows[[7, 23, 41]] = rows[3]
    found = most_similar_pairs(rows, 7, block=10)
    same = [(3, 7), (3, 23), (3, 41), (7, 23), (7, 41), (23, 41)]
    assert [(p.i, p.j) for p in found[:6]] == same
    assert len({p.score for p in found[:6]}) == 1
    assert found[6].score < found[5].score


def test_more_candidates_than_are_held_at_once(monkeypatch):
    monkeypatch.setattr("sbert_retriever.mining.best._HELD", 50)
    rows = np.repeat(unit(4, 8), 20, axis=0)
    found = most_similar_pairs(rows, 30, block=16)
    pairs, _ = brute(rows, 30)
    assert [(p.i, p.j) for p in found] == pairs


def test_vectors_of_other_lengths_give_inner_products():
    rows = unit(60, 12) * np.linspace(0.1, 9, 60, dtype=np.float32)[:, None]
    pairs, scores = brute(rows, 5)
    found = most_similar_pairs(rows, 5, block=13)
    assert [(p.i, p.j) for p in found] == pairs
    assert [p.score for p in found] == scores.tolist()


@pytest.mark.parametrize(("n", "expected"), [(0, 0), (1, 0), (2, 1), (3, 3)])
def test_fewer_pairs_than_asked_for(n, expected):
    assert len(most_similar_pairs(np.zeros((n, 4)), 100)) == expected


def test_the_input_stays_as_it_is():
    rows = unit(20, 8)
    before = rows.copy()
    most_similar_pairs(rows, 3)
    assert (rows == before).all()


@pytest.mark.parametrize(
    ("vectors", "options", "said"),
    [
        ([1.0, 2.0], {}, r"shape \(2,\)"),
        ([[1.0], [np.nan]], {}, "vector 1 holds NaN"),
        ([[1.0], [2.0]], {"k": 0}, "k is 0"),
        ([[1.0], [2.0]], {"block": 0}, "block 0"),
    ],
)
def test_wrong_use(vectors, options, said):
    with pytest.raises(InputError, match=said):
        most_similar_pairs(vectors, **options)
