"""Threads that do the work, a bounded line before them, and "come back later" beyond it."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from time import monotonic
from typing import TypeVar

T = TypeVar("T")

_LONGEST_RETRY_S = 30


class BusyError(Exception):
    """The line is full.

    Attributes:
        retry_after_s: When to come back, in whole seconds.
    """

    def __init__(self, retry_after_s: int) -> None:
        super().__init__(f"the service is busy: come back in {retry_after_s} s")
        self.retry_after_s = retry_after_s


class OverdueError(Exception):
    """A request took longer than one may."""


class Workers:
    """Runs functions in threads for one event loop, so many at a time.

    Args:
        threads: How many at a time.
        queue: How many more may wait.
        timeout_s: Seconds that one may take, its waiting included.
    """

    def __init__(self, *, threads: int, queue: int, timeout_s: float) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="serve")
        self._threads, self._most, self._timeout_s = threads, threads + queue, timeout_s
        self._mean_s = 0.05
        self._held = 0
        self.under_way = 0
        self.refused = 0

    @property
    def waiting(self) -> int:
        """How many wait for a thread, or for their turn."""
        return max(self.under_way - self._held - self._threads, 0) + self._held

    async def run(self, function: Callable[[float], T], *, turn: asyncio.Lock | None = None) -> T:
        """Run a function in a thread, with the moment at which it was asked for (monotonic).

        Args:
            function: What to run.
            turn: Held meanwhile. Those that wait for it take no thread from others.

        Raises:
            BusyError: The line is full.
            OverdueError: It took too long; the thread goes on to its end.
            Exception: What the function raised.
        """
        if self.under_way >= self._most:
            self.refused += 1
            raise BusyError(self._retry_after_s())
        asked = monotonic()
        self.under_way += 1
        if turn is None:
            future = self._begun(function, asked)
        else:
            future = asyncio.ensure_future(self._in_turn(turn, function, asked))
        future.add_done_callback(self._ended)
        try:
            return await asyncio.wait_for(asyncio.shield(future), self._timeout_s)
        except TimeoutError as error:
            raise OverdueError from error

    def close(self) -> None:
        """Wait for what is under way, and let the threads go."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _begun(self, function: Callable[[float], T], asked: float) -> asyncio.Future[T]:
        loop = asyncio.get_running_loop()
        return loop.run_in_executor(self._pool, self._in_time, function, asked)

    async def _in_turn(self, turn: asyncio.Lock, function: Callable[[float], T], asked: float) -> T:
        self._held += 1
        try:
            await turn.acquire()
        finally:
            self._held -= 1
        try:
            return await self._begun(function, asked)
        finally:
            turn.release()

    def _in_time(self, function: Callable[[float], T], asked: float) -> T:
        begun = monotonic()
        if begun - asked > self._timeout_s:
            raise OverdueError
        try:
            return function(asked)
        finally:
            self._mean_s += 0.1 * (monotonic() - begun - self._mean_s)

    def _ended(self, future: asyncio.Future[T]) -> None:
        self.under_way -= 1
        if not future.cancelled():
            future.exception()  # one that nobody waited for is not reported as forgotten

    def _retry_after_s(self) -> int:
        expected = self._mean_s * self.under_way / self._threads
        return min(max(math.ceil(expected), 1), _LONGEST_RETRY_S)
