"""A point chosen by its price or its accuracy, and kept with the collection."""

import pytest

from sbert_retriever import Passage, Retriever
from sbert_retriever.errors import ContractError, InputError
from sbert_retriever.evaluation.bootstrap import PairedDifference
from sbert_retriever.testing import HashEncoder
from sbert_retriever.tradeoff.choose import choose, save_profile
from sbert_retriever.tradeoff.points import BASELINE, EVERYTHING, point
from sbert_retriever.tradeoff.records import Setting
from sbert_retriever.tradeoff.report import PointReport, TradeoffReport
from sbert_retriever.types import Profile

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
        (5000, "100"),
    ],
)
def test_by_budget_the_most_accurate_within_it(report, budget, expected):
    assert choose(report, budget_ms=budget).point.name == expected


@pytest.mark.parametrize(
    ("least", "expected"), [(0.5, "ef 16"), (0.6, BASELINE), (0.605, "20 again"), (0.68, "100")]
)
def test_by_accuracy_the_fastest_that_has_it(report, least, expected):
    assert choose(report, min_ndcg=least).point.name == expected


def test_what_cannot_be_had_names_the_nearest(report):
    with pytest.raises(InputError, match=r"within 5 ms: the fastest, 'ef 16', takes 6\.0 ms"):
        choose(report, budget_ms=5)
    with pytest.raises(InputError, match=r"no point reaches nDCG@10 0\.69: .* '100', has 0\.6800"):
        choose(report, min_ndcg=0.69)
    for wrong in ({}, {"budget_ms": 5, "min_ndcg": 0.5}):
        with pytest.raises(InputError, match="one of them"):
            choose(report, **wrong)
    for wrong in ({"budget_ms": 0}, {"budget_ms": float("nan")}, {"min_ndcg": -1.0}):
        with pytest.raises(InputError, match="expected a number above 0"):
            choose(report, **wrong)


def test_a_profile_is_kept_with_the_collection_on_every_engine(engine):
    retriever = engine.open()
    store = retriever.store
    run = store.connection.run
    assert run(store.profile()) is None
    first = Profile(name="mine", candidates=30, rerank_depth=20, rerank_mode="fuse")
    save_profile(retriever, first)
    assert run(store.profile()) == first
    second = Profile(name="other", ef=64, rerank_depth=0)
    save_profile(retriever, second)
    assert run(store.profile()) == second
    # The contract stands beside it.
    assert retriever.info().model == "HashEncoder"
    retriever.index([Passage("a", "cats purr")])
    assert retriever.search("cats", 1)[0].id == "a"


def test_a_profile_outlives_the_process_that_saved_it(tmp_path):
    profile = Profile(name="mine", rerank_depth=5)
    with Retriever.open(tmp_path, model=HashEncoder()) as retriever:
        save_profile(retriever, profile)
    with Retriever.open(tmp_path, model=HashEncoder()) as retriever:
        store = retriever.store
        assert store.connection.run(store.profile()) == profile


@pytest.mark.parametrize("damaged", [{"unknown": 1}, {"candidates": 0}, [1], "text"])
def test_a_profile_of_a_newer_version_is_refused_by_name(tmp_path, damaged):
    with Retriever.open(tmp_path, model=HashEncoder()) as retriever:
        store = retriever.store
        store.connection.client.update_collection(
            store.collection_name, metadata={"sbert_retriever_profile": damaged}
        )
        with pytest.raises(ContractError, match="saved profile cannot be used"):
            store.connection.run(store.profile())
