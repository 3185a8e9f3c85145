"""Searches with a reranker: what it is asked, what comes back, and what holds where none is said.

The scorers' scores stand in a table, so each order is known beforehand.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

import numpy as np
import pytest

from sbert_retriever import Passage, Profile, Retriever
from sbert_retriever.errors import ContractError, FallbackWarning, InputError, InputTypeError
from sbert_retriever.rerank import Reranker
from sbert_retriever.search import answer
from sbert_retriever.search.request import Query
from sbert_retriever.testing import HashEncoder, TableScorer

TEXTS = ["one two three four", "one two three six", "one two seven six", "one eight seven six"]
QUESTION = "one two three four"
# By the words in common, the first stage finds them in this order; the scorer turns it round.
PASSAGES = [Passage(f"p{n}", text, {"n": n}, "words") for n, text in enumerate(TEXTS)]
TURNED = {text: float(n) for n, text in enumerate(TEXTS)}


def ids(hits):
    return [hit.id for hit in hits]


@pytest.fixture
def scorer():
    return TableScorer(TURNED)


@pytest.fixture
def plain(engine):
    retriever = engine.open()
    retriever.index(PASSAGES)
    return retriever


@pytest.fixture
def turned(plain, scorer):
    return plain.with_reranker(scorer)


def test_without_a_reranker_nothing_changes(plain):
    hits = plain.search(QUESTION, 4)
    assert ids(hits) == ["p0", "p1", "p2", "p3"]
    assert {h.score_kind for h in hits} == {"cosine"}
    assert not any(h.reranked or h.fallback or h.cut_short for h in hits)


def test_the_cross_encoders_order_replaces_the_first_and_both_scores_are_kept(plain, turned):
    """Hits keep their ids, metadata and both scores, in every mode."""
    before = {hit.id: hit for hit in plain.search(QUESTION, 4)}
    found = turned.search_detailed(QUESTION, 4, candidates=4)
    assert ids(found.hits) == ["p3", "p2", "p1", "p0"]
    assert [h.score for h in found.hits] == [3.0, 2.0, 1.0, 0.0]
    for hit in found.hits:
        assert hit.passage == PASSAGES[int(hit.id[1])]
        assert (hit.score_kind, hit.reranked) == ("logit", True)
        assert (hit.first_score, hit.first_score_kind) == (before[hit.id].score, "cosine")
    assert (found.candidates, found.rescored) == (4, 4)
    stages = ("encode", "search", "rerank")
    assert found.timings_ms["total"] >= sum(found.timings_ms[stage] for stage in stages) - 1e-6


def test_only_the_candidates_are_scored_and_they_come_first(turned, scorer):
    hits = turned.search(QUESTION, 4, candidates=2)
    assert ids(hits) == ["p1", "p0", "p2", "p3"]
    assert [hit.reranked for hit in hits] == [True, True, False, False]
    assert [hit.score_kind for hit in hits] == ["logit", "logit", "cosine", "cosine"]
    assert {text for _, text in scorer.asked} == set(TEXTS[:2])


def test_more_candidates_than_hits_asked_for_bring_up_what_lies_deep(turned):
    assert ids(turned.search(QUESTION, 1, candidates=4)) == ["p3"]
    assert ids(turned.search(QUESTION, 1, candidates=3)) == ["p2"]


def test_fused_orders_count_both(turned):
    """Ranks 1 to 4 and 4 to 1: the ends gain by 1/61 + 1/64 > 1/62 + 1/63, ties as they came."""
    hits = turned.search(QUESTION, 4, candidates=4, rerank_mode="fuse")
    assert ids(hits) == ["p0", "p3", "p1", "p2"]
    assert hits[0].score == pytest.approx(1 / 61 + 1 / 64)
    assert {hit.score_kind for hit in hits} == {"rrf"}


def test_each_threshold_is_on_its_own_scale(turned):
    """A number that keeps cosines keeps the same hits with a reranker as without."""
    cosines = {h.id: h.first_score for h in turned.search(QUESTION, 4, candidates=4)}
    kept = turned.search(QUESTION, 4, candidates=4, score_threshold=cosines["p1"])
    assert ids(kept) == ["p1", "p0"]
    assert ids(turned.search(QUESTION, 4, candidates=4, rerank_threshold=2)) == ["p3", "p2"]
    assert ids(turned.search(QUESTION, 4, candidates=2, rerank_threshold=0)) == ["p1", "p0"]


def test_filters_hold_before_the_rerank(turned, scorer):
    assert ids(turned.search(QUESTION, 4, candidates=4, filter={"n": {"lt": 2}})) == ["p1", "p0"]
    assert len(scorer.asked) == 2


def test_a_batch_gives_what_single_questions_give(turned):
    questions = [QUESTION, "one eight seven six"]
    for options in (
        {"candidates": 3},
        {"candidates": 3, "rerank_mode": "fuse"},
        {"profile": "fast"},
    ):
        single = [turned.search(question, 3, **options) for question in questions]
        together = turned.search_batch(questions, 3, **options)
        assert [ids(hits) for hits in together] == [ids(hits) for hits in single]
        for hits, others in zip(together, single, strict=True):
            assert [h.score for h in hits] == pytest.approx([h.score for h in others])
    detailed = turned.search_batch_detailed(questions, 3, candidates=3)
    assert [(d.candidates, d.rescored) for d in detailed] == [(3, 3), (3, 3)]


def test_the_asynchronous_twins_give_the_same(turned):
    async def ask():
        one = await turned.asearch(QUESTION, 2, candidates=4)
        detailed = await turned.asearch_detailed(QUESTION, 2, budget_ms=10_000)
        batch = await turned.asearch_batch([QUESTION, QUESTION], 2, candidates=4)
        return one, detailed, batch

    one, detailed, batch = asyncio.run(ask())
    assert ids(one) == ["p3", "p2"]
    assert ids(detailed.hits) == ["p3", "p2"]
    assert (detailed.candidates, detailed.rescored) == (4, 4)
    assert [ids(hits) for hits in batch] == [["p3", "p2"]] * 2


def test_a_failing_scorer_leaves_the_first_stages_order_and_says_so(plain):
    """Out of memory in the second stage is no reason to lose the search."""

    class OutOfMemory(TableScorer):
        def score(self, pairs):
            raise MemoryError("no room for a batch")

    with pytest.warns(FallbackWarning, match="no room for a batch"):
        found = plain.with_reranker(OutOfMemory({})).search_detailed(QUESTION, 2, candidates=4)
    assert ids(found.hits) == ["p0", "p1"]
    assert all("MemoryError: no room" in hit.fallback for hit in found.hits)
    assert [hit.score_kind for hit in found.hits] == ["cosine"] * 2
    assert (found.candidates, found.rescored) == (4, 0)
    with pytest.warns(FallbackWarning):
        batch = plain.with_reranker(OutOfMemory({})).search_batch_detailed([QUESTION] * 2)
    assert [answer.rescored for answer in batch] == [0, 0]
    strict = plain.with_reranker(Reranker(OutOfMemory({}), on_failure="raise"))
    with pytest.raises(MemoryError):
        strict.search(QUESTION)


def test_no_time_keeps_the_first_stages_order_with_the_reason(turned):
    hits = turned.search(QUESTION, 2, budget_ms=0)
    assert ids(hits) == ["p0", "p1"]
    assert all("0 ms for the rerank are too short" in hit.fallback for hit in hits)
    assert all(hit.cut_short and not hit.reranked for hit in hits)


def test_what_is_said_comes_before_the_profile(turned, scorer):
    profile = Profile(name="mine", candidates=2, rerank_depth=2, rerank_mode="fuse")
    assert {h.score_kind for h in turned.search(QUESTION, 2, profile=profile)} == {"rrf"}
    hits = turned.search(QUESTION, 4, profile=profile, candidates=3, rerank_mode="replace")
    assert ids(hits) == ["p2", "p1", "p0", "p3"]
    scorer.asked.clear()
    turned.search(QUESTION, 1, profile="fast")
    assert scorer.asked == []


@pytest.mark.parametrize(
    "options",
    [
        {"candidates": np.int64(4)},
        {"budget_ms": np.float32(60_000)},
        {"candidates": 4, "exact": np.True_, "ef": np.int32(64), "oversampling": np.float32(2)},
    ],
)
def test_numbers_of_numpy_are_numbers(turned, options):
    found = turned.search_detailed(QUESTION, np.int64(4), **options)
    assert ids(found.hits) == ["p3", "p2", "p1", "p0"]
    assert found.rescored == 4


def test_a_reranker_that_was_opened_is_used_where_nothing_is_said(turned):
    assert all(hit.reranked for hit in turned.search(QUESTION, 4))
    assert Profile.named("balanced").reranks


def test_the_saved_profile_holds_where_nothing_is_said(lasting_engine, scorer):
    mine = Profile(name="mine", candidates=2, rerank_depth=2)
    retriever = lasting_engine.open()
    retriever.index(PASSAGES)
    assert retriever.profile is None
    retriever.save_profile(Profile(name="other", rerank_depth=0, exact=True))
    retriever.save_profile(mine)
    assert retriever.profile == mine
    again = lasting_engine.open(reranker=scorer)
    assert again.profile == mine
    assert again.info().model == "HashEncoder"
    assert ids(again.search(QUESTION, 4)) == ["p1", "p0", "p2", "p3"]
    assert ids(again.search(QUESTION, 4, profile="fast")) == ["p0", "p1", "p2", "p3"]
    with pytest.raises(InputError, match="the collection's profile asks for a rerank"):
        retriever.search(QUESTION)


def test_a_saved_profile_brings_the_reranker_that_it_names(tmp_path, monkeypatch):
    """Who saved an operating point gets it, without naming the cross-encoder each time."""
    asked = []

    def load(name, **settings):
        asked.append((name, settings))
        return Reranker(TableScorer(TURNED))

    monkeypatch.setattr(Reranker, "load", load)
    with Retriever.open(tmp_path, model=HashEncoder()) as retriever:
        retriever.index(PASSAGES)
        retriever.save_profile(Profile(candidates=4, reranker="some/cross-encoder"))
    with Retriever.open(tmp_path, model=HashEncoder(), dtype="float32") as retriever:
        assert asked == []
        for _ in range(2):
            assert ids(retriever.search(QUESTION, 1)) == ["p3"]
        assert asked == [("some/cross-encoder", {"device": "auto", "dtype": "float32"})]


@pytest.mark.parametrize("damaged", [{"unknown": 1}, {"candidates": 0}, [1], "text"])
def test_a_profile_that_cannot_be_read_is_refused_and_can_be_replaced(tmp_path, damaged):
    with Retriever.open(tmp_path, model=HashEncoder()) as retriever:
        retriever.index(PASSAGES)
        store = retriever.store
        store.connection.client.update_collection(
            store.collection_name, metadata={"sbert_retriever_profile": damaged}
        )
    with Retriever.open(tmp_path, model=HashEncoder()) as retriever:
        with pytest.raises(ContractError, match="saved profile cannot be used"):
            retriever.search(QUESTION)
        assert ids(retriever.search(QUESTION, 1, profile="fast")) == ["p0"]
        retriever.save_profile(Profile.named("fast"))
        assert ids(retriever.search(QUESTION, 1)) == ["p0"]


def test_late_interaction_as_a_profile(plain, scorer):
    """Token vectors of the same encoder put the candidates in order before the cross-encoder."""

    class Tokens(HashEncoder):
        def encode_tokens(self, texts, *, role):
            del role
            # Every passage has one token; the query's is most like that of the longest number.
            return [self.encode_passages([text.split()[-1]]) for text in texts]

    late = plain._encoder._encoder
    assert isinstance(late, HashEncoder)
    with pytest.raises(InputError, match="HashEncoder gives none"):
        plain.search(QUESTION, profile=Profile(late=4, candidates=4, rerank_depth=0))
    plain._encoder._encoder = Tokens(dim=64)
    profile = Profile(late=4, candidates=4, rerank_depth=0)
    hits = plain.search("six", 4, profile=profile)
    assert hits[0].score == pytest.approx(1, abs=1e-5)
    assert {hit.text.split()[-1] for hit in hits[:3]} == {"six"}
    assert {hit.score_kind for hit in hits} == {"maxsim"}
    both = plain.with_reranker(scorer).search("six", 4, profile=replace(profile, rerank_depth=3))
    assert ids(both) == ["p3", "p2", "p1", "p0"]
    assert both[0].first_score_kind == "cosine"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"candidates": 5}, "candidates=5 asks for a rerank, and there is no reranker: open"),
        ({"budget_ms": 100}, "budget_ms=100 asks for a rerank"),
        ({"rerank_mode": "fuse"}, "rerank_mode='fuse' asks for a rerank"),
        ({"profile": "balanced"}, "profile='balanced' asks for a rerank"),
        ({"rerank_threshold": 1.0, "profile": "fast"}, "rerank_threshold is a score of the rer"),
        ({"profile": "quick"}, "no profile 'quick', expected one of fast, balanced, accurate"),
        ({"profile": Profile(truncate_dim=8, rerank_depth=0)}, "cuts vectors to 8 dimensions"),
        ({"candidates": 0}, "candidates is 0, expected 1 or more"),
        ({"budget_ms": -1}, "budget_ms is -1, expected 0 or more"),
        ({"budget_ms": float("nan")}, "budget_ms is NaN"),
        ({"rerank_mode": "both"}, "rerank_mode is 'both', expected 'replace', 'fuse' or None"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_sentence(plain, options, message):
    with pytest.raises(InputError, match=message):
        plain.search(QUESTION, **options)


def test_wrong_types_are_named(plain, tmp_path):
    with pytest.raises(InputTypeError, match="candidates is '5', expected a whole number"):
        plain.search(QUESTION, candidates="5")
    with pytest.raises(InputTypeError, match="profile is int, expected a name or a Profile"):
        plain.search(QUESTION, profile=3)
    with pytest.raises(InputTypeError, match="profile is str, expected a Profile"):
        plain.save_profile("fast")
    for wrong, name in ((7, "int"), (TableScorer, "the class TableScorer")):
        with pytest.raises(InputTypeError, match=f"reranker is {name}, expected a name"):
            Retriever.open(tmp_path / "new", model=HashEncoder(), reranker=wrong)
    assert not (tmp_path / "new").exists()


def test_a_vector_has_no_text_to_rerank(turned):
    assert ids(turned.search_by_vector(HashEncoder(dim=64).encode_queries([QUESTION])[0], 4)) == [
        "p0", "p1", "p2", "p3",
    ]  # fmt: skip
    with pytest.raises(TypeError, match="candidates"):
        turned.search_by_vector([1.0] * 64, candidates=3)


def test_expanding_comes_after_the_rerank(turned):
    """The cross-encoder judges the chunk that was found, and the answer has what is around it."""
    hits = turned.search(QUESTION, 1, candidates=4, expand="neighbours")
    assert ids(hits) == ["p3"]
    assert hits[0].score == 3.0


def test_the_clock_of_a_query_starts_when_both_models_are_there(tmp_path, monkeypatch):
    """The first question of a session costs what the second does, as far as its timings say."""
    events = []

    class SlowEncoder(HashEncoder):
        def warm_up(self):
            events.append("encoder")

    class SlowScorer(TableScorer):
        def warm_up(self):
            events.append("scorer")

    def clock():
        events.append("clock")
        return 0.0

    monkeypatch.setattr(answer, "perf_counter", clock)
    with Retriever.open(
        tmp_path, model=SlowEncoder(dim=64), reranker=SlowScorer(TURNED)
    ) as retriever:
        retriever.index(PASSAGES)
        retriever.search(QUESTION, 2, candidates=4)
    assert events[:3] == ["encoder", "scorer", "clock"]
    assert set(events[3:]) == {"clock"}


def test_an_early_stop_watches_the_hits_that_groups_are_made_of(engine):
    """It watched all candidates, which are never the same, and all of them were scored."""
    passages = [Passage(f"s{n}", QUESTION + " else" * n, {}, f"file{n}") for n in range(40)]
    retriever = engine.open()
    retriever.index(passages)
    falling = TableScorer({p.text: float(-n) for n, p in enumerate(passages)})
    stopping = Profile(candidates=40, early_batches=2)
    with_scorer = retriever.with_reranker(falling)
    plain = with_scorer.search_detailed(QUESTION, 2, profile=stopping)
    grouped = with_scorer.search_detailed(QUESTION, 2, profile=stopping, group_by="source")
    assert plain.rescored == grouped.rescored < 40
    assert ids(plain.hits) == ids(grouped.hits)


@pytest.mark.parametrize(
    ("settings", "depth"),
    [
        ({"rerank_mode": "fuse", "fuse_weight": 0.5}, 2),
        ({"early_margin": 0.1}, 2),
        ({"rerank_mode": "fuse"}, 4),
        ({}, 4),
    ],
)
def test_scores_of_two_scales_are_not_compared(settings, depth):
    """Late interaction scored two, and the others have cosines: no weight or margin joins those."""
    profile = Profile(candidates=4, late=2, **settings)
    asked = Query(k=1)
    assert answer._options(asked, profile, 0.0).candidates == depth
