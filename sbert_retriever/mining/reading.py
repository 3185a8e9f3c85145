"""The vectors of a collection, page by page, at length 1."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sbert_retriever.errors import InputError, InputTypeError
from sbert_retriever.index.vectors import faulty_rows
from sbert_retriever.search.unmatchable import warn_of_unmatchable

if TYPE_CHECKING:
    from sbert_retriever.mining.blocks import OnShare
    from sbert_retriever.retriever import Retriever
    from sbert_retriever.search.request import FilterSpec

_PAGE = 1024
ROUNDING = 1e-6
"""A cosine this far below a threshold counts as at it: float32 vectors tell no finer difference,
and the vectors of one text out of two batches may differ by as much."""


class Page(NamedTuple):
    """Some passages of a collection.

    Args:
        ids: Of the passages whose vector can be compared.
        vectors: Theirs, float32 (n, dim), each of length 1.
        left_out: How many others there were, whose vector is missing, zero or not finite.
    """

    ids: list[str]
    vectors: npt.NDArray[np.float32]
    left_out: int


def pages(retriever: Retriever, filter: FilterSpec | None) -> Iterator[Page]:
    """A collection's vectors, in pages, in the store's order."""
    store = retriever.store
    condition = retriever._condition(filter)  # what a retriever may see, it decides itself
    offset = None
    while True:
        page, offset = store.connection.run(
            store.scroll(condition=condition, limit=_PAGE, offset=offset, vectors=True)
        )
        yield _usable([(passage.id, vector) for passage, vector in page], store.dim)
        if offset is None:
            return


def read_all(
    retriever: Retriever,
    filter: FilterSpec | None,
    *,
    count: int | None = None,
    on_share: OnShare | None = None,
) -> Page:
    """All of them as one page; passages that are added meanwhile may be missing.

    Args:
        retriever: Over the collection.
        filter: On metadata.
        count: How many there are, where that is known.
        on_share: Called with the share of them that is read.
    """
    if count is None:
        count = counted(retriever, filter)
    rows = np.empty((count, retriever.store.dim), dtype=np.float32)
    ids: list[str] = []
    left_out = 0
    for page in pages(retriever, filter):
        room = count - len(ids)
        rows[len(ids) : len(ids) + len(page.ids)] = page.vectors[:room]
        ids += page.ids[:room]
        left_out += page.left_out
        if on_share is not None:
            on_share(min(1.0, (len(ids) + left_out) / max(count, 1)))
    return Page(ids, rows[: len(ids)], left_out)


def counted(retriever: Retriever, filter: FilterSpec | None) -> int:
    """How many passages match; warns of a filter's fields that no passage has.

    Raises:
        InputError: The collection has tenants, and the retriever is bound to none.
    """
    store = retriever.store
    if store.tenant is None and store.connection.run(store.has_tenants()):
        raise InputError(
            f"collection {store.collection_name!r} has tenants, each with ids of its own: compare "
            "one tenant's passages (tenant=, in a shell --tenant)"
        )
    count = retriever.count(filter)
    condition = retriever._condition(filter)
    if not count and condition is not None:
        store.connection.run(warn_of_unmatchable(store, condition))
    return count


def checked_cosine(threshold: object) -> float:
    """A threshold on the cosine.

    Raises:
        InputTypeError: It is no number.
        InputError: It lies outside -1 to 1.
    """
    if isinstance(threshold, bool) or not isinstance(threshold, int | float | np.number):
        raise InputTypeError(f"threshold is {threshold!r}, expected a number")
    if not -1 <= threshold <= 1:
        raise InputError(f"threshold is {threshold!r:.40}, expected a cosine, from -1 to 1")
    return float(threshold)


def _usable(found: list[tuple[str, Any]], dim: int) -> Page:
    kept = [(passage_id, vector) for passage_id, vector in found if vector is not None]
    rows = np.array([vector for _, vector in kept], dtype=np.float32).reshape(len(kept), dim)
    bad = faulty_rows(rows, score_kind="cosine")
    good = [n for n in range(len(kept)) if n not in bad]
    unit = rows[good].astype(np.float64)
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    ids = [kept[n][0] for n in good]
    return Page(ids, unit.astype(np.float32), len(found) - len(ids))
