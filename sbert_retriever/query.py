"""What a search asks for, checked once, and the way of one query through encoder and store."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from time import perf_counter
from typing import Any, TypedDict

import numpy as np
import numpy.typing as npt
from qdrant_client import models

from sbert_retriever.errors import InputError, InputTypeError, ModelError, UnknownFieldWarning
from sbert_retriever.index.filters import build_filter, filter_fields
from sbert_retriever.index.points import RESERVED
from sbert_retriever.index.steps import Steps, work
from sbert_retriever.index.store import PassageStore
from sbert_retriever.index.vectors import faulty_rows
from sbert_retriever.ingest.expand import Expand, expand
from sbert_retriever.lazy_encoder import LazyEncoder
from sbert_retriever.types import Hit, SearchResult

FilterSpec = Mapping[str, Any] | models.Filter

# Engines count in 64 bits.
_LARGEST = 2**63 - 1


class SearchOptions(TypedDict, total=False):
    """The keyword-only arguments of `Retriever.search`, which documents them."""

    filter: FilterSpec | None
    score_threshold: float | None
    expand: Expand | None
    window: int
    exact: bool
    ef: int | None


@dataclass(frozen=True, kw_only=True)
class Search:
    """A checked request.

    Raises:
        InputError: k or window or ef below their least, a threshold that is NaN.
        InputTypeError: One of them has the wrong type.
    """

    k: int = 10
    filter: FilterSpec | None = None
    score_threshold: float | None = None
    expand: Expand | None = None
    window: int = 1
    exact: bool = False
    ef: int | None = None

    def __post_init__(self) -> None:
        whole("k", self.k, least=1)
        whole("window", self.window, least=0)
        if self.ef is not None:
            whole("ef", self.ef, least=1)
        if self.expand not in (None, "neighbours", "parent"):
            raise InputError(f"expand is {self.expand!r}, expected 'neighbours', 'parent' or None")
        if self.score_threshold is not None:
            _number("score_threshold", self.score_threshold)

    @property
    def params(self) -> models.SearchParams | None:
        """The engine's search parameters; None where all are its own."""
        if not self.exact and self.ef is None:
            return None
        return models.SearchParams(exact=self.exact, hnsw_ef=self.ef)


def whole(name: str, value: object, *, least: int) -> int:
    """A whole number of at least `least` that an engine can count to.

    Raises:
        InputTypeError: It is no whole number.
        InputError: It is too small or too large.
    """
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise InputTypeError(f"{name} is {value!r}, expected a whole number")
    if value < least:
        raise InputError(f"{name} is {value}, expected {least} or more")
    if value > _LARGEST:
        raise InputError(f"{name} is more than any collection holds: give {_LARGEST} at most")
    return int(value)


def _number(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float | np.number):
        raise InputTypeError(f"{name} is {value!r}, expected a number")
    try:
        nan = math.isnan(value)
    except OverflowError:
        raise InputError(f"{name} is too large for a float: give another") from None
    if nan:
        raise InputError(f"{name} is NaN, expected a number")


def query_texts(queries: Iterable[str]) -> list[str]:
    """Queries as a list.

    Raises:
        InputTypeError: A bare string, or an item that is none.
    """
    if isinstance(queries, str | bytes) or not isinstance(queries, Iterable):
        raise InputTypeError(
            f"queries is {type(queries).__name__}, expected an iterable of str: put one query "
            "into a list"
        )
    texts = list(queries)
    for position, text in enumerate(texts):
        query_text(text, f"query {position}")
    return texts


def query_text(query: object, name: str = "query") -> str:
    """A query as it is.

    Raises:
        InputTypeError: It is no string.
    """
    if not isinstance(query, str):
        raise InputTypeError(f"{name} is {type(query).__name__}, expected str")
    return query


def query_vector(vector: Any, *, store: PassageStore) -> npt.NDArray[np.float32]:
    """A vector (dim,) to search by, as (1, dim).

    Raises:
        InputError: Another shape, NaN or infinity, or all zero under cosine.
    """
    try:
        with np.errstate(over="ignore"):  # what is beyond float32 becomes infinity, refused below
            row = np.asarray(vector, dtype=np.float32)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputTypeError(f"the query vector is not a vector of numbers: {error}") from error
    if row.shape != (store.dim,):
        raise InputError(
            f"the query vector has shape {row.shape}, expected ({store.dim},) as in the collection"
        )
    bad = faulty_rows(row[None], score_kind=store.score_kind)
    if bad:
        raise InputError(f"the query vector is {bad[0]} and cannot be compared with anything")
    return row[None]


def searched(
    store: PassageStore, encoder: LazyEncoder, queries: list[str], asked: Search
) -> Steps[list[SearchResult]]:
    """Encode queries, search, and expand; with the milliseconds of each stage, shared by all."""
    started = perf_counter()
    if not queries:
        return []
    condition = build_filter(asked.filter, metadata_key=store.layout.metadata_key)
    vectors = yield work(encoder.encode_queries, queries)
    _refuse_faulty(vectors, queries)
    encoded = perf_counter()
    found = yield from nearest(store, vectors, condition, asked)
    ended = perf_counter()
    timings = {
        "encode": (encoded - started) * 1e3,
        "search": (ended - encoded) * 1e3,
        "total": (ended - started) * 1e3,
    }
    return [SearchResult(hits, timings) for hits in found]


def nearest(
    store: PassageStore,
    vectors: npt.NDArray[np.float32],
    condition: models.Filter | None,
    asked: Search,
) -> Steps[list[list[Hit]]]:
    """The hits of each row of `vectors` (m, dim)."""
    found = yield from store.search(vectors, k=asked.k, condition=condition, params=asked.params)
    if condition is not None and not any(found):
        yield from warn_of_unknown_fields(store, condition)
    if asked.score_threshold is not None:
        least = asked.score_threshold
        found = [[hit for hit in hits if hit.score >= least] for hits in found]
    if asked.expand is None:
        return found
    grown = []
    for hits in found:
        grown.append((yield from expand(store, hits, how=asked.expand, window=asked.window)))
    return grown


def warn_of_unknown_fields(store: PassageStore, condition: models.Filter) -> Steps[None]:
    """Say once which fields of a filter that found nothing are on no passage at all."""
    fields = sorted(f for f in filter_fields(condition) if not f.startswith(f"{RESERVED}."))
    unknown = []
    for field in fields:
        if not (yield from store.has_field(field)):
            unknown.append(field)
    if unknown:
        names = ", ".join(repr(f.removeprefix(f"{store.layout.metadata_key}.")) for f in unknown)
        warnings.warn(
            f"no passage has the metadata field {names}: the filter can match nothing. Check the "
            "spelling",
            UnknownFieldWarning,
            stacklevel=2,
        )


def _refuse_faulty(vectors: npt.NDArray[np.float32], queries: list[str]) -> None:
    finite = np.isfinite(vectors).all(axis=1)
    if not finite.all():
        position = int(np.flatnonzero(~finite)[0])
        raise ModelError(
            f"the encoder gave NaN or infinity for query {position} ({queries[position][:60]!r}): "
            "try dtype='float32'"
        )
