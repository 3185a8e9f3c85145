"""The first stage: vectors, words or both to passages."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from qdrant_client import models

from sbert_retriever.errors import (
    InputError,
    InputTypeError,
    StoreError,
    UnknownFieldWarning,
)
from sbert_retriever.index.legs import hits_of, legs, sparse_rankings
from sbert_retriever.index.steps import Steps
from sbert_retriever.index.store import PassageStore
from sbert_retriever.index.vectors import faulty_rows
from sbert_retriever.ingest.expand import expand
from sbert_retriever.search.distinct import found_unlike, unlike_hits
from sbert_retriever.search.diversity import diverse
from sbert_retriever.search.grouping import Find, all_alone, grouped, grouped_hits
from sbert_retriever.search.hybrid import SCORE_KINDS, fused
from sbert_retriever.search.request import Search
from sbert_retriever.search.unmatchable import PATIENCE_S, warn_of_unmatchable
from sbert_retriever.types import Fusion, Hit, SparseVector

_Found: TypeAlias = Steps[list[list[Hit]]]


def query_vector(vector: Any, *, store: PassageStore) -> npt.NDArray[np.float32]:
    """A vector (dim,) to search by, as (1, dim).

    Raises:
        InputError: Another shape, NaN or infinity, too large, or all zero under cosine.
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
    bad = faulty_rows(row[None], score_kind=store.score_kind, half=store.half)
    if bad:
        raise InputError(f"the query vector is {bad[0]} and cannot be compared with anything")
    return row[None]


def nearest(
    store: PassageStore,
    vectors: npt.NDArray[np.float32],
    condition: models.Filter | None,
    asked: Search,
) -> Steps[list[list[Hit]]]:
    """The hits of each row of `vectors` (m, dim), those below the threshold left out."""

    def of_row(row: npt.NDArray[np.float32]) -> Find:
        def find(within: models.Filter | None, n: int) -> Steps[list[Hit]]:
            found = yield from store.search(row[None], k=n, condition=within, params=asked.params)
            return found[0]

        return find

    if asked.group_by is not None:
        found = yield from _groups(store, [of_row(row) for row in vectors], condition, asked)
    elif asked.distinct is not None:
        found = yield from _distinct(store, [of_row(row) for row in vectors], condition, asked)
    else:
        found = yield from store.search(
            vectors, k=asked.fetched, condition=condition, params=asked.params
        )
    kept = yield from _kept(store, found, condition, asked)
    return (yield from _varied(store, vectors, kept, asked))


def by_words(
    store: PassageStore,
    terms: Sequence[SparseVector],
    condition: models.Filter | None,
    asked: Search,
) -> Steps[list[list[Hit]]]:
    """The hits of each question's sparse vector, those below the threshold left out.

    Raises:
        InputError: Diversity is asked for, which looks at meanings.
    """
    if asked.diversity is not None:
        raise InputError("diversity looks at meanings, and mode='sparse' at words: use 'hybrid'")

    def of_terms(vectors: Sequence[SparseVector], within: models.Filter | None, n: int) -> _Found:
        rankings = yield from sparse_rankings(store, vectors, k=n, condition=within)
        kind = store.sparse_encoder().identity.score_kind
        return (yield from hits_of(store, rankings, kind))

    def of_one(vector: SparseVector) -> Find:
        def find(within: models.Filter | None, n: int) -> Steps[list[Hit]]:
            return (yield from of_terms([vector], within, n))[0]

        return find

    if asked.group_by is not None:
        found = yield from _groups(store, [of_one(t) for t in terms], condition, asked)
    elif asked.distinct is not None:
        found = yield from _distinct(store, [of_one(t) for t in terms], condition, asked)
    else:
        found = yield from of_terms(terms, condition, asked.k)
    return (yield from _kept(store, found, condition, asked))


def by_both(
    store: PassageStore,
    vectors: npt.NDArray[np.float32],
    terms: Sequence[SparseVector],
    condition: models.Filter | None,
    asked: Search,
    fusions: Sequence[Fusion],
) -> Steps[list[list[Hit]]]:
    """The hits of dense and sparse vectors in one order, those below the threshold left out.

    Args:
        store: The collection.
        vectors: (m, dim).
        terms: m sparse vectors.
        condition: Holds for both.
        asked: How many, and which.
        fusions: How each question's two rankings are joined; they differ in weight alone.
    """
    one = fusions[0]
    found = yield from legs(
        store,
        vectors,
        terms,
        k=max(asked.fetched, one.depth),
        condition=condition,
        params=asked.params,
    )
    rankings = [
        fused(pair, fusion)[: asked.fetched] for pair, fusion in zip(found, fusions, strict=True)
    ]
    hits = yield from hits_of(store, rankings, SCORE_KINDS[one.method or "weighted"])
    hits = yield from _kept(store, hits, condition, asked)
    hits = yield from _varied(store, vectors, hits, asked)
    if asked.distinct is not None:
        hits = yield from _unlike(store, hits, asked.k, asked.distinct)
    return [in_groups(store, each, asked) for each in hits]


def in_groups(store: PassageStore, hits: list[Hit], asked: Search) -> list[Hit]:
    """The best of each group among hits that are there, where groups are asked for."""
    if asked.group_by is None:
        return hits
    return grouped_hits(store, hits, field=asked.group_by, k=asked.k, size=asked.group_size)


def _groups(
    store: PassageStore,
    finds: Sequence[Find],
    condition: models.Filter | None,
    asked: Search,
) -> _Found:
    field, k, size = asked.group_by or "", asked.k, asked.group_size
    return _one_by_one(
        grouped(store, find, condition, field=field, k=k, size=size) for find in finds
    )


def _distinct(
    store: PassageStore,
    finds: Sequence[Find],
    condition: models.Filter | None,
    asked: Search,
) -> _Found:
    k, nearness, fetched = asked.k, asked.distinct or 0.0, asked.fetched
    return _one_by_one(
        found_unlike(store, find, condition, k=k, nearness=nearness, fetched=fetched)
        for find in finds
    )


def _one_by_one(searches: Iterable[Steps[list[Hit]]]) -> _Found:
    found = []
    for steps in searches:
        found.append((yield from steps))
    return found


def _unlike(store: PassageStore, found: list[list[Hit]], k: int, nearness: float) -> _Found:
    chosen = []
    for hits in found:
        chosen.append((yield from unlike_hits(store, hits, k=k, nearness=nearness)))
    return chosen


def _varied(
    store: PassageStore,
    vectors: npt.NDArray[np.float32],
    found: list[list[Hit]],
    asked: Search,
) -> _Found:
    """The hits that are near to the query and unlike one another, where that is asked for."""
    if asked.diversity is None:
        return found
    chosen = []
    for row, hits in zip(vectors, found, strict=True):
        nearness = 1 - asked.diversity
        chosen.append((yield from diverse(store, row, hits, k=asked.k, lambda_mult=nearness)))
    return chosen


def _kept(
    store: PassageStore,
    found: list[list[Hit]],
    condition: models.Filter | None,
    asked: Search,
) -> Steps[list[list[Hit]]]:
    """What is above the threshold; where a filter left nothing at all, its fields are looked at."""
    if condition is not None and not any(found):
        yield from warn_of_unmatchable(store, condition)
    if asked.score_threshold is None:
        return found
    least = asked.score_threshold
    return [[hit for hit in hits if hit.score >= least] for hits in found]


def grown(store: PassageStore, found: list[list[Hit]], asked: Search) -> Steps[list[list[Hit]]]:
    """The hits with the text around them, where that is asked for.

    Where they are grouped by a field that none of them has, the field is looked at.
    """
    yield from _warn_of_unknown_group(store, found, asked)
    if asked.expand is None:
        return found
    texts = []
    for hits in found:
        texts.append((yield from expand(store, hits, how=asked.expand, window=asked.window)))
    return texts


def _warn_of_unknown_group(
    store: PassageStore, found: list[list[Hit]], asked: Search
) -> Steps[None]:
    """Say once that no passage has the field that groups are to be made by."""
    hits = [hit for each in found for hit in each]
    if asked.group_by is None or not hits:
        return
    key = all_alone(store, hits, field=asked.group_by)
    if key is None:
        return
    try:
        known = yield from store.within_time(PATIENCE_S).has_field(key)
    except StoreError:
        return  # a server in strict mode, and a field without an index; or it takes its time
    if not known:
        warnings.warn(
            f"no passage has the metadata field {asked.group_by!r}, so each hit is a group of its "
            "own. Check the spelling (where a passage comes from is the field 'source')",
            UnknownFieldWarning,
            stacklevel=2,
        )
