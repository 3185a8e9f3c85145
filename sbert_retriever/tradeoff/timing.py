"""How long a query takes at a point: asked alone, stage by stage, nothing remembered."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from time import perf_counter
from typing import TypeAlias

from sbert_retriever.tradeoff.machine import resident_mb
from sbert_retriever.tradeoff.records import Timing

Asked: TypeAlias = Callable[[str, str], Timing]
"""Answers a query (id, text) and says what each stage took."""


class Clock:
    """Milliseconds between laps."""

    def __init__(self) -> None:
        self._last = perf_counter()

    def lap(self) -> float:
        """Since the last lap, or since it was made."""
        now = perf_counter()
        spent, self._last = (now - self._last) * 1e3, now
        return spent


def timed(
    ways: Mapping[str, Asked],
    queries: Mapping[str, str],
    *,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> tuple[dict[str, list[Timing]], dict[str, float]]:
    """Time some ways of answering, in turn for each query, so that all see the same machine.

    Each query begins with another of them: the first to read a question finds it in no cache.

    Args:
        ways: {name: how it answers}.
        queries: {query id: text}; the first is asked once before, for nothing.
        on_progress: Told how many queries are done, of how many.

    Returns:
        The times of each, in the order of the queries, and the memory of the process after each
        way's first query, in MB.
    """
    memory = {}
    for name, ask in ways.items():
        ask(*_first(queries))
        memory[name] = resident_mb()
    times: dict[str, list[Timing]] = {name: [] for name in ways}
    turns = deque(ways)
    for done, (query, text) in enumerate(queries.items(), 1):
        for name in turns:
            times[name].append(ways[name](query, text))
        turns.rotate(-1)
        on_progress(done, len(queries))
    return times, memory


def _first(queries: Mapping[str, str]) -> tuple[str, str]:
    return next(iter(queries.items()))


def scaled(timing: Timing, factor: float) -> Timing:
    """The same with its rerank time multiplied: what was timed on a sample, for all."""
    pairs = round(timing.pairs * factor)
    return Timing(timing.query, timing.encode, timing.search, timing.rerank * factor, pairs)


def spread(queries: Mapping[str, str], order: Sequence[int], count: int) -> dict[str, str]:
    """The first `count` queries of an order."""
    ids = list(queries)
    return {ids[n]: queries[ids[n]] for n in order[:count]}
