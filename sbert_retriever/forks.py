"""What a forked child begins anew.

A fork copies the process with one thread alone. What another thread held in the parent, a lock or
the lead of a batch, nobody gives back in the child: waiting for it never ends.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from types import TracebackType
from weakref import WeakMethod

_BEGINNINGS: set[WeakMethod[Callable[[], None]]] = set()


def in_forked_children(begin: Callable[[], None]) -> None:
    """Call a method in each child that this process is forked into, while its object lives.

    Args:
        begin: A bound method.
    """
    _BEGINNINGS.add(WeakMethod(begin, _BEGINNINGS.discard))


def _begin_all() -> None:
    for reference in list(_BEGINNINGS):
        begin = reference()
        if begin is not None:
            begin()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_all)


class Lock:
    """`threading.Lock` for a `with` block; in a forked child nobody holds it.

    Args:
        reentrant: Whether the thread that holds it may take it again, as `threading.RLock`.
    """

    def __init__(self, *, reentrant: bool = False) -> None:
        self._reentrant = reentrant
        self._begin()
        in_forked_children(self._begin)

    def _begin(self) -> None:
        self._lock: threading.Lock | threading.RLock = (
            threading.RLock() if self._reentrant else threading.Lock()
        )

    def __enter__(self) -> None:
        lock = self._lock
        lock.acquire()
        self._held = lock

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # Whoever forks inside the block gives back, in the child too, the one it took.
        self._held.release()
