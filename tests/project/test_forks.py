"""What a forked child begins anew."""

from __future__ import annotations

import gc
import threading

import pytest

from sbert_retriever import forks
from sbert_retriever.forks import Lock
from sbert_retriever.lazy_encoder import LazyEncoder
from sbert_retriever.testing import HashEncoder


def test_a_lock_lets_one_in_at_a_time() -> None:
    lock, inside, most = Lock(), [0], [0]

    def work() -> None:
        for _ in range(200):
            with lock:
                inside[0] += 1
                most[0] = max(most[0], inside[0])
                inside[0] -= 1

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1]


def test_a_lock_is_given_back_after_an_error() -> None:
    lock = Lock()
    with pytest.raises(ValueError, match="inside"), lock:
        raise ValueError("inside")
    with lock:
        pass


def test_a_lock_of_another_thread_is_free_in_a_child(forked) -> None:
    encoder = LazyEncoder(HashEncoder(), device="cpu", dtype="float32")
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with encoder._guard:
            held.set()
            assert done.wait(120)

    thread = threading.Thread(target=hold)
    thread.start()
    try:
        assert held.wait(60)
        assert forked(lambda: encoder.get().dim > 0)
    finally:
        done.set()
        thread.join()


def test_a_fork_inside_the_block_can_leave_it(forked) -> None:
    lock = Lock()

    def left() -> bool:
        lock.__exit__(None, None, None)
        with lock:
            return True

    with lock:
        assert forked(left)


def test_a_reentrant_lock_is_left_as_often_as_it_was_taken(forked) -> None:
    lock = Lock(reentrant=True)

    def taken_elsewhere() -> bool:
        taken: list[bool] = []
        thread = threading.Thread(target=lambda: taken.append(lock._lock.acquire(blocking=False)))
        thread.start()
        thread.join()
        return taken[0]

    with lock:
        with lock:
            assert not taken_elsewhere()
        assert not taken_elsewhere()
        assert forked(taken_elsewhere)
    assert taken_elsewhere()


def test_what_is_gone_is_not_begun() -> None:
    gc.collect()
    before = len(forks._BEGINNINGS)
    locks = [Lock() for _ in range(5)]
    assert len(forks._BEGINNINGS) == before + 5
    del locks
    gc.collect()
    assert len(forks._BEGINNINGS) == before
