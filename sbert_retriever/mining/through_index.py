"""Similar pairs of a large collection: each passage asks the index for its neighbours."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt
from qdrant_client import models

from sbert_retriever.errors import InputError
from sbert_retriever.index.store import PassageStore
from sbert_retriever.mining.links import Links
from sbert_retriever.mining.reading import pages

if TYPE_CHECKING:
    from sbert_retriever.mining.blocks import OnShare
    from sbert_retriever.retriever import Retriever
    from sbert_retriever.search.request import FilterSpec
    from sbert_retriever.types import Hit

MOST_NEIGHBOURS = 1024
"""More than this a passage is not asked for."""
_FIRST_NEIGHBOURS = 8
_GROWTH = 4
_AT_ONCE = 64
_MOST_PAIRS = 10_000_000
_FRESH = 250_000


class IndexPairs(NamedTuple):
    """What the index found.

    Args:
        pairs: Ids and score of the best pairs, best first.
        found: How many pairs.
        groups: Ids that are linked by pairs, the largest group first.
        passages: How many were looked at.
        left_out: How many had no usable vector.
        crowded: How many have `MOST_NEIGHBOURS` or more, some of which were not seen.
    """

    pairs: list[tuple[str, str, float]]
    found: int
    groups: list[list[str]]
    passages: int
    left_out: int
    crowded: int


def pairs_through_index(
    retriever: Retriever,
    floor: float,
    *,
    filter: FilterSpec | None,
    limit: int,
    total: int,
    on_share: OnShare | None = None,
) -> IndexPairs:
    """Pairs whose score, as the engine computes it, is `floor` or more.

    Nearly all of them: what the index misses from both sides is not there. Vectors are held a page
    at a time, pairs to a number that is refused.

    Args:
        retriever: Over the collection.
        floor: The least score.
        filter: On metadata; both passages must match.
        limit: How many pairs are kept.
        total: How many passages there are, for `on_share`.
        on_share: Called with the share that is done, from 0 to 1.

    Raises:
        InputError: There are more than ten million pairs.
    """
    condition = retriever._condition(filter)  # what a retriever may see, it decides itself
    seen, looked, left_out, crowded = _Seen(), 0, 0, 0
    for page in pages(retriever, filter):
        left_out += page.left_out
        looked += len(page.ids)
        for start in range(0, len(page.ids), _AT_ONCE):
            part = slice(start, start + _AT_ONCE)
            near = _neighbours(retriever.store, page.vectors[part], condition, floor)
            for passage_id, hits in zip(page.ids[part], near, strict=True):
                crowded += len(hits) >= MOST_NEIGHBOURS
                seen.add(passage_id, hits)
        if on_share is not None:
            on_share(min(1.0, (looked + left_out) / max(total, 1)))
    return IndexPairs(*seen.result(limit), looked, left_out, crowded)


def _neighbours(
    store: PassageStore,
    rows: npt.NDArray[np.float32],
    condition: models.Filter | None,
    floor: float,
) -> list[list[Hit]]:
    """The hits of each row (m, dim) that reach the floor, up to `MOST_NEIGHBOURS`."""
    found: list[list[Hit]] = [[] for _ in rows]
    waiting, k = list(range(len(rows))), _FIRST_NEIGHBOURS
    while waiting:
        answers = store.connection.run(store.search(rows[waiting], k=k, condition=condition))
        more = []
        for row, hits in zip(waiting, answers, strict=True):
            found[row] = [hit for hit in hits if hit.score >= floor]
            if len(found[row]) == k and k < MOST_NEIGHBOURS:
                more.append(row)
        waiting, k = more, min(k * _GROWTH, MOST_NEIGHBOURS)
    return found


class _Seen:
    """Pairs of ids, each counted once, from whichever side it was found."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._codes = np.empty(0, dtype=np.int64)
        self._scores = np.empty(0, dtype=np.float32)
        self._fresh: list[tuple[int, float]] = []
        self._links = Links()

    def add(self, passage_id: str, hits: Sequence[Hit]) -> None:
        self._fresh += self._pairs(passage_id, hits)
        if len(self._fresh) >= _FRESH:
            self._settle()

    def result(self, limit: int) -> tuple[list[tuple[str, str, float]], int, list[list[str]]]:
        self._settle()
        ids = list(self._numbers)
        best = np.lexsort((self._codes, -self._scores))[:limit]
        pairs = [
            (ids[code >> 32], ids[code & 0xFFFFFFFF], score)
            for code, score in zip(
                self._codes[best].tolist(), self._scores[best].tolist(), strict=True
            )
        ]
        groups = [[ids[n] for n in group.tolist()] for group in self._links.groups()]
        return pairs, len(self._codes), groups

    def _pairs(self, passage_id: str, hits: Sequence[Hit]) -> Iterator[tuple[int, float]]:
        for hit in hits:
            if hit.id != passage_id:
                ends = self._number(passage_id), self._number(hit.id)
                yield min(ends) << 32 | max(ends), hit.score

    def _number(self, passage_id: str) -> int:
        return self._numbers.setdefault(passage_id, len(self._numbers))

    def _settle(self) -> None:
        """Put fresh pairs among the others, once each."""
        codes = np.array([code for code, _ in self._fresh], dtype=np.int64)
        scores = np.array([score for _, score in self._fresh], dtype=np.float32)
        self._fresh = []
        self._links.join(np.stack([codes >> 32, codes & 0xFFFFFFFF], axis=1))
        self._codes, first = np.unique(np.concatenate([self._codes, codes]), return_index=True)
        self._scores = np.concatenate([self._scores, scores])[first]
        if len(self._codes) > _MOST_PAIRS:
            raise InputError(
                f"more than {_MOST_PAIRS:,} pairs reach the threshold: raise it, or have every "
                "pair compared (exact), which keeps the best alone"
            )
