"""Many threads ask one retriever at once."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from sbert_retriever import BiEncoder, Passage, Retriever
from sbert_retriever.errors import InputTypeError, TextTooLongError
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


def test_questions_of_many_threads_are_encoded_together_and_answered_apart(counting, tmp_path):
    with Retriever.open(tmp_path / "place", model=counting) as retriever:
        retriever.index(Passage(f"p{n}", f"words of text {n}") for n in range(200))
        questions = [f"words of text {n}" for n in range(CALLERS)]
        with ThreadPoolExecutor(CALLERS) as pool:
            answers = [pool.submit(retriever.search, question, 3) for question in questions]
            batcher = retriever._encoder._joined(counting)
            while batcher.waiting < CALLERS:
                assert not threading.Event().wait(0.005)
            counting.gathered.set()
            found = [answer.result(WAIT_S) for answer in answers]
        assert counting.calls == [1, CALLERS - 1]
        for question, hits in zip(questions, found, strict=True):
            alone = retriever.search(question, 3)
            assert [hit.id for hit in hits] == [hit.id for hit in alone]
            assert [h.score for h in hits] == pytest.approx([h.score for h in alone], abs=1e-6)


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
        assert retriever._encoder._batcher is None
        with pytest.raises(InputTypeError):
            retriever.search(3)
