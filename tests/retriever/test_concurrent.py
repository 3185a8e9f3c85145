"""Many threads ask one retriever at once."""

import threading
from concurrent.futures import ThreadPoolExecutor
from time import monotonic

import pytest

from sbert_retriever import BiEncoder, Passage, Retriever
from sbert_retriever.errors import InputError, InputTypeError, TextTooLongError
from sbert_retriever.testing import HashEncoder, tiny_bert

CALLERS = 16
WAIT_S = 60


class Counting(BiEncoder):
    """Remembers how many texts each call had; the first call lets others gather."""

    gathered = threading.Event()
    calls: list[int]

    def encode_queries(self, texts, **options):
        texts = list(texts)
        self.calls.append(len(texts))
        if len(self.calls) == 1:
            self.gathered.wait(WAIT_S)
        return super().encode_queries(texts, **options)


@pytest.fixture
def counting(tmp_path):
    Counting.gathered, Counting.calls = threading.Event(), []
    encoder = Counting.load(tiny_bert(tmp_path / "model"), device="cpu", dtype="float32")
    encoder.warm_up()
    return encoder


def gathered(waiting, callers=CALLERS):
    """Wait until so many callers have no answer yet, then let the first call go on."""
    while waiting() < callers:
        assert not threading.Event().wait(0.005)
    Counting.gathered.set()


def test_questions_of_many_threads_are_answered_together_each_as_alone(counting, tmp_path):
    with Retriever.open(tmp_path / "place", model=counting) as retriever:
        retriever.index(Passage(f"p{n}", f"words of text {n}") for n in range(200))
        questions = [f"words of text {n}" for n in range(CALLERS)]
        with ThreadPoolExecutor(CALLERS) as pool:
            answers = [pool.submit(retriever.search, question, 3) for question in questions]
            gathered(lambda: retriever._joined.waiting)
            found = [answer.result(WAIT_S) for answer in answers]
        assert counting.calls == [1, CALLERS - 1]
        for question, hits in zip(questions, found, strict=True):
            alone = retriever.search(question, 3)
            assert [hit.id for hit in hits] == [hit.id for hit in alone]
            assert [h.score for h in hits] == pytest.approx([h.score for h in alone], abs=1e-6)


def test_callers_who_ask_differently_each_get_what_they_asked_for(counting, tmp_path):
    """Options are kept apart, and so is a filter for True from one for 1."""
    asked = [
        {"k": 1},
        {"k": 3},
        {"k": 9, "filter": {"paid": True}},
        {"k": 9, "filter": {"paid": 1}},
        {"k": 9, "filter": {"paid": {"in": [1, 2]}}},
        {"k": 2, "exact": True, "score_threshold": -1.0},
        {"k": 2, "group_by": "kind"},
        {"k": 3, "budget_ms": 5.0},
    ]
    with Retriever.open(tmp_path / "place", model=counting) as retriever:
        retriever.index(
            Passage(f"p{n}", f"words of text {n}", {"paid": paid, "kind": n % 2})
            for n, paid in enumerate([True, 1, 2, False, 0, True, 1])
        )
        with ThreadPoolExecutor(len(asked)) as pool:
            answers = [pool.submit(retriever.search, "words", **options) for options in asked]
            gathered(lambda: retriever._joined.waiting, len(asked) - 1)
            with pytest.raises(InputError, match="there is no reranker"):
                answers.pop().result(WAIT_S)
            found = [answer.result(WAIT_S) for answer in answers]
        assert [len(hits) for hits in found[:2]] == [1, 3]
        assert [sorted(hit.id for hit in hits) for hits in found[2:5]] == [
            ["p0", "p5"],
            ["p1", "p6"],
            ["p1", "p2", "p6"],
        ]
        assert [len(hits) for hits in found[5:]] == [2, 2]


@pytest.mark.parametrize("seconds", [2, pytest.param(60, marks=pytest.mark.full)])
def test_thirty_two_threads_get_the_answers_of_one(minilm, tmp_path, seconds):
    subjects = [
        "bread",
        "tea",
        "rivers",
        "winter",
        "trains",
        "chess",
        "violins",
        "glaciers",
        "spiders",
        "copper",
    ]
    passages = [
        Passage(f"{subject}{n}", f"Chapter {n}: what everybody should know about {subject}.")
        for subject in subjects
        for n in range(5)
    ]
    questions = [f"{word} {subject}" for subject in subjects for word in ("learn about", "the")]
    with Retriever.open(tmp_path / "place", model=minilm) as retriever:
        retriever.index(passages)
        alone = [retriever.search(question, 5) for question in questions]
        end, checked = monotonic() + seconds, [0] * 32

        def ask(thread):
            while monotonic() < end:
                n = (checked[thread] * 7 + thread) % len(questions)
                hits = retriever.search(questions[n], 5)
                assert [hit.id for hit in hits] == [hit.id for hit in alone[n]]
                assert [h.score for h in hits] == pytest.approx(
                    [h.score for h in alone[n]], abs=1e-6
                )
                checked[thread] += 1

        with ThreadPoolExecutor(32) as pool:
            list(pool.map(ask, range(32)))
        assert min(checked) > 0
        assert retriever._joined.counts.shares > retriever._joined.counts.batches


def test_an_error_reaches_only_the_caller_whose_question_it_is(tmp_path):
    encoder = BiEncoder.load(
        tiny_bert(tmp_path / "model"), device="cpu", dtype="float32", on_truncate="error"
    )
    too_long = "word " * 1000
    with Retriever.open(tmp_path / "place", model=encoder) as retriever:
        retriever.index([Passage("a", "a text")])

        def ask(number):
            try:
                return [hit.id for hit in retriever.search(too_long if number % 4 == 0 else "text")]
            except TextTooLongError:
                return "too long"

        with ThreadPoolExecutor(CALLERS) as pool:
            answers = list(pool.map(ask, range(8 * CALLERS)))
    assert answers == ["too long" if n % 4 == 0 else ["a"] for n in range(8 * CALLERS)]


def test_other_encoders_are_called_by_each_thread_itself():
    with Retriever.open(":memory:", model=HashEncoder()) as retriever:
        retriever.index([Passage("a", "a text")])
        retriever.search("text")
        assert retriever._joined.counts.batches == 0
        assert retriever._encoder._batcher is None
        with pytest.raises(InputTypeError):
            retriever.search(3)
