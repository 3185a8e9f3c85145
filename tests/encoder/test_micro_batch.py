"""Callers in several threads share batches, and each gets what it would get alone."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context

import numpy as np
import pytest

from sbert_retriever import BiEncoder, micro_batching
from sbert_retriever.encoder.giving_up import check_wanted, stop_event
from sbert_retriever.encoder.micro_batch import MicroBatchedEncoder, text_batcher
from sbert_retriever.errors import GivenUpError, InputError, InputTypeError, ModelError
from sbert_retriever.ingest.encoding import Thread
from sbert_retriever.micro_batching import MicroBatcher
from sbert_retriever.testing import HashEncoder
from sbert_retriever.types import Encoder


class Gated:
    """Doubles numbers, once it is let; remembers its batches."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.started = threading.Event()
        self.batches: list[list[int]] = []

    def __call__(self, items: list[int]) -> list[int]:
        self.batches.append(items)
        self.started.set()
        assert self.open.wait(60)
        if -1 in items:
            raise ValueError("minus one")
        return [2 * item for item in items]


def queued(batcher: MicroBatcher, count: int) -> None:
    """Wait until so many calls have no answer yet."""
    for _ in range(60_000):
        if batcher.waiting >= count:
            return
        threading.Event().wait(0.001)
    pytest.fail(f"{batcher.waiting} calls wait, expected {count}")


def test_a_caller_alone_is_a_batch_of_its_own() -> None:
    batcher = MicroBatcher(lambda items: [2 * item for item in items])
    assert batcher.run([1, 2]) == [2, 4]
    assert batcher.run(iter([3])) == [6]
    assert batcher.run([]) == []
    assert (batcher.counts.batches, batcher.counts.items, batcher.counts.shares) == (2, 3, 2)


def test_who_comes_while_a_batch_runs_shares_the_next() -> None:
    gated = Gated()
    batcher = MicroBatcher(gated)
    with ThreadPoolExecutor(9) as pool:
        first = pool.submit(batcher.run, [0])
        assert gated.started.wait(60)
        others = [pool.submit(batcher.run, [n, 10 * n]) for n in range(1, 9)]
        queued(batcher, 9)
        gated.open.set()
        assert first.result(60) == [0]
        assert [other.result(60) for other in others] == [[2 * n, 20 * n] for n in range(1, 9)]
    assert [len(batch) for batch in gated.batches] == [1, 16]
    assert batcher.waiting == 0


def test_an_error_reaches_only_whoever_caused_it() -> None:
    gated = Gated()
    batcher = MicroBatcher(gated)
    with ThreadPoolExecutor(4) as pool:
        first = pool.submit(batcher.run, [0])
        assert gated.started.wait(60)
        bad = pool.submit(batcher.run, [5, -1])
        queued(batcher, 2)
        good = pool.submit(batcher.run, [6])
        queued(batcher, 3)
        gated.open.set()
        assert (first.result(60), good.result(60)) == ([0], [12])
        with pytest.raises(ValueError, match="minus one"):
            bad.result(60)
    assert batcher.run([1]) == [2]


def test_a_large_call_lets_small_ones_through() -> None:
    """A call of a thousand items has its turns, and one of a single item does not wait for all."""
    gated = Gated()
    batcher = MicroBatcher(gated, most=10)
    with ThreadPoolExecutor(2) as pool:
        large = pool.submit(batcher.run, range(1000))
        assert gated.started.wait(60)
        small = pool.submit(batcher.run, [7])
        queued(batcher, 2)
        gated.open.set()
        assert small.result(60) == [14]
        assert large.result(60) == [2 * n for n in range(1000)]
    place = next(n for n, batch in enumerate(gated.batches) if 7 in batch and n > 0)
    assert place == 1
    assert all(len(batch) <= 10 for batch in gated.batches)


def test_an_item_larger_than_a_batch_goes_alone() -> None:
    batches: list[list[int]] = []

    def kept(items: list[int]) -> list[int]:
        batches.append(items)
        return items

    batcher = MicroBatcher(kept, most=10, size=lambda item: item)
    assert batcher.run([4, 5, 99, 6]) == [4, 5, 99, 6]
    assert batches == [[4, 5], [99], [6]]


def test_a_function_that_gives_too_few_results_is_refused() -> None:
    with pytest.raises(ModelError, match="2 items gave 1 results"):
        MicroBatcher(lambda items: items[:1]).run([1, 2])


def test_one_that_is_stopped_from_outside_leaves_the_others_their_turn() -> None:
    """Ctrl-C in the thread that does the work of all: the next in line takes over."""
    calls: list[list[int]] = []
    started, go = threading.Event(), threading.Event()

    def interrupted(items: list[int]) -> list[int]:
        calls.append(items)
        if len(calls) == 1:
            started.set()
            assert go.wait(60)
            raise KeyboardInterrupt
        return items

    batcher = MicroBatcher(interrupted)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(batcher.run, [1])
        assert started.wait(60)
        second = pool.submit(batcher.run, [2])
        queued(batcher, 2)
        go.set()
        assert second.result(60) == [2]
        with pytest.raises(KeyboardInterrupt):
            first.result(60)
    assert batcher.waiting == 0


class Stopped(threading.Event):
    """A turn that whoever waits for it is interrupted in, once it is let."""

    def __init__(self) -> None:
        super().__init__()
        self.waits, self.interrupt = threading.Event(), threading.Event()

    def wait(self, timeout: float | None = None) -> bool:
        self.waits.set()
        assert self.interrupt.wait(60)
        raise KeyboardInterrupt


@pytest.mark.parametrize("leads", [False, True])
def test_one_that_is_stopped_as_it_waits_leaves_the_others_their_turn(monkeypatch, leads) -> None:
    """Ctrl-C or a time limit in a caller who waits, before or just after the lead came to it."""
    gated, turn, job_of = Gated(), Stopped(), micro_batching._Job

    def job(items: list[int]) -> micro_batching._Job:
        made = job_of(items)
        made.turn = turn
        return made

    batcher = MicroBatcher(gated)
    with ThreadPoolExecutor(3) as pool:
        first = pool.submit(batcher.run, [0])
        assert gated.started.wait(60)
        monkeypatch.setattr(micro_batching, "_Job", job)
        stopped = pool.submit(batcher.run, [1])
        assert turn.waits.wait(60)
        monkeypatch.undo()
        if leads:
            gated.open.set()
            assert first.result(60) == [0]
            assert turn.is_set()
        turn.interrupt.set()
        with pytest.raises(KeyboardInterrupt):
            stopped.result(60)
        gated.open.set()
        assert first.result(60) == [0]
        assert pool.submit(batcher.run, [2]).result(60) == [4]
    assert batcher.waiting == 0


def test_a_forked_child_waits_for_nobody_of_its_parent(forked) -> None:
    """The parent is in the middle of a batch, with another caller in line, when it is forked."""
    gated, parent = Gated(), os.getpid()

    def doubled(items: list[int]) -> list[int]:
        return gated(items) if os.getpid() == parent else [2 * item for item in items]

    batcher = MicroBatcher(doubled)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(batcher.run, [0])
        assert gated.started.wait(60)
        second = pool.submit(batcher.run, [1])
        queued(batcher, 2)
        ended = forked(lambda: batcher.run([3]) == [6])
        gated.open.set()
        assert (first.result(60), second.result(60)) == ([0], [2])
    assert ended


def test_a_check_ends_the_call_of_whoever_does_the_work() -> None:
    """Between two batches; the next in line, who is not asked to end, takes over."""
    ends, gated = threading.Event(), Gated()

    def check() -> None:
        if ends.is_set():
            ends.clear()
            raise TimeoutError("enough")

    batcher = MicroBatcher(gated, most=2, check=check)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(batcher.run, range(1000))
        assert gated.started.wait(60)
        second = pool.submit(batcher.run, [7])
        queued(batcher, 2)
        ends.set()
        gated.open.set()
        with pytest.raises(TimeoutError, match="enough"):
            first.result(60)
        assert second.result(60) == [14]
    assert len(gated.batches) <= 3


@pytest.mark.parametrize("settings", [{"most": 0}, {"wait_s": -0.1}, {"wait_s": 2}])
def test_settings_are_checked(settings) -> None:
    with pytest.raises(InputError, match="expected 1 or more"):
        MicroBatcher(list, **settings)


def test_vectors_of_many_threads_are_those_of_one(minilm: BiEncoder) -> None:
    """Thirty-two callers with questions, passages and long texts: each gets its own vectors."""
    shared = MicroBatchedEncoder(minilm)
    texts = [f"question {n} about {'a very long story ' * (40 * (n % 5 == 0))}" for n in range(32)]

    def asked(n: int) -> np.ndarray:
        encode = shared.encode_passages if n % 3 == 0 else shared.encode_queries
        return encode([texts[n], f"another text {n}"])

    with ThreadPoolExecutor(32) as pool:
        found = list(pool.map(asked, range(32)))
    for n, vectors in enumerate(found):
        expected = minilm.encode_detailed([texts[n], f"another text {n}"], role="query").vectors
        np.testing.assert_allclose(vectors, expected, atol=2e-6)
    assert shared.counts.items == 64
    assert shared.counts.batches < shared.counts.shares


class Looking(HashEncoder):
    """Looks between two batches, as a BiEncoder does, whether its work is wanted."""

    def __init__(self) -> None:
        super().__init__()
        self.started, self.open = threading.Event(), threading.Event()

    def encode_passages(self, texts: list[str]) -> np.ndarray:
        self.started.set()
        assert self.open.wait(60)
        check_wanted()
        return super().encode_passages(texts)


def test_an_index_that_is_given_up_ends_nobody_else() -> None:
    """It leads a batch as it is given up: that goes to its end, and its own next one does not."""
    slow = Looking()
    shared = MicroBatchedEncoder(slow)
    texts = [str(n) * 1500 for n in range(20)]  # more than a batch
    with ThreadPoolExecutor(1) as pool:
        with Thread() as index:
            given_up = index.submit(shared.encode_passages, texts)
            assert slow.started.wait(60)
            other = pool.submit(shared.encode_passages, ["asked"])
            queued(shared._batcher, 2)
        slow.open.set()
        np.testing.assert_array_equal(other.result(60), HashEncoder().encode_passages(["asked"]))
        with pytest.raises(GivenUpError):
            given_up.result(60)
    assert shared.counts.items < len(texts)


def test_whoever_is_given_up_ends_nobody_in_its_batch() -> None:
    """Its first batch has the others' texts, too, and is not done again for each of them."""
    stop = threading.Event()
    calls: list[int] = []

    class Ended(HashEncoder):
        def encode_queries(self, texts: list[str]) -> np.ndarray:
            calls.append(len(texts))
            stop.set()
            check_wanted()
            return super().encode_queries(texts)

    def asked(shared) -> np.ndarray:
        stop_event.set(stop)
        return np.stack(shared(["a", "b"]))

    for shared in (
        MicroBatchedEncoder(Ended()).encode_queries,
        text_batcher(Ended().encode_queries).run,
    ):
        stop.clear()
        vectors = copy_context().run(asked, shared)
        np.testing.assert_array_equal(vectors, HashEncoder().encode_queries(["a", "b"]))
    assert calls == [2, 2]


def test_a_shared_encoder_is_an_encoder(minilm: BiEncoder) -> None:
    shared = MicroBatchedEncoder(minilm)
    assert isinstance(shared, Encoder)
    assert (shared.dim, shared.identity) == (384, minilm.identity)
    assert shared.encode_queries([]).shape == (0, 384)
    tokens = shared.encode_tokens(["one two"], role="query")
    np.testing.assert_allclose(tokens[0], minilm.encode_tokens(["one two"], role="query")[0])
    shared.warm_up()


def test_what_is_no_text_is_refused_before_it_meets_others() -> None:
    shared = MicroBatchedEncoder(HashEncoder())
    with pytest.raises(InputTypeError, match="single str"):
        shared.encode_queries("text")
    with pytest.raises(InputTypeError, match=r"texts\[1\] is int"):
        shared.encode_queries(["a", 3])
    with pytest.raises(InputTypeError, match=r"texts\[1\] is int"):
        shared.encode_passages(text for text in ["a", 3])
    with pytest.raises(InputError, match="gives none"):
        shared.encode_tokens(["a"], role="query")
    shared.warm_up()
    assert shared.on_truncate == "ignore"


def test_models_that_share_a_processor_take_turns() -> None:
    """Whoever is given the turn is called with the encoder's own method, and nothing else is."""
    turns: list[str] = []

    def turn(function, *args):
        turns.append(getattr(function, "__name__", "partial"))
        return function(*args)

    shared = MicroBatchedEncoder(HashEncoder(), turn=turn)
    shared.encode_queries(["a"])
    shared.encode_passages(["a"])
    assert turns == ["encode_queries", "encode_passages"]
