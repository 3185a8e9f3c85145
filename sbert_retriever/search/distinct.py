"""A search's answer without what says nearly the same as a better hit."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from qdrant_client import models

from sbert_retriever.index.steps import Steps
from sbert_retriever.index.store import PassageStore
from sbert_retriever.search.diversity import similarities
from sbert_retriever.search.grouping import Find
from sbert_retriever.types import Hit, ScoreKind

# Further down the ranking there is nothing that answers the question.
_LOOKED_AT = 10_000
_AT_ONCE = 500


def unlike_rows(
    candidates: npt.NDArray[np.float32], *, k: int, nearness: float, score_kind: ScoreKind
) -> list[int]:
    """The first k rows of which none is as near as `nearness` to one that was taken before.

    Args:
        candidates: (n, dim), best first.
        k: How many, at most.
        nearness: On the scale of `score_kind`.
        score_kind: "cosine", "dot", "neg_l2" or "neg_l1".

    Examples:
        >>> rows = np.array([[1, 0], [0.999, 0.01], [0, 1]], np.float32)
        >>> unlike_rows(rows, k=2, nearness=0.9, score_kind="cosine")
        [0, 2]
    """
    taken: list[int] = []
    like = np.zeros(len(candidates), dtype=bool)
    for position, row in enumerate(candidates):
        if len(taken) == k:
            break
        if not like[position]:
            taken.append(position)
            like |= similarities(row, candidates, score_kind=score_kind) >= nearness
    return taken


def unlike_hits(
    store: PassageStore, hits: Sequence[Hit], *, k: int, nearness: float
) -> Steps[list[Hit]]:
    """The first k hits that are not nearly the same as one before them.

    Args:
        store: Which has their vectors; a passage deleted meanwhile is left out.
        hits: Best first.
        k: How many, at most.
        nearness: From which similarity on two are nearly the same, on the collection's scale.
    """
    vectors = {}
    for start in range(0, len(hits), _AT_ONCE):
        vectors.update((yield from store.vectors([h.id for h in hits[start : start + _AT_ONCE]])))
    there = [hit for hit in hits if hit.id in vectors]
    if not there:
        return []
    matrix = np.stack([vectors[hit.id] for hit in there])
    order = unlike_rows(matrix, k=k, nearness=nearness, score_kind=store.score_kind)
    return [there[position] for position in order]


def found_unlike(
    store: PassageStore,
    find: Find,
    condition: models.Filter | None,
    *,
    k: int,
    nearness: float,
    fetched: int,
) -> Steps[list[Hit]]:
    """The k best hits that are not nearly the same as a better one.

    More are looked at until there are so many, or 10,000 were (or `fetched`, where that is more).

    Args:
        store: Where to search.
        find: How.
        condition: Holds for all.
        k: How many.
        nearness: As for `unlike_hits`.
        fetched: How many are looked at first.
    """
    most = max(_LOOKED_AT, fetched)
    while True:
        hits = yield from find(condition, fetched)
        chosen = yield from unlike_hits(store, hits, k=k, nearness=nearness)
        if len(chosen) == k or len(hits) < fetched or fetched == most:
            return chosen
        fetched = min(4 * fetched, most)
