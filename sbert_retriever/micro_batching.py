"""Calls of several threads, answered together by one function over many items.

A caller that finds nobody at work begins at once. Those who come meanwhile wait until it is done,
and are then answered as one batch: the busier, the larger the batches.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Generic, TypeVar

from sbert_retriever.errors import InputError, ModelError
from sbert_retriever.forks import in_forked_children

Item = TypeVar("Item")
Result = TypeVar("Result")

# So long after a batch of several callers the next may be expected.
_BUSY_FOR = 10


class _Job(Generic[Item, Result]):
    """What one caller asked for, and how far it is."""

    def __init__(self, items: list[Item]) -> None:
        self.items = items
        self.results: list[Result] = []
        self.error: Exception | None = None
        self.turn = threading.Event()

    @property
    def done(self) -> bool:
        """Whether all results are there, or none will come."""
        return self.error is not None or len(self.results) == len(self.items)

    @property
    def left(self) -> list[Item]:
        """What has no result yet."""
        return self.items[len(self.results) :]

    def take(self, results: Iterable[Result]) -> None:
        """Keep results; the last ones end the job."""
        self.results.extend(results)

    def fail(self, error: Exception) -> None:
        """End with an error."""
        self.error = error


@dataclass(frozen=True)
class BatchCounts:
    """What a micro-batcher has done so far.

    Args:
        batches: Calls of the function.
        items: Items given to it.
        shares: Callers' shares in these batches; more than batches where they were joined.
    """

    batches: int = 0
    items: int = 0
    shares: int = 0


class MicroBatcher(Generic[Item, Result]):
    """One function over the items of many threads' calls, a batch at a time.

    A batch is bounded by `most`; a call with more items has its turns between those of others. An
    error reaches only whoever caused it: a batch that fails is done again, caller by caller.

    Args:
        function: Items to results, as many. Called by one thread at a time, that of a caller.
        most: The size of a batch; a batch has an item at least.
        size: What an item counts for; None is 1 each.
        wait_s: Seconds that a batch waits for more callers right after one that several shared.
            Nobody waits for this where nobody else is there.
        check: Called by whoever does the batches before each; what it raises ends that caller's
            call, and the next in line takes over.

    Raises:
        InputError: `most` or `wait_s` is out of range.

    Examples:
        >>> lengths = MicroBatcher(lambda texts: [len(text) for text in texts])
        >>> lengths.run(["a", "abc"])
        [1, 3]
    """

    def __init__(
        self,
        function: Callable[[list[Item]], Sequence[Result]],
        *,
        most: int = 64,
        size: Callable[[Item], int] | None = None,
        wait_s: float = 0.002,
        check: Callable[[], object] | None = None,
    ) -> None:
        if most < 1 or not 0 <= wait_s < 1:
            raise InputError(
                f"most is {most} and wait_s {wait_s}, expected 1 or more and less than a second"
            )
        self._function, self._most, self._wait_s = function, most, wait_s
        self._size = size or _one
        self._check = check or _fine
        self._counts = BatchCounts()
        self._begin()
        in_forked_children(self._begin)

    def _begin(self) -> None:
        """Nobody is here: at first, and in a forked child, which has none of the threads."""
        self._guard = threading.Lock()
        self._arrival = threading.Condition(self._guard)
        self._waiting: deque[_Job[Item, Result]] = deque()
        self._leader: _Job[Item, Result] | None = None
        self._last_callers, self._last_end = 1, -1.0

    @property
    def counts(self) -> BatchCounts:
        """What was done so far."""
        return self._counts

    @property
    def waiting(self) -> int:
        """How many calls have no answer yet."""
        return len(self._waiting)

    def run(self, items: Iterable[Item]) -> list[Result]:
        """The results of some items, in their order.

        Raises:
            Exception: What the function raised for these items.
        """
        job: _Job[Item, Result] = _Job(list(items))
        if not job.items:
            return []
        try:
            with self._guard:
                self._waiting.append(job)
                if self._leader is None:
                    self._lead(job)
                self._arrival.notify()
            job.turn.wait()
            while not job.done:
                self._check()
                self._batch()
        finally:
            with self._guard:
                self._leave(job)
        if job.error is not None:
            raise job.error
        return job.results

    def _lead(self, job: _Job[Item, Result] | None) -> None:
        """Let a job's caller do the batches, until its own is done; None where nobody is left."""
        self._leader = job
        if job is not None:
            job.turn.set()

    def _leave(self, job: _Job[Item, Result]) -> None:
        """Take a job out of the line; who leads hands over to the next.

        One that is not done was stopped from outside, in its turn or as it waited: by Ctrl-C, or by
        a time limit that raises.
        """
        if job in self._waiting:
            self._waiting.remove(job)
        if self._leader is job:
            self._settle(list(self._waiting))
            self._lead(self._waiting[0] if self._waiting else None)

    def _settle(self, jobs: Iterable[_Job[Item, Result]]) -> None:
        """Let those go that are done, and put the others at the end of the line."""
        for job in jobs:
            if job not in self._waiting:
                continue
            self._waiting.remove(job)
            if job.done:
                job.turn.set()
            else:
                self._waiting.append(job)

    def _batch(self) -> None:
        with self._guard:
            self._await_others()
            shares = self._shares()
        self._answer(shares)
        with self._guard:
            self._last_callers, self._last_end = len(shares), monotonic()
            self._settle([job for job, _ in shares])

    def _await_others(self) -> None:
        """Right after a batch of several, wait a moment for as many."""
        since = monotonic() - self._last_end
        if self._last_callers > 1 and since < _BUSY_FOR * self._wait_s:
            self._arrival.wait_for(
                lambda: len(self._waiting) >= self._last_callers, timeout=self._wait_s
            )

    def _shares(self) -> list[tuple[_Job[Item, Result], list[Item]]]:
        """Whose items make the next batch, and which."""
        shares: list[tuple[_Job[Item, Result], list[Item]]] = []
        room = self._most
        for job in self._waiting:
            share: list[Item] = []
            for item in job.left:
                size = self._size(item)
                if size > room and (shares or share):
                    break
                share.append(item)
                room -= size
            if share:
                shares.append((job, share))
            if room <= 0:
                break
        return shares

    def _answer(self, shares: list[tuple[_Job[Item, Result], list[Item]]]) -> None:
        try:
            results = self._called([item for _, share in shares for item in share], len(shares))
        except Exception as error:
            if len(shares) == 1:
                shares[0][0].fail(error)
                return
            for caller in shares:
                self._answer([caller])
            return
        start = 0
        for job, share in shares:
            job.take(results[start : start + len(share)])
            start += len(share)

    def _called(self, items: list[Item], shares: int) -> Sequence[Result]:
        done = self._counts
        self._counts = BatchCounts(done.batches + 1, done.items + len(items), done.shares + shares)
        results = self._function(items)
        if len(results) != len(items):
            raise ModelError(f"a batch of {len(items)} items gave {len(results)} results")
        return results


def _one(_: object) -> int:
    return 1


def _fine() -> None:
    """Nothing ends a call."""
