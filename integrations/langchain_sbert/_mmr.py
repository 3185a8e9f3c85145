"""LangChain's maximal marginal relevance, by text and by vector."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from sbert_retriever import Retriever
from sbert_retriever.errors import InputError, InputTypeError
from sbert_retriever.index.filters import build_filter
from sbert_retriever.index.steps import Steps, work
from sbert_retriever.search.diversity import diverse as chosen_by_mmr
from sbert_retriever.search.first_stage import grown, nearest, query_vector
from sbert_retriever.search.request import Search, SearchOptions, whole
from sbert_retriever.types import Hit

if TYPE_CHECKING:
    from sbert_retriever.types import Vectors

_FETCHED = 20


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
    store = retriever.store.within_time(asked.timeout_s)
    condition = build_filter(asked.filter, metadata_key=store.layout.metadata_key)
    row = yield from _query_row(retriever, query)
    wider = replace(asked, k=fetched)
    candidates = (yield from nearest(store, row, condition, wider))[0]
    hits = yield from chosen_by_mmr(store, row[0], candidates, k=k, lambda_mult=lambda_mult)
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
