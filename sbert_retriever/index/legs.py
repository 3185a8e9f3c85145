"""The two legs of a hybrid search: what the dense and what the sparse vectors say, apart.

They are fused here and not in the engine, so that one rule holds on every engine and may look at
the scores of both. The filter is in both legs; texts are read for the winners alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from qdrant_client import models

from sbert_retriever.index.points import SPARSE_NAME, to_passage, to_score
from sbert_retriever.index.steps import Steps
from sbert_retriever.index.store import PassageStore
from sbert_retriever.types import Hit, Passage, ScoreKind, SparseVector

Ranking: TypeAlias = list[tuple[Any, float]]
"""Points and their scores, best first."""
# Questions whose two searches go into one request.
_AT_ONCE = 32


class Legs(NamedTuple):
    """What each leg found for one question."""

    dense: Ranking
    sparse: Ranking


def legs(
    store: PassageStore,
    vectors: npt.NDArray[np.float32],
    sparse: Sequence[SparseVector],
    *,
    k: int,
    condition: models.Filter | None,
    params: models.SearchParams | None,
) -> Steps[list[Legs]]:
    """The k best of both legs for each question.

    Args:
        store: The collection.
        vectors: (m, dim).
        sparse: m vectors; an empty one finds nothing.
        k: How many in each leg.
        condition: Holds in both legs.
        params: Of the dense leg.
    """
    found: list[Legs] = []
    for start in range(0, len(sparse), _AT_ONCE):
        rows = vectors[start : start + _AT_ONCE].tolist()
        terms = sparse[start : start + _AT_ONCE]
        dense = [store.request(row, k=k, condition=condition, params=params) for row in rows]
        within = store.within(condition)
        worded = [_sparse_request(store, t, k=k, condition=within) for t in terms if t.indices]
        answers = yield from store.answers([*dense, *worded])
        near = [_ranking(answer, store.score_kind) for answer in answers[: len(rows)]]
        rest = iter([_ranking(answer, "dot") for answer in answers[len(rows) :]])
        found += [
            Legs(ranking, next(rest) if term.indices else [])
            for ranking, term in zip(near, terms, strict=True)
        ]
    return found


def sparse_rankings(
    store: PassageStore,
    sparse: Sequence[SparseVector],
    *,
    k: int,
    condition: models.Filter | None,
) -> Steps[list[Ranking]]:
    """The k best of the sparse leg alone for each question."""
    found: list[Ranking] = []
    for start in range(0, len(sparse), _AT_ONCE):
        terms = sparse[start : start + _AT_ONCE]
        within = store.within(condition)
        requests = [_sparse_request(store, t, k=k, condition=within) for t in terms if t.indices]
        answers = yield from store.answers(requests)
        rankings = iter([_ranking(answer, "dot") for answer in answers])
        found += [next(rankings) if term.indices else [] for term in terms]
    return found


def _ranking(answer: Any, score_kind: ScoreKind) -> Ranking:
    return [(point.id, to_score(point.score, score_kind)) for point in answer.points]


def hits_of(
    store: PassageStore, rankings: Sequence[Ranking], score_kind: ScoreKind
) -> Steps[list[list[Hit]]]:
    """Rankings as hits, with their passages; a passage deleted meanwhile is left out."""
    passages = yield from _passages(store, [point for r in rankings for point, _ in r])
    return [
        [Hit(passages[str(p)], score, score_kind) for p, score in ranking if str(p) in passages]
        for ranking in rankings
    ]


def _passages(store: PassageStore, points: Sequence[Any]) -> Steps[dict[str, Passage]]:
    records = yield from store.records(list(dict.fromkeys(points)))
    return {str(r.id): to_passage(r.payload, r.id, store.layout) for r in records}


def _sparse_request(
    store: PassageStore, terms: SparseVector, *, k: int, condition: models.Filter | None
) -> models.QueryRequest:
    return models.QueryRequest(
        query=models.SparseVector(indices=terms.indices, values=terms.values),
        using=SPARSE_NAME,
        filter=condition,
        limit=k,
        shard_key=store.shard_key,
    )
