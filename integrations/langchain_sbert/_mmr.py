"""Maximal marginal relevance: near to the query, far from one another.

After Carbonell and Goldstein, "The use of MMR" (SIGIR 1998). It is computed here, in float32 on
the vectors fetched, so that it is the same on every engine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from sbert_retriever import Retriever
from sbert_retriever.errors import InputError, InputTypeError
from sbert_retriever.index.filters import build_filter
from sbert_retriever.index.steps import Steps, work
from sbert_retriever.search.first_stage import grown, nearest, query_vector
from sbert_retriever.search.request import Search, SearchOptions, whole
from sbert_retriever.types import Hit, ScoreKind

if TYPE_CHECKING:
    from sbert_retriever.types import Vectors

_FETCHED = 20


def mmr_order(
    query: npt.NDArray[np.float32],
    candidates: Vectors,
    *,
    k: int,
    lambda_mult: float,
    score_kind: ScoreKind = "cosine",
) -> list[int]:
    """Rows of the candidates in the order they are chosen.

    The first is the most similar to the query. Each further one has the most of `lambda_mult` *
    similarity to the query - (1 - `lambda_mult`) * similarity to the nearest one chosen before.

    Args:
        query: (dim,).
        candidates: (n, dim).
        k: How many, at most n.
        lambda_mult: 1 looks at the similarity to the query only, 0 at the variety only.
        score_kind: "cosine", "dot", "neg_l2" or "neg_l1": what similarity is.

    Examples:
        >>> near = np.array([[0.99, 0.1, 0], [0.99, 0.11, 0], [0.2, 0, 0.98]], np.float32)
        >>> query = np.array([1, 0, 0], np.float32)
        >>> mmr_order(query, near, k=2, lambda_mult=1), mmr_order(query, near, k=2, lambda_mult=0)
        ([0, 1], [0, 2])
    """
    relevance = similarities(query, candidates, score_kind=score_kind)
    redundancy = np.full(len(candidates), -np.inf, dtype=np.float32)
    gains = relevance
    chosen: list[int] = []
    while len(chosen) < min(k, len(candidates)):
        best = int(np.argmax(gains))
        chosen.append(best)
        nearness = similarities(candidates[best], candidates, score_kind=score_kind)
        redundancy = np.maximum(redundancy, nearness)
        gains = lambda_mult * relevance - (1 - lambda_mult) * redundancy
        gains[chosen] = -np.inf
    return chosen


def similarities(
    one: npt.NDArray[np.float32], many: Vectors, *, score_kind: ScoreKind
) -> npt.NDArray[np.float32]:
    """The similarity (n,) of a vector (dim,) to each row of (n, dim); bigger is nearer."""
    if score_kind == "neg_l2":
        found = -np.linalg.norm(many - one, axis=1)
    elif score_kind == "neg_l1":
        found = -np.abs(many - one).sum(axis=1)
    elif score_kind == "cosine":
        found = _unit(many) @ _unit(one[None])[0]
    else:
        found = many @ one
    row: npt.NDArray[np.float32] = found.astype(np.float32, copy=False)
    return row


def _unit(rows: Vectors) -> Vectors:
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return (rows / np.where(norms == 0, 1, norms)).astype(np.float32, copy=False)


def diverse(
    retriever: Retriever,
    query: str | Sequence[float],
    k: int,
    fetch_k: int | None,
    lambda_mult: float,
    options: SearchOptions,
) -> Steps[list[Hit]]:
    """The k hits that MMR chooses among the `fetch_k` nearest to a text or a vector.

    Args:
        retriever: Where to search.
        query: A text, or a vector (dim,).
        k: How many.
        fetch_k: Among how many; None is 20, or k where that is more.
        lambda_mult: From 0 (variety only) to 1 (similarity to the query only).
        options: Those of `Retriever.search_by_vector`.

    Raises:
        InputError: `lambda_mult` outside 0 to 1, or `fetch_k` below k.
        InputTypeError: One of them is no number, or an option is unknown.
    """
    asked = Search(k=k, **options)
    fetched = max(_FETCHED, k) if fetch_k is None else whole("fetch_k", fetch_k, least=1)
    _check(asked.k, fetched, lambda_mult)
    store = retriever.store
    condition = build_filter(asked.filter, metadata_key=store.layout.metadata_key)
    row = yield from _query_row(retriever, query)
    wider = replace(asked, k=fetched)
    candidates = (yield from nearest(store, row, condition, wider))[0]
    vectors = yield from store.vectors([hit.id for hit in candidates])
    # A passage deleted since the search has no vector any more.
    candidates = [hit for hit in candidates if hit.id in vectors]
    if not candidates:
        return []
    matrix = np.stack([vectors[hit.id] for hit in candidates])
    order = mmr_order(row[0], matrix, k=k, lambda_mult=lambda_mult, score_kind=store.score_kind)
    hits = [candidates[position] for position in order]
    return (yield from grown(store, [hits], asked))[0]


def _query_row(retriever: Retriever, query: str | Sequence[float]) -> Steps[Vectors]:
    """The query's vector as (1, dim), checked."""
    if not isinstance(query, str):
        return query_vector(query, store=retriever.store)

    def encode() -> Vectors:
        return retriever.encoder.encode_queries([query])

    vectors: Vectors = yield work(encode)
    return query_vector(vectors[0], store=retriever.store)


def _check(k: int, fetch_k: int, lambda_mult: object) -> None:
    if isinstance(lambda_mult, bool) or not isinstance(lambda_mult, int | float | np.number):
        raise InputTypeError(f"lambda_mult is {lambda_mult!r}, expected a number from 0 to 1")
    if not 0 <= lambda_mult <= 1:
        raise InputError(f"lambda_mult is {lambda_mult}, expected a number from 0 to 1")
    if fetch_k < k:
        raise InputError(f"fetch_k is {fetch_k} and k is {k}: fetch_k must be at least k")
