"""Weights that are fitted: what is best over all, and what each half is answered with."""

from __future__ import annotations

import pytest

from sbert_retriever import Passage, Retriever
from sbert_retriever.evaluation.ranking import evaluate
from sbert_retriever.testing import HashEncoder
from sbert_retriever.tradeoff.fitting import cross_fitted
from sbert_retriever.tradeoff.measure import measure_tradeoff
from sbert_retriever.tradeoff.points import Grid
from sbert_retriever.tradeoff.report import summarise
from sbert_retriever.types import Fusion

GRADES = {f"q{n}": {"right": 1} for n in range(4)}


def answered(*firsts):
    """Answers whose first passage is the right one, or comes second."""
    order = {True: ["right", "wrong"], False: ["wrong", "right"]}
    return {f"q{n}": order[first] for n, first in enumerate(firsts)}


def test_each_half_is_answered_with_what_is_best_on_the_other():
    """q0 and q2 are one half, q1 and q3 the other. "a" is right on the first, "b" on the second."""
    variants = {"a": answered(True, False, True, False), "b": answered(False, True, False, True)}
    fitted = cross_fitted(variants, GRADES, k=2)
    assert fitted.answers == answered(False, False, False, False)
    variants["c"] = answered(True, True, True, False)
    fitted = cross_fitted(variants, GRADES, k=2)
    # On q1 and q3 "b" is best, on q0 and q2 both "a" and "c": the later one in the middle of two.
    assert fitted.answers == answered(False, True, False, False)
    assert fitted.best == "c"


def test_one_query_is_fitted_on_itself():
    variants = {0.1: {"q0": ["wrong", "right"]}, 0.2: {"q0": ["right", "wrong"]}}
    fitted = cross_fitted(variants, GRADES, k=2)
    assert (fitted.best, fitted.answers) == (0.2, {"q0": ["right", "wrong"]})


@pytest.fixture
def both(texts):
    with Retriever.open(
        ":memory:", model=HashEncoder(dim=32), sparse="bm25", quantization="turbo"
    ) as retriever:
        retriever.index(Passage(i, text) for i, text in texts.items())
        yield retriever


def mean_ndcg(retriever, queries, qrels, weight):
    fusion = Fusion(sparse_weight=weight)
    run = {
        query: {hit.id: hit.score for hit in retriever.search(text, 3, fusion=fusion)}
        for query, text in queries.items()
    }
    return evaluate(run, qrels, measures=["nDCG@3"]).means["nDCG@3"]


def test_fitted_points_have_their_weight_and_no_query_saw_it(both, scorer, queries, qrels):
    grid = Grid(depths=(), hybrid_depths=(4,), late=0, early_stops=(), dimensions=(), profiles=())
    records = measure_tradeoff(
        both, queries, qrels=qrels, scorer=scorer, grid=grid, k=3, timed_queries=1
    )
    points = {point.name: point for point in records.points}
    gains = {weight: mean_ndcg(both, queries, qrels, weight) for weight in (0.05, 0.15, 0.3, 0.6)}
    chosen = points["hybrid, fitted"].profile.fusion.sparse_weight
    assert mean_ndcg(both, queries, qrels, chosen) == max(gains.values())
    assert 0 < points["hybrid, cross-encoder 4 weighted"].profile.fuse_weight < 1
    names = list(points)
    assert names[1:5] == [
        "exact",
        "small copies alone",
        "small copies, oversampling 1",
        "small copies, oversampling 4",
    ]
    report = summarise(records)
    assert report["exact"].accuracy == report["small copies, oversampling 4"].accuracy
    assert "each half of the queries was answered with the weight" in report.table()
    plain = measure_tradeoff(both, queries, scorer=scorer, grid=grid, k=3, timed_queries=1)
    assert not any(point.fitted for point in plain.points)
