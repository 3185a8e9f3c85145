"""A point chosen by its price or its accuracy, and kept with the collection."""

import pytest

from sbert_retriever.errors import InputError
from sbert_retriever.evaluation.bootstrap import PairedDifference
from sbert_retriever.tradeoff.choose import choose
from sbert_retriever.tradeoff.points import BASELINE, EVERYTHING, point
from sbert_retriever.tradeoff.records import Setting
from sbert_retriever.tradeoff.report import PointReport, TradeoffReport

SURE = PairedDifference(0.05, 0.02, 0.08, 0.001, 300)
LUCK = PairedDifference(0.01, -0.02, 0.04, 0.5, 300)
WORSE = PairedDifference(-0.05, -0.08, -0.02, 0.001, 300)


def made(asked, ndcg, p50, p95, gain):
    return PointReport(
        point=asked,
        accuracy={"nDCG@10": ndcg} if ndcg is not None else {},
        gain=gain,
        latency_ms={"total": (p50, p95)},
        pairs=0,
        per_second=1.0,
        memory_mb=None,
        vectors_mb=1.0,
        on_front=False,
        extrapolated=asked.everything,
    )


@pytest.fixture
def report():
    setting = Setting(
        **dict.fromkeys(("location", "collection_name", "engine", "encoder", "machine"), ""),
        **dict.fromkeys(("passages", "dim", "indexed", "seed"), 0),
        scorer=None,
        k=10,
        truth="qrels",
        created="",
    )
    points = (
        made(point(BASELINE, 10), 0.60, 5.0, 8.0, None),
        made(point("ef 16", 10, ef=16), 0.55, 4.0, 6.0, WORSE),
        made(point("96 dimensions", 10, truncate_dim=96), 0.61, 3.0, 4.0, LUCK),
        made(point("lucky", 10, rerank_depth=5), 0.61, 40.0, 60.0, LUCK),
        made(point("20", 10, rerank_depth=20), 0.65, 150.0, 190.0, SURE),
        made(point("20 again", 10, rerank_depth=20), 0.65, 140.0, 195.0, SURE),
        made(point("100", 10, rerank_depth=100), 0.68, 700.0, 900.0, SURE),
        made(point("MaxSim 100", 10, late=100), 0.70, 300.0, 400.0, SURE),
        made(point(EVERYTHING, 10, everything=True), None, 1e6, 1e6, None),
    )
    return TradeoffReport(
        setting=setting,
        measures=("nDCG@10",),
        queries=300,
        timed=30,
        sampled_pairs=32,
        points=points,
    )


@pytest.mark.parametrize(
    ("budget", "expected"),
    [
        (6, "ef 16"),
        (8, BASELINE),
        # The gain of "lucky" may be luck, so that its time is not worth spending.
        (100, BASELINE),
        (194, "20"),
        # Of equally accurate ones the faster by the median.
        (200, "20 again"),
        # Late interaction is a stage that a search has too.
        (500, "MaxSim 100"),
        (5000, "MaxSim 100"),
    ],
)
def test_by_budget_the_most_accurate_within_it(report, budget, expected):
    assert choose(report, budget_ms=budget).point.name == expected


@pytest.mark.parametrize(
    ("least", "expected"),
    [(0.5, "ef 16"), (0.6, BASELINE), (0.605, "20 again"), (0.68, "MaxSim 100")],
)
def test_by_accuracy_the_fastest_that_has_it(report, least, expected):
    assert choose(report, min_ndcg=least).point.name == expected


def test_what_cannot_be_had_names_the_nearest(report):
    with pytest.raises(InputError, match=r"within 5 ms: the fastest, 'ef 16', takes 6\.0 ms"):
        choose(report, budget_ms=5)
    with pytest.raises(InputError, match=r"nDCG@10 0\.71: .* 'MaxSim 100', has 0\.7000"):
        choose(report, min_ndcg=0.71)
    for wrong in ({}, {"budget_ms": 5, "min_ndcg": 0.5}):
        with pytest.raises(InputError, match="one of them"):
            choose(report, **wrong)
    for wrong in ({"budget_ms": 0}, {"budget_ms": float("nan")}, {"min_ndcg": -1.0}):
        with pytest.raises(InputError, match="expected a number above 0"):
            choose(report, **wrong)
