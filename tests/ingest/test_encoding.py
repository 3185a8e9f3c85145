"""Reading, encoding and writing at the same time."""

import threading

import numpy as np
import pytest
from qdrant_client import QdrantClient

from sbert_retriever import BiEncoder, Passage, Retriever
from sbert_retriever.encoder.giving_up import stop_event
from sbert_retriever.errors import GivenUpError
from sbert_retriever.ingest import sync
from sbert_retriever.ingest.encoding import Thread
from sbert_retriever.testing import HashEncoder, tiny_bert

WAIT_S = 30


@pytest.fixture(autouse=True)
def windows_of_two(monkeypatch):
    monkeypatch.setattr(sync, "WINDOW_PASSAGES", 2)


class WaitingEncoder(HashEncoder):
    """Encodes each window only once an event has happened; which did not in time it remembers."""

    def __init__(self, events):
        super().__init__(dim=64)
        self.events = list(events)
        self.late = []

    def encode_passages(self, texts):
        if self.events:
            event = self.events.pop(0)
            if not event.wait(WAIT_S):
                self.late.append(texts)
        return super().encode_passages(texts)


class BrokenEncoder(HashEncoder):
    """Fails at one text."""

    def encode_passages(self, texts):
        if "bad" in texts:
            raise ZeroDivisionError("inside the encoder")
        return super().encode_passages(texts)


def at_once():
    event = threading.Event()
    event.set()
    return event


def passages(*texts):
    return [Passage(f"p{n}", text) for n, text in enumerate(texts)]


def ids(retriever):
    return sorted(p.id for p in retriever.scroll()[0])


def test_the_next_window_is_drawn_while_one_is_encoded():
    drawn = threading.Event()

    def draw():
        yield from passages("a", "b", "c", "d", "e")
        drawn.set()

    encoder = WaitingEncoder([at_once(), drawn])
    with Retriever.open(":memory:", model=encoder) as retriever:
        assert retriever.index(draw()).added == 5
    assert encoder.late == []


def test_a_window_is_written_while_the_next_is_encoded():
    written = threading.Event()
    upserts = []

    class Client(QdrantClient):
        def upsert(self, **request):
            result = super().upsert(**request)
            upserts.append(request)
            if len(upserts) == 2:
                written.set()
            return result

    encoder = WaitingEncoder([at_once(), at_once(), written])
    with Retriever.open(client=Client(":memory:"), model=encoder) as retriever:
        assert retriever.index(passages("a", "b", "c", "d", "e", "f")).added == 6
    assert encoder.late == []


def test_passages_are_drawn_in_the_callers_thread():
    """A database's cursor may be read in the thread that opened it alone."""
    threads = set()

    def draw():
        for passage in passages("a", "b", "c", "d", "e"):
            threads.add(threading.get_ident())
            yield passage

    with Retriever.open(":memory:", model=HashEncoder()) as retriever:
        retriever.index(draw())
    assert threads == {threading.get_ident()}


@pytest.mark.parametrize("before", [0, 1, 2, 3, 4, 5])
def test_what_was_drawn_before_an_error_is_in(before):
    def draw():
        yield from passages(*"abcdefgh"[:before])
        raise OSError("the disk is gone")

    with Retriever.open(":memory:", model=HashEncoder()) as retriever:
        with pytest.raises(OSError, match="the disk is gone"):
            retriever.index(draw())
        assert ids(retriever) == [f"p{n}" for n in range(before)]


def test_a_passage_that_is_refused_stops_nothing_that_came_before():
    with Retriever.open(":memory:", model=HashEncoder()) as retriever:
        with pytest.raises(TypeError, match="item 5 is str"):
            retriever.index([*passages("a", "b", "c", "d"), "no passage"])
        assert ids(retriever) == ["p0", "p1", "p2", "p3"]


def test_an_encoder_that_fails_stops_the_run_and_says_where():
    drawn = []

    def draw():
        for passage in passages("a", "b", "c", "bad", "e", "f", "g", "h", "i"):
            drawn.append(passage.id)
            yield passage

    with Retriever.open(":memory:", model=BrokenEncoder()) as retriever:
        with pytest.raises(ZeroDivisionError) as raised:
            retriever.index(draw())
        assert ids(retriever) == ["p0", "p1"]
    assert raised.value.__notes__ == ["while 2 texts were encoded, 'c' the first"]
    assert drawn == ["p0", "p1", "p2", "p3", "p4", "p5"]


def test_nothing_is_left_running():
    with Retriever.open(":memory:", model=BrokenEncoder()) as retriever:
        retriever.index(passages("a", "b", "c"))
        with pytest.raises(ZeroDivisionError):
            retriever.index([Passage("q", "bad")])
    for thread in threading.enumerate():
        if thread.name.startswith("sbert-encode"):
            thread.join(WAIT_S)
    assert not [t for t in threading.enumerate() if t.name.startswith("sbert-encode")]


def test_an_encoding_that_nobody_waits_for_ends_between_two_batches(tmp_path):
    encoder = BiEncoder.load(tiny_bert(tmp_path), device="cpu", dtype="float32", batch_tokens=8)
    encoder.warm_up()
    begun = threading.Event()

    def encode():
        begun.set()
        return encoder.encode_passages(["some words of a text"] * 200_000)

    with Thread() as thread:
        job = thread.submit(encode)
        assert begun.wait(WAIT_S)
    with pytest.raises(GivenUpError):
        job.result(WAIT_S)
    assert stop_event.get() is None
    assert np.isfinite(encoder.encode_passages(["and goes on"])).all()
