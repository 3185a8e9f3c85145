"""Questions: an answer, a list, or "I don't know"."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from qdrant_client import models

from sbert_retriever import Faq, FaqEntry
from sbert_retriever.errors import FallbackWarning, InputError, InputTypeError
from sbert_retriever.faq import Thresholds
from sbert_retriever.faq.calibration import Setup
from sbert_retriever.faq.defaults import default_thresholds
from sbert_retriever.faq.matching import matched, weighed
from sbert_retriever.rerank import Reranker
from sbert_retriever.testing import TableScorer
from sbert_retriever.types import Hit, Passage

OPEN = Callable[..., Faq]


def test_a_question_in_other_words_gets_its_answer(meant: Faq, entries) -> None:
    found = meant.ask("what time do you open?")
    assert found.outcome == "answer"
    assert found.entry == entries[0]
    assert found.answer == entries[0].answer
    assert found.phrasing in entries[0].phrasings
    assert found.confidence is None
    assert found.candidates[0].entry == found.entry
    assert not found.exact
    assert {"exact", "encode", "search", "total"} <= set(found.timings_ms)


def test_what_the_faq_does_not_know_gets_no_answer(meant: Faq) -> None:
    found = meant.ask("What is the capital of France?")
    assert (found.outcome, found.answer, found.entry, found.phrasing) == (
        "abstain",
        None,
        None,
        None,
    )


def test_the_same_words_are_answered_without_a_model(open_faq: OPEN, entries) -> None:
    """A question that is a phrasing but for case, width and punctuation needs no search."""
    faq = open_faq(model=_Once())
    faq.add(entries)
    found = faq.ask("  WHEN are you open...")
    assert found.answer == entries[0].answer
    assert found.exact
    assert set(found.timings_ms) == {"exact", "total"}


def test_a_phrasing_that_two_entries_claim_is_for_the_user_to_choose(shop: Faq) -> None:
    shop.add(FaqEntry(id="open2", answer="Never.", phrasings=["On holidays?", "When are you open"]))
    found = shop.ask("when are you open?")
    assert found.outcome == "choose"
    assert {candidate.entry.id for candidate in found.candidates} == {"hours", "open2"}
    assert set(found.choices) == {"When are you open?", "On holidays?"}
    assert found.answer is None


def test_many_phrasings_are_one_candidate_with_the_best_of_them(shop: Faq) -> None:
    found = shop.ask("what are your hours then", k=5)
    ids = [candidate.entry.id for candidate in found.candidates]
    assert ids[0] == "hours"
    assert len(ids) == len(set(ids))
    assert found.candidates[0].phrasing == "What are your opening hours?"
    assert found.choices[0] == "What are your opening hours?"


def test_between_two_entries_there_is_a_list(open_faq: OPEN) -> None:
    faq = open_faq(thresholds=Thresholds(score=0.5, margin=0.05, choose=0.3))
    faq.add(
        [
            FaqEntry(id="red", answer="r", phrasings=["price of the red car"]),
            FaqEntry(id="blue", answer="b", phrasings=["price of the blue car"]),
        ]
    )
    assert faq.ask("price of the car").outcome == "choose"
    assert faq.ask("price of the red car please").outcome == "answer"
    assert len(faq.ask("price of the car", k=1).candidates) == 1


def test_an_entry_that_is_alone_is_not_measured_by_its_own_phrasings(open_faq: OPEN) -> None:
    """The nearer both were, the surer it was that there was no answer."""
    faq = open_faq()
    phrasings = ["price of the red car", "the price of the red car"]
    faq.add(FaqEntry(id="red", answer="r", phrasings=phrasings, tags=["cars"]))
    # 5 / sqrt(6 * 5) = 0.913 and 6 / sqrt(6 * 8) = 0.866
    assert faq.ask("price of the red car please").answer == "r"
    faq.add(FaqEntry(id="blue", answer="b", phrasings=["price of the blue boat"]))
    asked = "please the price of the red car"
    assert faq.ask(asked, filter={"tags": "cars"}).answer == "r"


def test_filters_keep_to_tags_and_languages(shop: Faq) -> None:
    assert shop.ask("when are you open", filter={"tags": "orders"}).outcome == "abstain"
    assert shop.ask("when are you open", filter={"tags": "shop"}).outcome == "answer"
    assert shop.ask("when are you open", filter={"language": ["en", "de"]}).outcome == "answer"


@pytest.mark.parametrize("question", ["when are you open", "so when are you open"])
def test_a_filter_has_the_forms_that_it_has_in_a_search(shop: Faq, question: str) -> None:
    """`{}` is no filter, and Qdrant's own class is one: both were refused."""
    assert shop.ask(question, filter={}).outcome == "answer"
    for tag, outcome in (("shop", "answer"), ("orders", "abstain")):
        match = models.FieldCondition(key="metadata.tags", match=models.MatchValue(value=tag))
        assert shop.ask(question, filter=models.Filter(must=[match])).outcome == outcome


def test_an_empty_faq_and_a_question_without_words_abstain(open_faq: OPEN, shop: Faq) -> None:
    empty = open_faq()
    assert empty.ask("anything").outcome == "abstain"
    assert empty.ask("anything").candidates == ()
    for question in ("", "   ", "?!", "\U0001f600"):
        assert shop.ask(question).outcome == "abstain"


@pytest.mark.parametrize(
    ("arguments", "error", "says"),
    [
        ({"question": 3}, InputTypeError, "question is int"),
        ({"question": None}, InputTypeError, "question is NoneType"),
        ({"question": "q", "previous": 3}, InputTypeError, "previous is int"),
        ({"question": "q", "k": 0}, InputError, "k is 0"),
        ({"question": "q", "budget_ms": -1}, InputError, "budget_ms is -1"),
        ({"question": "q", "filter": {"tags": {"like": "x"}}}, InputError, "like"),
    ],
)
def test_what_cannot_be_asked_is_refused(shop: Faq, arguments: Any, error: Any, says: str) -> None:
    with pytest.raises(error, match=says):
        shop.ask(**arguments)


def test_a_follow_up_is_asked_together_with_the_last_question(meant: Faq, entries) -> None:
    assert meant.ask("and on Sundays?").outcome != "answer"
    found = meant.ask("and on Sundays?", "When are you open?")
    assert found.entry == entries[0]
    assert found.question == "When are you open? and on Sundays?"


def test_a_budget_without_a_cross_encoder_is_refused(open_faq: OPEN, shop: Faq, entries) -> None:
    """It was taken, and did nothing."""
    for question in ("When are you open?", "so when are you open then"):
        with pytest.raises(InputError, match="budget_ms is time for a cross-encoder"):
            shop.ask(question, None, 200)
    faq = open_faq(reranker=TableScorer({}))
    faq.add(entries)
    assert faq.ask("When are you open?", None, 200).exact


def test_a_follow_up_and_the_last_question_share_one_budget(open_faq: OPEN, entries) -> None:
    """Each had all of it, and the answer came after twice the time."""
    reranker = _Told()
    faq = open_faq(reranker=reranker)
    faq.add(entries)
    faq.ask("and on Sundays?", "When are you open?", 60_000.0)
    first, second = reranker.budgets
    assert first <= 30_000
    assert second <= 60_000
    faq.ask("and on Sundays?", None, 60_000.0)
    assert 30_000 < reranker.budgets[2] <= 60_000


def test_the_last_question_alone_answers_no_follow_up(meant: Faq) -> None:
    """Any short question after one from the FAQ got that one's answer again."""
    found = meant.ask("is it free?", "When are you open?")
    assert found.outcome == "choose"
    assert (found.answer, found.entry) == (None, None)
    assert found.candidates[0].entry.id == "hours"


@pytest.mark.parametrize("message", ["thanks", "who won the world cup", "tell me a joke"])
def test_a_message_about_nothing_gets_no_list_of_the_last_question(
    open_faq: OPEN, minilm: Any, message: str
) -> None:
    """It was asked together with the last question, which alone made the list."""
    faq = open_faq(model=minilm, thresholds=None)
    titles = ("Can I hire a bicycle?", "Can I lease a bike?", "Where can I park?", "Any e-bikes?")
    faq.add([FaqEntry(id=title, answer="Yes.", phrasings=[title]) for title in titles])
    for previous in ("Can I hire a bicycle", "parking?"):
        assert faq.ask(message, previous).outcome == "abstain"
    follow = faq.ask("with a child seat?", "Can I hire a bicycle")
    assert follow.outcome != "abstain"
    assert follow.candidates[0].entry.id == "Can I hire a bicycle?"


def test_a_follow_up_is_measured_against_its_entry_however_many_are_nearer(
    open_faq: OPEN, minilm: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of many phrasings the nearest few are found, and its entry need not be one of them."""
    faq = open_faq(model=minilm, thresholds=None)
    titles = ("Can I hire a bicycle?", "Do you sell chairs?", "Where can I park?")
    faq.add([FaqEntry(id=title, answer="Yes.", phrasings=[title]) for title in titles])
    monkeypatch.setattr("sbert_retriever.faq.asking.PHRASINGS", 1)
    found = faq.ask("with a child seat?", "Can I hire a bicycle")
    assert found.outcome != "abstain"
    assert found.candidates[0].entry.id == "Can I hire a bicycle?"
    assert faq.ask("tell me a joke", "Can I hire a bicycle").outcome == "abstain"


def test_how_near_a_follow_up_has_to_be_can_be_said(open_faq: OPEN, entries) -> None:
    lists = {}
    for least in (-1.0, 1.0, None):
        faq = open_faq(thresholds=Thresholds(score=0.9, choose=0.3, follow_up=least))
        faq.add(entries)
        lists[least] = faq.ask("and jokes?", "When are you open").outcome
    assert lists == {-1.0: "choose", 1.0: "abstain", None: "abstain"}


def test_who_changes_the_subject_means_the_new_one(meant: Faq, entries) -> None:
    found = meant.ask("how long is the delivery?", "When are you open?")
    assert found.entry == entries[2]
    assert found.question == "how long is the delivery?"
    long = "what is the capital city of the country that lies north of Spain?"
    assert meant.ask(long, "When are you open?").outcome == "abstain"


def test_without_thresholds_there_are_lists_and_one_warning(open_faq: OPEN, entries) -> None:
    """A model whose scores nobody measured must not answer on another model's scale."""
    faq = open_faq(thresholds=None)
    faq.add(entries)
    with pytest.warns(FallbackWarning, match="calibrate the FAQ"):
        assert faq.ask("opening hours").outcome == "choose"
    assert faq.ask("opening hours").outcome == "choose"  # a second warning would be an error
    assert faq.ask("When are you open?").outcome == "answer"


@pytest.mark.parametrize(
    ("model", "score"),
    [
        ("all-MiniLM-L6-v2", 0.57),
        ("sentence-transformers/all-MiniLM-L6-v2", 0.57),
        ("BAAI/bge-small-en-v1.5", 0.75),
        ("/models/trained/all-MiniLM-L6-v2", None),
        ("someone/all-MiniLM-L6-v2", None),
        ("ms-marco-MiniLM-L12-v2", None),
        ("", None),
        (None, None),
    ],
)
def test_thresholds_are_those_of_the_model_that_was_measured(model: str | None, score) -> None:
    """A folder of the name has scores of its own where the model was trained further."""
    found = default_thresholds(model, setup=Setup(model=model, mode="dense"))
    assert (found and found.score) == score
    assert default_thresholds(model, setup=Setup(model=model, mode="hybrid")) is None


def test_a_cross_encoder_has_a_say_between_entries_that_are_nearly_as_near(open_faq: OPEN) -> None:
    """Its own order would undo matches that the first stage has right."""
    far = "colour of the small boat"
    texts = {"price of the red car r": 1.0, "price of the blue car b": 5.0, f"{far} f": 9.0}
    faq = open_faq(reranker=TableScorer(texts), thresholds=Thresholds(score=0, choose=0))
    faq.add(
        [
            FaqEntry(id="red", answer="r", phrasings=["price of the red car"]),
            FaqEntry(id="blue", answer="b", phrasings=["price of the blue car"]),
            FaqEntry(id="far", answer="f", phrasings=[far]),
        ]
    )
    found = faq.ask("price of the car")
    assert [c.entry.id for c in found.candidates] == ["blue", "red", "far"]
    assert [c.score for c in found.candidates] == [5.0, 1.0, 9.0]
    assert found.candidates[0].score_kind == "logit"
    assert found.candidates[0].first_score == pytest.approx(found.candidates[1].first_score)
    assert found.candidates[0].phrasing == "price of the blue car"


def test_a_cross_encoder_that_fails_leaves_the_first_stages_word(open_faq: OPEN, entries) -> None:
    faq = open_faq(reranker=_Broken())
    faq.add(entries)
    with pytest.warns(FallbackWarning, match="first stage's order is kept"):
        found = faq.ask("so when are you open?")
    assert found.entry == entries[0]
    assert "no luck" in (found.fallback or "")


def test_answers_can_be_matched_too(open_faq: OPEN, entries) -> None:
    entry = FaqEntry(id="fee", answer="A parking ticket costs two euros.", phrasings=["Fees?"])
    alone, both = open_faq(), open_faq(answers=True)
    for faq in (alone, both):
        faq.add([entry, *entries])
    asked = "what a parking ticket costs"
    assert alone.ask(asked).outcome == "abstain"
    found = both.ask(asked)
    assert found.candidates[0].entry == entry
    assert found.candidates[0].phrasing == "Fees?"
    both.edit("fee", answer="Free.")
    assert both.ask(asked).outcome == "abstain"


def test_words_are_matched_beside_meanings_where_they_are_kept(open_faq: OPEN, entries) -> None:
    faq = open_faq(sparse="bm25")
    faq.add(entries)
    assert faq.ask("opening hours please").candidates[0].score_kind == "fused"
    with pytest.raises(InputError, match="keeps no words"):
        open_faq(mode="hybrid")


def test_an_entry_that_is_deleted_while_it_is_found_is_not_answered(shop: Faq) -> None:
    """Between the search and the answer another thread deletes the entry."""
    nearest = shop._conversation.lookup.nearest

    def deleting(*args: Any, **options: Any) -> Any:
        found = nearest(*args, **options)
        shop.delete("hours")
        return found

    object.__setattr__(shop._conversation.lookup, "nearest", deleting)
    found = shop.ask("so when are you open?")
    assert found.outcome != "answer"
    assert "hours" not in [c.entry.id for c in found.candidates]


def test_threads_ask_and_write_at_once(shop: Faq) -> None:
    failed: list[BaseException] = []

    def ask() -> None:
        try:
            for _ in range(30):
                assert shop.ask("so when are you open?").entry is not None
        except BaseException as error:
            failed.append(error)

    def write(n: int) -> None:
        try:
            for turn in range(10):
                shop.add(
                    FaqEntry(id=f"t{n}", answer=f"{turn}", phrasings=[f"topic {n} {turn}"]),
                    replace=True,
                )
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    threads += [threading.Thread(target=write, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    assert {entry.answer for entry in shop.entries() if entry.id[0] == "t"} == {"9"}
    assert shop.retriever.count() == 5 + 4


def hit(entry: str, text: str, score: float) -> Hit:
    return Hit(Passage(f"{entry}#{text}", text, {"entry": entry, "kind": "phrasing"}), score)


def test_features_of_a_match_worked_out_by_hand() -> None:
    found = matched(
        [hit("a", "1", 0.9), hit("b", "1", 0.8), hit("a", "2", 0.7), hit("c", "1", 0.1)]
    )
    assert [match.entry for match in found.matches] == ["a", "b", "c"]
    # 0.9 + 0.05 * ln(1 + exp(-4)) = 0.900907...
    assert found.features["score"] == 0.9
    assert found.features["margin"] == pytest.approx(0.1009075, abs=1e-6)
    assert found.features["share"] == 0.5


def test_two_near_phrasings_outweigh_one_that_is_a_little_nearer() -> None:
    found = matched([hit("a", "1", 0.80), hit("b", "1", 0.79), hit("b", "2", 0.79)])
    # 0.79 + 0.05 * ln 2 = 0.8247
    assert [match.entry for match in found.matches] == ["b", "a"]
    assert found.features["margin"] == pytest.approx(0.79 + 0.05 * 0.693147 - 0.80, abs=1e-6)
    assert found.features["score"] == 0.79


def test_alone_an_entry_is_compared_with_the_last_phrasing_that_was_found() -> None:
    assert matched([hit("a", "1", 0.9)]).features["margin"] == pytest.approx(0.9)
    pair = matched([hit("a", "1", 0.9), hit("a", "2", 0.4)])
    assert pair.features["margin"] == pytest.approx(0.5, abs=1e-3)
    whole = matched([hit("a", "1", 0.9), hit("a", "2", 0.4)], complete=True)
    assert whole.features["margin"] == pytest.approx(0.9, abs=1e-3)
    assert matched([]).features == {"score": 0.0, "margin": 0.0, "share": 0.0}


def test_a_second_look_keeps_the_first_stages_numbers_of_the_new_first() -> None:
    first = matched([hit("a", "1", 0.90), hit("b", "1", 0.88)])
    found = weighed(first, {"a#1": 1.5, "b#1": 4.0}, "logit")
    # 0.90 + 0.015 < 0.88 + 0.04
    assert [match.entry for match in found.matches] == ["b", "a"]
    assert found.features == pytest.approx(
        {"score": 0.88, "margin": -0.02, "share": 0.5, "logit": 4.0, "logit_margin": 2.5}
    )
    assert (found.matches[0].hit.score, found.matches[0].hit.first_score) == (4.0, 0.88)
    assert [m.entry for m in weighed(first, {"a#1": 2.5, "b#1": 4.0}, "logit").matches] == [
        "a",
        "b",
    ]
    # What it had no time for follows what it saw.
    half = weighed(first, {"b#1": -9.0}, "logit")
    assert [match.entry for match in half.matches] == ["b", "a"]
    assert weighed(first, {}, "logit") == first


class _Once:
    """Encodes passages, and no questions."""

    def __init__(self) -> None:
        from sbert_retriever.testing import HashEncoder

        self._inner = HashEncoder()
        self.dim, self.identity = self._inner.dim, self._inner.identity
        self.encode_passages = self._inner.encode_passages

    def encode_queries(self, texts: Any) -> Any:
        raise AssertionError("nothing should be encoded")


class _Told(Reranker):
    """Remembers the time it was given, and takes what it needs."""

    def __init__(self) -> None:
        super().__init__(TableScorer({}))
        self.budgets: list[float] = []

    def rerank_detailed(self, query: Any, hits: Any, options: Any = None) -> Any:
        self.budgets.append(options.budget_ms)
        return super().rerank_detailed(query, hits)


class _Broken:
    score_kind = "logit"

    def score(self, pairs: Any) -> Any:
        raise RuntimeError("no luck")
