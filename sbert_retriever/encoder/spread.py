"""Windows of texts dealt out to several devices, their results in order."""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from queue import SimpleQueue
from typing import TypeVar

from sbert_retriever.encoder.giving_up import check_wanted, stop_event
from sbert_retriever.encoder.texts import windows

Worker = TypeVar("Worker")
In = TypeVar("In")
Out = TypeVar("Out")

FEW_TEXTS = 64
"""So many are not worth a second device."""


def spread(
    work: Callable[[Worker, In], Out], items: Iterable[In], workers: Sequence[Worker]
) -> Iterator[Out]:
    """What is made of each item, in the order of the items.

    Each worker has one item at a time, in a thread. The items are drawn in the caller's thread, and
    two a worker at most are ahead of what the caller has taken. At an error, or where the caller
    ends, an encoding under way ends between two batches, and what waits is not begun.

    Args:
        work: Called with a worker and an item.
        items: Drawn as they are needed.
        workers: One a device; a worker that is there twice has two items at a time.

    Raises:
        GivenUpError: The caller is given up.
        Exception: What `work` or the items raise, at the item's turn.
    """
    free: SimpleQueue[Worker] = SimpleQueue()
    for worker in workers:
        free.put(worker)
    stop = threading.Event()

    def done(item: In) -> Out:
        worker = free.get()
        try:
            return work(worker, item)
        finally:
            free.put(worker)

    waiting: deque[Future[Out]] = deque()
    with ThreadPoolExecutor(len(workers), thread_name_prefix="sbert-device") as pool:
        try:
            for item in items:
                context = copy_context()
                context.run(stop_event.set, stop)
                waiting.append(pool.submit(context.run, done, item))
                if len(waiting) >= 2 * len(workers):
                    yield _first(waiting)
            while waiting:
                yield _first(waiting)
        finally:
            stop.set()
            for future in waiting:
                future.cancel()


def _first(waiting: deque[Future[Out]]) -> Out:
    check_wanted()
    return waiting.popleft().result()


def shares(texts: Iterable[str], count: int) -> Iterator[list[str]]:
    """Windows of texts, cut so that each of `count` workers has one where that is worth it.

    Raises:
        InputTypeError: An entry is no str; the message names its position.

    Examples:
        >>> [len(share) for share in shares(["text"] * 300, 4)]
        [75, 75, 75, 75]
        >>> [len(share) for share in shares(["text"] * 100, 4)]
        [64, 36]
    """
    known = len(texts) if isinstance(texts, Sized) else None
    for window in windows(texts):
        most = len(window) if known is None else math.ceil(known / count)
        step = max(most, FEW_TEXTS)
        for start in range(0, len(window), step):
            yield window[start : start + step]
