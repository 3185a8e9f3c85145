"""What happens to hits when they are reranked."""

from __future__ import annotations

import copy
import warnings
from dataclasses import replace

import numpy as np
import pytest

from sbert_retriever.errors import FallbackWarning, InputError, InputTypeError, ModelError
from sbert_retriever.rerank import EarlyStop, Reranker, RerankOptions
from sbert_retriever.types import Hit

BETTER = {"a": -1.0, "b": 2.0, "c": 5.0}


def ids(hits):
    return "".join(hit.id for hit in hits)


def test_inputs_are_left_alone_and_both_scores_kept(three, table_scorer):
    """The same list reranked for two queries is not changed, and no result is overwritten."""
    before = copy.deepcopy(three)
    reranker = Reranker(table_scorer(BETTER))
    first = reranker.rerank("one", three)
    kept = copy.deepcopy(first)
    second = Reranker(table_scorer({"a": 9.0})).rerank("two", three)
    assert three == before
    assert first == kept
    assert ids(first) == "cba"
    assert ids(second) == "abc"
    best = first[0]
    assert (best.score, best.score_kind) == (5.0, "logit")
    assert (best.first_score, best.first_score_kind) == (0.7, "cosine")
    assert best.reranked
    assert best.passage == three[2].passage
    assert (best.metadata, best.source) == ({"of": "c"}, "file.txt")


def test_edges_of_the_list(three, table_scorer):
    """Nothing, one hit, more wanted than there are, and none wanted."""
    reranker = Reranker(table_scorer(BETTER))
    assert reranker.rerank("q", []) == []
    assert ids(reranker.rerank("q", three[:1])) == "a"
    assert ids(reranker.rerank("q", three, k=99)) == "cba"
    assert reranker.rerank("q", three, k=0) == []
    assert ids(reranker.rerank("q", three, k=2)) == "cb"
    assert ids(reranker.rerank("q", three, candidates=0)) == "abc"
    assert reranker.rerank("q", three, candidates=0, min_score=0) == []
    assert ids(reranker.rerank("q", three, candidates=99)) == "cba"
    assert ids(reranker.rerank("q", tuple(three))) == "cba"


def test_ties_duplicates_and_empty_texts(make_hit, table_scorer, cross_encoder):
    """Equal scores keep the first stage's order, and an empty text is a text."""
    same = [make_hit("a", 0.9), make_hit("b", 0.8), make_hit("a", 0.7)]
    assert ids(Reranker(table_scorer({})).rerank("q", same)) == "aba"
    assert [h.first_score for h in Reranker(table_scorer({"b": 1.0})).rerank("q", same)] == [
        *(0.8, 0.9, 0.7)
    ]
    empty = replace(same[0], passage=replace(same[0].passage, text=""))
    found = Reranker(cross_encoder).rerank("who purrs?", [empty, make_hit("Cats purr.", 0.5)])
    assert [hit.text for hit in found] == ["Cats purr.", ""]


def test_rescored_hits_come_first(three, table_scorer):
    """A worse score of the scorer's still stands before a hit that it was not asked about."""
    found = Reranker(table_scorer({"a": -9.0, "b": -8.0})).rerank("q", three, candidates=2)
    assert ids(found) == "bac"
    assert [hit.reranked for hit in found] == [True, True, False]
    assert found[2] == three[2]
    assert [hit.score_kind for hit in found] == ["logit", "logit", "cosine"]


def test_a_second_rerank_keeps_the_first_stage_s_score(three, table_scorer):
    once = Reranker(table_scorer(BETTER)).rerank("q", three)
    twice = Reranker(table_scorer({"b": 3.0})).rerank("q", once)
    assert [hit.first_score for hit in twice] == [0.8, 0.7, 0.9]
    assert {hit.first_score_kind for hit in twice} == {"cosine"}


def test_the_threshold_is_on_the_scorer_s_declared_scale(three, table_scorer):
    """0.5 is a low bar for logits and a middling one for probabilities; each is what it says."""
    scorer = table_scorer({"a": 0.2, "b": 0.5, "c": 4.0})
    assert ids(Reranker(scorer).rerank("q", three, min_score=0.5)) == "cb"
    assert ids(Reranker(scorer).rerank("q", three, min_score=0.5, mode="fuse")) == "cb"
    assert ids(Reranker(scorer).rerank("q", three, min_score=0)) == "cba"
    scorer.score_kind = "probability"
    assert Reranker(scorer).rerank("q", three)[0].score_kind == "probability"
    assert ids(Reranker(scorer).rerank("q", three, candidates=1, min_score=-5)) == "a"


def test_ranks_are_fused(three, table_scorer):
    """1/(60+rank) of both orders: b is second in both, a and c are first and last."""
    found = Reranker(table_scorer({"a": 1.0, "b": 2.0, "c": 3.0})).rerank("q", three, mode="fuse")
    assert {hit.score_kind for hit in found} == {"rrf"}
    scores = {hit.id: hit.score for hit in found}
    assert scores["b"] == pytest.approx(2 / 62)
    assert scores["a"] == scores["c"] == pytest.approx(1 / 61 + 1 / 63)
    assert ids(found) == "acb"
    assert [hit.first_score for hit in found] == [0.9, 0.7, 0.8]
    # What a threshold is compared with can be read, also where orders are joined.
    assert [hit.rerank_score for hit in found] == [1.0, 3.0, 2.0]
    assert {hit.rerank_score_kind for hit in found} == {"logit"}


@pytest.mark.parametrize(
    ("weight", "order", "best"), [(0, "abc", 1), (1, "cba", 1), (0.75, "cba", 0.75)]
)
def test_normalised_scores_are_added_by_weight(weight, order, best, three, table_scorer):
    """Cosines .9 .8 .7 become 1 .5 0, logits 0 5 10 become 0 .5 1."""
    scorer = table_scorer({"a": 0.0, "b": 5.0, "c": 10.0})
    found = Reranker(scorer).rerank("q", three, mode="fuse", weight=weight)
    assert ids(found) == order
    assert found[0].score == pytest.approx(best)
    assert {hit.score_kind for hit in found} == {"fused"}


class Broken:
    """A scorer that fails from the n-th call on."""

    def __init__(self, error: Exception, after: int = 0) -> None:
        self.error, self.left = error, after

    def score(self, pairs):
        if self.left <= 0:
            raise self.error
        self.left -= 1
        return np.arange(len(pairs), dtype=np.float32)


@pytest.mark.parametrize(
    "error",
    [
        MemoryError("out of memory"),
        RuntimeError("CUDA out of memory"),
        TimeoutError("no answer"),
        ModelError("bad"),
    ],
)
@pytest.mark.parametrize("after", [0, 1])
def test_a_failure_leaves_the_first_stage_s_order_and_a_flag(error, after, three):
    """A search does not die of its second stage, whether it fails at once or half-way."""
    stop = EarlyStop(batch=1, stable_batches=9)
    with pytest.warns(FallbackWarning, match=type(error).__name__):
        found = Reranker(Broken(error, after)).rerank("q", three, k=2, early_stop=stop)
    assert ids(found) == "ab"
    assert [(hit.score, hit.score_kind, hit.reranked) for hit in found] == [
        *((0.9, "cosine", False), (0.8, "cosine", False))
    ]
    assert all(str(error) in hit.fallback for hit in found)
    with pytest.raises(type(error), match=str(error)):
        Reranker(Broken(error, after), on_failure="raise").rerank("q", three, k=2, early_stop=stop)


@pytest.mark.parametrize(
    ("scores", "said"),
    [
        ([1.0, float("nan"), 2.0], "1 of 3 scores that are not finite"),
        ([1.0, 2.0], r"shape \(2,\) for 3 pairs"),
        ([[1.0, 2.0]] * 3, r"shape \(3, 2\) for 3 pairs"),
    ],
)
def test_scores_that_are_none_are_a_failure(scores, said, three):
    """A score that is no number, and scores of two labels, are not sorted by."""

    class Odd:
        def score(self, pairs):
            del pairs
            return np.array(scores, dtype=np.float32)

    with pytest.warns(FallbackWarning, match=said):
        assert ids(Reranker(Odd()).rerank("q", three)) == "abc"


def test_a_threshold_that_could_not_be_applied_is_said(three):
    with pytest.warns(FallbackWarning):
        found = Reranker(Broken(MemoryError("full"))).rerank("q", three, min_score=0.5)
    assert ids(found) == "abc"
    assert found[0].fallback.endswith("the threshold on its scores was not applied")


def test_many_queries_at_once_are_as_one_by_one(three, table_scorer, cross_encoder):
    """One pass of the scorer over the pairs of all queries, with each query's own hits."""
    scorer = table_scorer(BETTER)
    runs = [three, [], three[1:], three[::-1]]
    found = Reranker(scorer).rerank_batch(["q", "r", "s", "t"], runs, candidates=2, mode="fuse")
    assert scorer.calls == 1
    single = [
        Reranker(scorer).rerank(query, hits, candidates=2, mode="fuse")
        for query, hits in zip("qrst", runs, strict=True)
    ]
    assert found == single
    assert Reranker(scorer).rerank_batch([], []) == []
    assert Reranker(scorer).rerank_batch(["q"], [three], k=0) == [[]]
    real = Reranker(cross_encoder)
    together = real.rerank_batch(["a", "c"], [three, three])
    for query, hits in zip("ac", together, strict=True):
        alone = real.rerank(query, three)
        assert [h.id for h in hits] == [h.id for h in alone]
        assert [h.score for h in hits] == pytest.approx([h.score for h in alone], abs=1e-4)


def test_a_batch_that_fails_keeps_every_order(three):
    with pytest.warns(FallbackWarning) as said:
        found = Reranker(Broken(MemoryError("full"))).rerank_batch(["q", "r"], [three, three[1:]])
    assert [ids(hits) for hits in found] == ["abc", "bc"]
    assert all(hit.fallback for hits in found for hit in hits)
    assert len(said) == 1


def test_early_stop_by_margin_leaves_out_what_is_far_below(make_hit, table_scorer):
    """Only candidates within the margin of the k-th are scored; a clear lead costs k pairs."""
    hits = [make_hit("a", 0.9), make_hit("b", 0.88), make_hit("c", 0.6), make_hit("d", 0.59)]
    scorer = table_scorer({"b": 3.0, "c": 9.0})
    stop = EarlyStop(margin=0.1, stable_batches=None)
    result = Reranker(scorer).rerank_detailed("q", hits, RerankOptions(k=1, early_stop=stop))
    assert [text for _, text in scorer.asked] == ["a", "b"]
    assert (result.ended, result.rescored, result.candidates) == ("early stop", 2, 4)
    assert ids(result.hits) == "b"
    far = Reranker(scorer).rerank("q", hits, k=3, early_stop=stop)
    assert ids(far) == "cba"


def test_early_stop_when_the_first_k_stay_the_same(make_hit, table_scorer):
    """Batches of 2: the best two stand after the first batch and after two more."""
    hits = [make_hit(f"{i}", 1 - i / 100) for i in range(20)]
    scorer = table_scorer({"0": 9.0, "1": 8.0})
    stop = EarlyStop(stable_batches=2, batch=2)
    options = RerankOptions(k=2, early_stop=stop)
    result = Reranker(scorer).rerank_detailed("q", hits, options)
    assert (result.ended, result.rescored) == ("early stop", 6)
    assert ids(result.hits) == "01"
    assert not any(hit.cut_short for hit in result.hits)
    late = table_scorer({"5": 9.0, "1": 8.0})
    assert Reranker(late).rerank_detailed("q", hits, options).rescored == 10


def test_a_shorter_pair_length_is_for_one_call(cross_encoder, make_hit):
    reranker = Reranker(cross_encoder)
    hits = [make_hit("Cats purr. " * 30, 0.9), make_hit("Dogs bark.", 0.8)]
    assert [h.truncated for h in reranker.rerank("who purrs?", hits, pair_length=24)] == [
        *(True, False)
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not any(h.truncated for h in reranker.rerank("who purrs?", hits))


def test_a_pair_length_needs_a_scorer_that_takes_one(three, table_scorer):
    with pytest.raises(InputError, match="TableScorer has no prepare"):
        Reranker(table_scorer({}), on_failure="raise").rerank("q", three, pair_length=64)


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"k": -1}, InputError),
        ({"k": 1.5}, InputTypeError),
        ({"k": True}, InputTypeError),
        ({"candidates": -1}, InputError),
        ({"budget_ms": -1}, InputError),
        ({"budget_ms": "fast"}, InputTypeError),
        ({"budget_ms": float("nan")}, InputError),
        ({"mode": "mix"}, InputError),
        ({"weight": 0.5}, InputError),
        ({"weight": 1.5, "mode": "fuse"}, InputError),
        ({"min_score": float("nan")}, InputError),
        ({"min_score": "high"}, InputTypeError),
        ({"early_stop": True}, InputTypeError),
        ({"early_stop": EarlyStop()}, InputError),
        ({"pair_length": 3}, InputError),
    ],
)
def test_settings_out_of_range_are_refused(settings, error, three, table_scorer):
    scorer = table_scorer({})
    with pytest.raises(error, match=next(iter(settings))):
        Reranker(scorer).rerank("q", three, **settings)
    assert not scorer.calls


def test_what_is_no_query_no_hit_and_no_scorer_is_named(three, table_scorer):
    reranker = Reranker(table_scorer({}))
    with pytest.raises(InputTypeError, match="query is list"):
        reranker.rerank(["q"], three)
    with pytest.raises(InputTypeError, match=r"hits\[1\] is str"):
        reranker.rerank("q", [three[0], "b"])
    with pytest.raises(InputTypeError, match="hits is str"):
        reranker.rerank("q", "abc")
    with pytest.raises(InputError, match="2 queries and 1 lists"):
        reranker.rerank_batch(["q", "r"], [three])
    with pytest.raises(InputTypeError, match="scorer is str"):
        Reranker("ms-marco-MiniLM-L12-v2")
    with pytest.raises(InputError, match="on_failure='ignore'"):
        Reranker(table_scorer({}), on_failure="ignore")
    for settings in ({"margin": -1}, {"stable_batches": 0}, {"batch": 0}, {"stable_batches": None}):
        with pytest.raises(InputError):
            EarlyStop(**settings)


async def test_the_asynchronous_twin_gives_the_same(three, table_scorer):
    reranker = Reranker(table_scorer(BETTER))
    result = await reranker.arerank("q", three, RerankOptions(k=2))
    assert result.hits == reranker.rerank("q", three, k=2)
    broken = Reranker(Broken(MemoryError("full")), on_failure="raise")
    with pytest.raises(MemoryError):
        await broken.arerank("q", three)


def test_real_weights_put_the_answer_first(make_hit):
    reranker = Reranker.load("ms-marco-MiniLM-L12-v2", device="cpu", dtype="float32")
    hits = [
        make_hit("Berlin is well known for its museums.", 0.9),
        make_hit("Berlin had a population of 3,520,031 registered inhabitants.", 0.8),
    ]
    found = reranker.rerank("How many people live in Berlin?", hits)
    assert [hit.first_score for hit in found] == [0.8, 0.9]
    assert found[0].score > 5 > 0 > found[1].score
    assert isinstance(found[0], Hit)
