"""Filters that found nothing, and can find nothing: what is wrong with their fields."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterable
from time import monotonic
from typing import Any

from qdrant_client import models

from sbert_retriever.errors import StoreError, UnknownFieldWarning
from sbert_retriever.index.filters import filter_fields, number_ranges
from sbert_retriever.index.points import RESERVED
from sbert_retriever.index.steps import Steps
from sbert_retriever.index.store import PassageStore

_HINT = " (where a passage comes from is the field '_sbert.source')"
PATIENCE_S = 1.0
"""For all that is asked about why nothing was found, in seconds."""
_MOST_FIELDS = 8
_SHOWN = 80
_ANY_NUMBER = models.Range(gte=-sys.float_info.max, lte=sys.float_info.max)


def warn_of_unmatchable(store: PassageStore, condition: models.Filter) -> Steps[None]:
    """Say once which fields of a filter that found nothing can match nothing at all.

    Those are fields that no passage has, and fields of text that are compared with numbers. The
    first few fields are looked at, and for a moment: where a server does not say by then, nothing
    is said, as the answer, that nothing was found, stands.
    """
    try:
        yield from _looked_at(store, condition)
    except StoreError:
        return


def _looked_at(store: PassageStore, condition: models.Filter) -> Steps[None]:
    left_s = _countdown()
    fields = sorted(f for f in filter_fields(condition) if not f.startswith(f"{RESERVED}."))
    unknown = yield from _unknown(store, fields[:_MOST_FIELDS], left_s)
    if unknown:
        names = ", ".join(repr(_shown(_name(store, field))) for field in unknown)
        warnings.warn(
            f"no passage has the metadata field {names}: the filter can match nothing. Check the "
            f"spelling{_HINT if 'source' in names else ''}",
            UnknownFieldWarning,
            stacklevel=2,
        )
    for field in sorted(number_ranges(condition) - set(unknown))[:_MOST_FIELDS]:
        left = left_s()
        if left <= 0:
            return
        text = yield from _only_text(store.within_time(left), field)
        if text is not None:
            _warn_of_text(_shown(_name(store, field)), text)


def _countdown() -> Callable[[], float]:
    """Gives the seconds that are left."""
    until = monotonic() + PATIENCE_S
    return lambda: until - monotonic()


def _unknown(
    store: PassageStore, fields: Iterable[str], left_s: Callable[[], float]
) -> Steps[list[str]]:
    """Those of some fields that no passage has, as far as there is time to ask."""
    unknown = []
    for field in fields:
        left = left_s()
        if left <= 0:
            break
        if not (yield from store.within_time(left).has_field(field)):
            unknown.append(field)
    return unknown


def _warn_of_text(name: str, text: str) -> None:
    warnings.warn(
        f"the metadata field {name!r} holds text, such as {text!r:.60}, and was compared "
        "with a number, which text never matches. Cells of a csv file are text: index the "
        f'file again with filterable={{"{name}": "float"}} (in a shell: --filterable '
        f"{name}=float), which encodes nothing anew",
        UnknownFieldWarning,
        stacklevel=3,
    )


def _shown(name: str) -> str:
    """A field's name as a warning has room for it."""
    return name if len(name) <= _SHOWN else f"{name[: _SHOWN - 1]}…"


def _name(store: PassageStore, key: str) -> str:
    return key.removeprefix(f"{store.layout.metadata_key}.")


def _only_text(store: PassageStore, key: str) -> Steps[str | None]:
    """A text under a payload key under which no passage has a number; None where that is not so."""
    numbers = models.FieldCondition(key=key, range=_ANY_NUMBER)
    if (yield from store.has_any(models.Filter(must=[numbers]))):
        return None
    empty = models.IsEmptyCondition(is_empty=models.PayloadField(key=key))
    there = models.Filter(must_not=[empty])
    page, _ = yield from store.scroll(condition=there, limit=1, offset=None)
    value: Any = page[0][0].metadata if page else None
    for part in _name(store, key).split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value if isinstance(value, str) and value else None
