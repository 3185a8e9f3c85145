"""Questions of callers in several threads, answered by one search.

An embedded engine works in the caller's thread and holds the interpreter, so callers in parallel
gain nothing from it but waiting; as one batch they share the model's pass and the engine's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from time import perf_counter
from typing import TypeAlias

from sbert_retriever.micro_batching import BatchCounts, MicroBatcher
from sbert_retriever.search.request import Query
from sbert_retriever.types import SearchResult

Answer: TypeAlias = Callable[[list[str], Query], list[SearchResult]]

# So many questions keep the others waiting for some tens of milliseconds at most.
_AT_ONCE = 32


class JoinedSearches:
    """One search over the questions of many threads' calls.

    Who finds nobody at work is answered at once; those who come meanwhile are answered together,
    each as they asked. What one caller's question raises reaches that caller alone.

    Args:
        answer: Answers questions that are asked alike.
    """

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._batcher: MicroBatcher[tuple[str, Query], SearchResult] = MicroBatcher(
            self._answered, most=_AT_ONCE
        )

    @property
    def counts(self) -> BatchCounts:
        """What was done so far."""
        return self._batcher.counts

    @property
    def waiting(self) -> int:
        """How many questions have no answer yet."""
        return self._batcher.waiting

    def run(self, question: str, asked: Query) -> SearchResult:
        """One question's answer; its total is this caller's, with what it waited for others.

        Raises:
            Exception: What the search raises.
        """
        started = perf_counter()
        result = self._batcher.run([(question, asked)])[0]
        total = (perf_counter() - started) * 1e3
        return replace(result, timings_ms={**result.timings_ms, "total": total})

    def _answered(self, items: list[tuple[str, Query]]) -> Sequence[SearchResult]:
        results: dict[int, SearchResult] = {}
        left = list(range(len(items)))
        while left:
            asked = items[left[0]][1]
            alike = [n for n in left if _alike(items[n][1], asked)]
            answers = self._answer([items[n][0] for n in alike], asked)
            results.update(zip(alike, answers, strict=True))
            left = [n for n in left if n not in results]
        return [results[n] for n in range(len(items))]


def _alike(one: Query, other: Query) -> bool:
    """Whether both ask for the same; {"paid": True} and {"paid": 1} are equal, and do not."""
    return one == other and (one.filter is other.filter or repr(one.filter) == repr(other.filter))
