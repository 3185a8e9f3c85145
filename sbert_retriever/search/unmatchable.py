"""Filters that found nothing, and can find nothing: what is wrong with their fields."""

from __future__ import annotations

import sys
import warnings
from typing import Any

from qdrant_client import models

from sbert_retriever.errors import StoreError, UnknownFieldWarning
from sbert_retriever.index.filters import filter_fields, number_ranges
from sbert_retriever.index.points import RESERVED
from sbert_retriever.index.steps import Steps
from sbert_retriever.index.store import PassageStore

_HINT = " (where a passage comes from is the field '_sbert.source')"
PATIENCE_S = 1.0
"""Of a server that is asked why nothing was found, in seconds."""
_ANY_NUMBER = models.Range(gte=-sys.float_info.max, lte=sys.float_info.max)


def warn_of_unmatchable(store: PassageStore, condition: models.Filter) -> Steps[None]:
    """Say once which fields of a filter that found nothing can match nothing at all.

    Those are fields that no passage has, and fields of text that are compared with numbers. Where
    a server does not say within a moment, nothing is said: the answer, that nothing was found,
    stands.
    """
    try:
        yield from _looked_at(store.within_time(PATIENCE_S), condition)
    except StoreError:
        return


def _looked_at(store: PassageStore, condition: models.Filter) -> Steps[None]:
    fields = sorted(f for f in filter_fields(condition) if not f.startswith(f"{RESERVED}."))
    unknown = []
    for field in fields:
        if not (yield from store.has_field(field)):
            unknown.append(field)
    if unknown:
        names = ", ".join(repr(_name(store, field)) for field in unknown)
        warnings.warn(
            f"no passage has the metadata field {names}: the filter can match nothing. Check the "
            f"spelling{_HINT if 'source' in names else ''}",
            UnknownFieldWarning,
            stacklevel=2,
        )
    for field in sorted(number_ranges(condition) - set(unknown)):
        text = yield from _only_text(store, field)
        if text is not None:
            name = _name(store, field)
            warnings.warn(
                f"the metadata field {name!r} holds text, such as {text!r:.60}, and was compared "
                "with a number, which text never matches. Cells of a csv file are text: index the "
                f'file again with filterable={{"{name}": "float"}} (in a shell: --filterable '
                f"{name}=float), which encodes nothing anew",
                UnknownFieldWarning,
                stacklevel=2,
            )


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
