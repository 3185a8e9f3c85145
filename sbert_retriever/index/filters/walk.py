"""Walks through Qdrant's filters: are they safe, which fields do they name, do they match all.

The embedded engine takes filters that harm it: a bound of infinity deletes other points when the
log is replayed, deep nesting makes a log that cannot be read again, and deeper nesting ends the
process. Each is refused here, the same in every mode.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel
from qdrant_client import models

from sbert_retriever.errors import InputError

MAX_LEVELS = 100
"""Levels of objects and lists in the filter's JSON: 50 filters, or 25 nested conditions, deep.

The embedded engine cannot replay a delete with more than about 120.
"""


def check_filter(filter: models.Filter) -> None:
    """Refuse what harms the engine.

    Raises:
        InputError: Nesting beyond `MAX_LEVELS`, or a number that is NaN or infinite, by its key.
    """
    _check(filter, 2)


def filter_fields(filter: models.Filter) -> set[str]:
    """The payload keys that a filter names; those inside a nested condition as `list[].key`."""
    return set(_fields(filter, ""))


def number_ranges(filter: models.Filter) -> set[str]:
    """The payload keys that a filter compares with numbers, by a bound, where that must hold."""
    return set(_number_ranges(filter))


def is_match_all(filter: models.Filter) -> bool:
    """Whether a filter is bound to match every point: nothing in it can fail.

    Such are `Filter()`, `must=[]`, and what comes to the same, e.g. "not one of no values".
    """
    return _verdict(filter) is True


def clause(conditions: Any) -> list[Any]:
    """A clause of a filter as a list: the models allow one condition, a list and None."""
    if conditions is None:
        return []
    return list(conditions) if isinstance(conditions, (list, tuple)) else [conditions]


def _children(filter: models.Filter) -> Iterator[tuple[Any, int]]:
    """Each condition with the levels of JSON around it, the filter's own object included."""
    for conditions in (filter.must, filter.should, filter.must_not):
        for condition in clause(conditions):
            yield condition, 2
    if filter.min_should is not None:
        for condition in filter.min_should.conditions:
            yield condition, 3


def _check(filter: models.Filter, level: int) -> None:
    if level > MAX_LEVELS:
        raise InputError(
            f"filter is nested deeper than the engine can take ({MAX_LEVELS} levels of JSON): "
            "flatten it"
        )
    for condition, levels in _children(filter):
        if isinstance(condition, models.Filter):
            _check(condition, level + levels)
        elif isinstance(condition, models.NestedCondition):
            _check(condition.nested.filter, level + levels + 2)
        elif isinstance(condition, models.FieldCondition):
            _check_numbers(condition, condition.key)


def _check_numbers(value: Any, key: str) -> None:
    if isinstance(value, float) and not math.isfinite(value):
        raise InputError(f"filter on {key!r} has the number {value}, expected a finite one")
    if isinstance(value, BaseModel):
        for name in type(value).model_fields:
            _check_numbers(getattr(value, name), key)
    elif isinstance(value, (list, tuple)):
        for item in value:
            _check_numbers(item, key)


def _fields(filter: models.Filter, prefix: str) -> Iterator[str]:
    for condition, _ in _children(filter):
        if isinstance(condition, models.Filter):
            yield from _fields(condition, prefix)
        elif isinstance(condition, models.NestedCondition):
            array = prefix + condition.nested.key
            yield array
            yield from _fields(condition.nested.filter, array.removesuffix("[]") + "[].")
        elif (key := _key(condition)) is not None:
            yield prefix + key


def _number_ranges(filter: models.Filter) -> Iterator[str]:
    needed = filter.min_should.conditions if filter.min_should is not None else ()
    must = clause(filter.must)
    for condition in (*must, *clause(filter.should), *needed):
        if isinstance(condition, models.Filter):
            yield from _number_ranges(condition)
            continue
        span = condition.range if isinstance(condition, models.FieldCondition) else None
        # "One of 7 and '7'" asks for the text as well.
        if type(span) is models.Range and (condition in must or span.gte != span.lte):
            yield condition.key


def _key(condition: Any) -> str | None:
    if isinstance(condition, models.FieldCondition):
        return condition.key
    if isinstance(condition, models.IsNullCondition):
        return condition.is_null.key
    return condition.is_empty.key if isinstance(condition, models.IsEmptyCondition) else None


def _verdict(condition: Any) -> bool | None:
    """True or False where no payload can change it, else None."""
    if isinstance(condition, models.HasIdCondition):
        return None if condition.has_id else False
    if not isinstance(condition, models.Filter):
        return None
    must = [_verdict(item) for item in clause(condition.must)]
    must_not = [_negated(_verdict(item)) for item in clause(condition.must_not)]
    should = [_verdict(item) for item in clause(condition.should)]
    parts = [*must, *must_not, _at_least(1 if should else 0, should)]
    if condition.min_should is not None:
        conditions = [_verdict(item) for item in condition.min_should.conditions]
        parts.append(_at_least(condition.min_should.min_count, conditions))
    if False in parts:
        return False
    return None if None in parts else True


def _negated(verdict: bool | None) -> bool | None:
    return None if verdict is None else not verdict


def _at_least(count: int, verdicts: list[bool | None]) -> bool | None:
    if sum(verdict is True for verdict in verdicts) >= count:
        return True
    return False if sum(verdict is not False for verdict in verdicts) < count else None
