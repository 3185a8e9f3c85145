"""The best of each group: "three documents, two chunks of each".

The engines differ in what they offer here, so it is done over their plain searches, and exactly:
groups that were found are left out of the next search until there are enough, and each group that
may have more is asked for its own best.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

from qdrant_client import models

from sbert_retriever.errors import InputError
from sbert_retriever.index.filters import field_names, payload_key
from sbert_retriever.index.points import SOURCE_KEY
from sbert_retriever.index.steps import Steps
from sbert_retriever.index.store import PassageStore
from sbert_retriever.search.request import LARGEST
from sbert_retriever.types import Hit

Find: TypeAlias = Callable[[models.Filter | None, int], Steps[list[Hit]]]
"""The n best hits under a condition."""

_LEAST_FETCHED = 50
_SOURCES = ("source", SOURCE_KEY)


def grouped(
    store: PassageStore,
    find: Find,
    condition: models.Filter | None,
    *,
    field: str,
    k: int,
    size: int,
) -> Steps[list[Hit]]:
    """The `size` best hits of each of the k best groups, group after group.

    Args:
        store: Where to search.
        find: How.
        condition: Holds for all.
        field: "source", or a metadata field; a passage without a value is a group of its own.
        k: How many groups.
        size: How many hits of each at most.

    Raises:
        InputError: The field is no path to a single value; or a passage has a list, an object or a
            fraction there.
    """
    groups: dict[Any, list[Hit]] = {}
    names = _names(store, field)
    complete = False
    while len(groups) < k and not complete:
        wanted = min(max(_LEAST_FETCHED, 4 * size * (k - len(groups))), LARGEST)
        hits = yield from find(_without(store, condition, field, groups), wanted)
        complete = len(hits) < wanted
        for hit in hits:
            groups.setdefault(_value(hit, names), []).append(hit)
    for value in list(groups)[:k]:
        short = len(groups[value]) < size and not isinstance(value, _Alone)
        if short and not complete:
            own = _and(condition, must=[_is(store, field, value)])
            groups[value] = yield from find(own, size)
    return _flat(groups, k, size)


def grouped_hits(
    store: PassageStore, hits: Iterable[Hit], *, field: str, k: int, size: int
) -> list[Hit]:
    """The same among hits that are there already."""
    groups: dict[Any, list[Hit]] = {}
    names = _names(store, field)
    for hit in hits:
        groups.setdefault(_value(hit, names), []).append(hit)
    return _flat(groups, k, size)


def all_alone(store: PassageStore, hits: Iterable[Hit], *, field: str) -> str | None:
    """The payload key of a field of the metadata that none of these hits has; else None."""
    names = _names(store, field)
    if names is None or not all(isinstance(_value(hit, names), _Alone) for hit in hits):
        return None
    return _key(store, field)


@dataclass(frozen=True)
class _Alone:
    """A passage that has no value and is a group of its own; its id may be another's value."""

    id: str


def _flat(groups: dict[Any, list[Hit]], k: int, size: int) -> list[Hit]:
    return [hit for value in list(groups)[:k] for hit in groups[value][:size]]


def _names(store: PassageStore, field: str) -> list[str] | None:
    """The keys that lead to the value in the metadata; None is the source."""
    if _is_source(store, field):
        return None
    return field_names(field, metadata_key=store.layout.metadata_key)


def _value(hit: Hit, names: list[str] | None) -> Any:
    found: Any = hit.source if names is None else hit.metadata
    for name in names or ():
        found = found.get(name) if isinstance(found, dict) else None
    if found is None:
        return _Alone(hit.id)
    if not isinstance(found, str | int):
        field = ".".join(names or ())
        raise InputError(
            f"group_by={field!r}: passage {hit.id[:80]!r} has {found!r:.60} there, and groups are "
            "made by texts, whole numbers and truth values"
        )
    # True and 1 are one key of a dict, and two groups.
    return (found,) if isinstance(found, bool) else found


def _is(store: PassageStore, field: str, value: Any) -> models.FieldCondition:
    match = models.MatchValue(value=value[0] if isinstance(value, tuple) else value)
    return models.FieldCondition(key=_key(store, field), match=match)


def _key(store: PassageStore, field: str) -> str:
    if _is_source(store, field):
        return SOURCE_KEY
    return payload_key(field, metadata_key=store.layout.metadata_key)


def _without(
    store: PassageStore, condition: models.Filter | None, field: str, values: Iterable[Any]
) -> models.Filter | None:
    """A condition that groups which were found do not meet."""
    seen = list(values)
    alone: list[Any] = [store.point_id(value.id) for value in seen if isinstance(value, _Alone)]
    others: list[Any] = [_is(store, field, v) for v in seen if not isinstance(v, _Alone)]
    if alone:
        others.append(models.HasIdCondition(has_id=alone))
    return _and(condition, must_not=others) if others else condition


def _and(condition: models.Filter | None, **more: Any) -> models.Filter:
    added = models.Filter(**more)
    return added if condition is None else models.Filter(must=[condition, added])


def _is_source(store: PassageStore, field: str) -> bool:
    """Whether a field is where a passage comes from; other programs keep that in the metadata."""
    return field in _SOURCES and not store.layout.foreign
