"""Whether a copy is one: counts, contents and searches on both sides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from qdrant_client import models

from sbert_retriever.counting import counted
from sbert_retriever.errors import StoreError
from sbert_retriever.index.store import PassageStore
from sbert_retriever.transfer.walking import missing_from
from sbert_retriever.types import Failure, Hit

_K = 10
_BATCH = 50
_TOLERANCE = 1e-5
_SHOWN = 3
_EXACT = models.SearchParams(exact=True)


@dataclass(frozen=True, kw_only=True)
class Checked:
    """What was compared and found equal.

    Args:
        count: Passages on either side.
        compared: Passages whose content was compared.
        searches: Searches that gave the same on both sides; 0 where the models differ.
        largest: The largest difference between two scores.
    """

    count: int
    compared: int
    searches: int = 0
    largest: float = 0.0

    def __str__(self) -> str:
        both = counted(self.count, "passage")
        text = f"checked: {both} on both sides, {self.compared:,} of them compared"
        if self.searches:
            text += f", {self.searches:,} searches equal (scores within {self.largest:.0e})"
        return text


def check(
    source: PassageStore,
    target: PassageStore,
    ids: Sequence[str],
    *,
    same_vectors: bool,
    failures: Sequence[Failure] = (),
) -> Checked:
    """Compare a copy with what it was made from.

    Args:
        source: The original.
        target: The copy.
        ids: Passages whose content, and whose vectors' neighbours, are compared.
        same_vectors: Whether the vectors came along; else contents alone are compared.
        failures: What could not be copied, to be named where the counts differ.

    Raises:
        StoreError: With the difference.
    """
    count = _equal_counts(source, target, failures)
    _equal_contents(source, target, ids)
    checked = Checked(count=count, compared=len(ids))
    if not (same_vectors and ids):
        return checked
    largest = max(_search_differences(source, target, ids))
    return Checked(count=count, compared=len(ids), searches=len(ids), largest=largest)


def _equal_counts(source: PassageStore, target: PassageStore, failures: Sequence[Failure]) -> int:
    ours = source.connection.run(source.count(None))
    theirs = target.connection.run(target.count(None))
    if ours == theirs and not failures:
        return ours
    missing = source.connection.run(missing_from(target, source))
    extra = target.connection.run(missing_from(source, target))
    reasons = "; ".join(f"{f.id[:80]!r} {f.reason}" for f in failures[:_SHOWN])
    raise StoreError(
        f"the copy differs: {counted(ours, 'passage')} at {source.connection.location}, "
        f"{theirs:,} at "
        f"{target.connection.location}; {_listed('missing there', missing)}; "
        f"{_listed('not in the original', extra)}"
        + (f"; could not be copied: {reasons}" if reasons else "")
        + (". --prune deletes what is not in the original" if extra else "")
    )


def _listed(what: str, ids: Sequence[str]) -> str:
    shown = ", ".join(repr(i[:80]) for i in ids[:_SHOWN])
    more = ", ..." if len(ids) > _SHOWN else ""
    return f"{len(ids):,} {what}" + (f" ({shown}{more})" if ids else "")


def _equal_contents(source: PassageStore, target: PassageStore, ids: Sequence[str]) -> None:
    ours = source.connection.run(source.get(ids))
    theirs = {p.id: p for p in target.connection.run(target.get(ids))}
    for passage in ours:
        if theirs.get(passage.id) != passage:
            raise StoreError(
                f"the copy differs: passage {passage.id[:80]!r} has another content there. If "
                "something was writing meanwhile, run it again"
            )


def _search_differences(
    source: PassageStore, target: PassageStore, ids: Sequence[str]
) -> list[float]:
    """The largest difference between scores, of each passage's search by its own vector."""
    found = source.connection.run(source.vectors(ids))
    differences = []
    known = list(found)
    for start in range(0, len(known), _BATCH):
        part = known[start : start + _BATCH]
        rows = np.stack([found[i] for i in part])
        ours, theirs = (
            side.connection.run(side.search(rows, k=_K, params=_EXACT)) for side in (source, target)
        )
        for passage_id, left, right in zip(part, ours, theirs, strict=True):
            differences.append(_difference(passage_id, left, right))
    return differences


def _difference(passage_id: str, left: Sequence[Hit], right: Sequence[Hit]) -> float:
    """The largest difference between two rankings' scores.

    Passages whose scores tie may stand in another order, and at the end others of the same score.
    """
    gaps = [abs(a.score - b.score) for a, b in zip(left, right, strict=False)]
    scale = max([1.0, *(abs(hit.score) for hit in left)])
    same = len(left) == len(right) and max(gaps, default=0.0) <= _TOLERANCE * scale
    if not same or _strays(left, right, scale) or _strays(right, left, scale):
        raise StoreError(
            f"the copy differs: the vector of {passage_id[:80]!r} finds "
            f"{_ranking(left)} in the original and {_ranking(right)} in the copy"
        )
    return max(gaps, default=0.0)


def _strays(hits: Sequence[Hit], others: Sequence[Hit], scale: float) -> list[str]:
    """Hits that the other side lacks though they are better than its last one."""
    known = {hit.id for hit in others}
    least = (others[-1].score if others else 0.0) + _TOLERANCE * scale
    return [hit.id for hit in hits if hit.id not in known and hit.score > least]


def _ranking(hits: Sequence[Hit]) -> str:
    return ", ".join(f"{hit.id[:40]!r} {hit.score:.6f}" for hit in hits[:_SHOWN]) or "nothing"
