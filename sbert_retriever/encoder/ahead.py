"""Work of the processor done ahead of a device that must not wait for it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

In = TypeVar("In")
Out = TypeVar("Out")


def mapped_ahead(
    function: Callable[[In], Out], items: Iterable[In], *, ahead: int
) -> Iterator[Out]:
    """`function` of each item in order, computed in one other thread up to `ahead` items early.

    The items are taken in the caller's thread. With `ahead` 0 there is no other thread.

    Raises:
        Exception: What `function` or the items raise, at the item's turn.
    """
    if ahead == 0:
        yield from map(function, items)
        return
    waiting: deque[Future[Out]] = deque()
    with ThreadPoolExecutor(1, thread_name_prefix="tokenising") as pool:
        try:
            for item in items:
                waiting.append(pool.submit(function, item))
                if len(waiting) > ahead:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


def delayed(items: Iterable[In], *, by: int) -> Iterator[In]:
    """The items, each handed on when `by` more have been made.

    Examples:
        >>> list(delayed("abc", by=2))
        ['a', 'b', 'c']
    """
    waiting: deque[In] = deque()
    for item in items:
        waiting.append(item)
        if len(waiting) > by:
            yield waiting.popleft()
    yield from waiting
