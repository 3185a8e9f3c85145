"""Passages of a collection that say nearly the same, as pairs and as groups."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sbert_retriever.errors import InputError
from sbert_retriever.mining.blocks import part_of
from sbert_retriever.mining.pairs import pairs_at_least
from sbert_retriever.mining.reading import ROUNDING, Page, checked_cosine, counted, read_all
from sbert_retriever.mining.through_index import IndexPairs, pairs_through_index
from sbert_retriever.search.request import whole
from sbert_retriever.types import Passage

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sbert_retriever.mining.blocks import OnShare
    from sbert_retriever.retriever import Retriever
    from sbert_retriever.search.request import FilterSpec

EXACT_UP_TO = 200_000
"""Passages up to which every pair is compared unless told otherwise (docs/mining.md)."""
# Of the work of comparing every pair, reading the vectors counts as this share.
_READING = 0.1


@dataclass(frozen=True)
class DuplicatePair:
    """Two passages and the cosine of their vectors.

    Args:
        first: The one whose id comes first in order.
        second: The other.
        score: Up to 1.
    """

    first: Passage
    second: Passage
    score: float


@dataclass(frozen=True, kw_only=True)
class Duplicates:
    """What `find_duplicates` found.

    Args:
        pairs: The most similar pairs, best first, as many as were asked for.
        groups: Ids of passages that are linked by pairs, directly or through others, each group
            in the order of its ids, the largest group first. All of them, whatever the limit.
        found: How many pairs there are.
        passages: How many passages were compared.
        left_out: How many could not be: their vector is missing, zero or not finite.
        crowded: Passages with more neighbours than the index was asked for; 0 where exact.
        exact: Whether every pair was compared.
    """

    pairs: list[DuplicatePair]
    groups: list[tuple[str, ...]]
    found: int
    passages: int
    left_out: int = 0
    crowded: int = 0
    exact: bool = True


def find_duplicates(
    retriever: Retriever,
    threshold: float = 0.9,
    *,
    filter: FilterSpec | None = None,
    limit: int = 1000,
    exact: bool | None = None,
    on_share: OnShare | None = None,
) -> Duplicates:
    """All pairs of passages whose vectors have a cosine of at least `threshold`.

    Exact up to `EXACT_UP_TO` passages: every pair is compared, by blocked matrix products, and
    scored in float64. Beyond, each passage asks the index for its neighbours, which is faster and
    misses some pairs. A cosine up to 1e-6 below the threshold counts as at it, so that
    `threshold=1` finds copies. No model is loaded.

    Args:
        retriever: Over the collection.
        threshold: The least cosine, from -1 to 1.
        filter: On metadata, as in `Retriever.search`; both passages must match.
        limit: How many pairs are handed out; all are counted, and all are in the groups.
        exact: True compares every pair, False asks the index, None decides by size.
        on_share: Called with the share of the work that is done, from 0 to 1.

    Raises:
        InputError: The threshold is out of range, limit below 1, `exact=False` where the engine's
            scores are not cosines, the index found more than ten million pairs, or the collection
            has tenants and the retriever is bound to none.
        InputTypeError: threshold or limit is no number.

    Warns:
        UnknownFieldWarning: The filter names a field that no passage has.
    """
    floor = checked_cosine(threshold) - ROUNDING
    limit = whole("limit", limit, least=1)
    total = counted(retriever, filter)
    if exact is None:
        exact = total <= EXACT_UP_TO or not _has_index_of_cosines(retriever)
    elif not exact and retriever.store.score_kind != "cosine":
        raise InputError(
            f"the index of this collection finds by {retriever.store.score_kind}, and duplicates "
            "are found by cosine: have every pair compared (exact)"
        )
    if not exact:
        asked = pairs_through_index(
            retriever, floor, filter=filter, limit=limit, total=total, on_share=on_share
        )
        return _of_index(retriever, asked)
    page = read_all(retriever, filter, count=total, on_share=part_of(on_share, 0.0, _READING))
    return _compared(retriever, page, floor, limit, part_of(on_share, _READING, 1.0))


def _has_index_of_cosines(retriever: Retriever) -> bool:
    store = retriever.store
    return store.score_kind == "cosine" and store.connection.engine != "local"


def _compared(
    retriever: Retriever, page: Page, floor: float, limit: int, on_share: OnShare | None
) -> Duplicates:
    found = pairs_at_least(page.vectors, floor, limit=limit, on_share=on_share)
    pairs = [(page.ids[i], page.ids[j], score) for i, j, score in found.pairs]
    return Duplicates(
        pairs=_with_passages(retriever, pairs),
        groups=_in_order([page.ids[row] for row in group] for group in found.groups),
        found=found.found,
        passages=len(page.ids),
        left_out=page.left_out,
    )


def _of_index(retriever: Retriever, asked: IndexPairs) -> Duplicates:
    return Duplicates(
        pairs=_with_passages(retriever, asked.pairs),
        groups=_in_order(asked.groups),
        found=asked.found,
        passages=asked.passages,
        left_out=asked.left_out,
        crowded=asked.crowded,
        exact=False,
    )


def _with_passages(
    retriever: Retriever, pairs: list[tuple[str, str, float]]
) -> list[DuplicatePair]:
    """Pairs of ids as pairs of passages, best first; what was deleted meanwhile is left out."""
    wanted = dict.fromkeys(passage_id for one, other, _ in pairs for passage_id in (one, other))
    passages = {passage.id: passage for passage in retriever.get(wanted)}
    ordered = sorted((-score, min(one, other), max(one, other)) for one, other, score in pairs)
    return [
        DuplicatePair(passages[one], passages[other], min(-negative, 1.0))
        for negative, one, other in ordered
        if one in passages and other in passages
    ]


def _in_order(groups: Iterable[list[str]]) -> list[tuple[str, ...]]:
    listed = [tuple(sorted(group)) for group in groups]
    return sorted(listed, key=lambda group: (-len(group), group))
