"""`--filter lang=en --filter 'year>=2020'` to the filter that `Retriever` takes."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from sbert_retriever.errors import InputError

_FORM = re.compile(r"\s*(.+?)\s*(>=|<=|!=|=|>|<)\s*(.*)", re.DOTALL)
_BOUNDS = {">": "gt", ">=": "gte", "<": "lt", "<=": "lte"}


def parsed_filter(conditions: Sequence[str] | None, as_json: str | None) -> dict[str, Any] | None:
    """One filter out of all that was given; None where nothing was.

    Raises:
        InputError: A condition has no operator, or the JSON is no object.
    """
    parts = [parsed_condition(condition) for condition in conditions or ()]
    if as_json is not None:
        parts.append(_object(as_json))
    if not parts:
        return None
    return parts[0] if len(parts) == 1 else {"and": parts}


def parsed_filterable(given: Sequence[str] | None) -> dict[str, str]:
    """Fields to index for filtering, and their kinds.

    Raises:
        InputError: One has no field or no kind, or a field has two kinds.

    Examples:
        >>> parsed_filterable(["year=integer", "author.name=keyword"])
        {'year': 'integer', 'author.name': 'keyword'}
    """
    kinds: dict[str, str] = {}
    for each in given or ():
        field, _, kind = (part.strip() for part in each.rpartition("="))
        if not field or not kind:
            raise InputError(
                f"--filterable {each!r} is not a field and its kind: write FIELD=KIND, such as "
                "year=integer"
            )
        if kinds.setdefault(field, kind) != kind:
            raise InputError(
                f"--filterable has {field!r} as {kinds[field]!r} and as {kind!r}: give one kind"
            )
    return kinds


def parsed_condition(condition: str) -> dict[str, Any]:
    """One condition.

    A value that reads as a number, true, false or null matches both that and the text, since
    csv files hold texts alone; in quotes it is the text.

    Raises:
        InputError: It has no field or no operator.

    Examples:
        >>> parsed_condition("lang=en"), parsed_condition("year>=2020")
        ({'lang': 'en'}, {'year': {'gte': 2020}})
        >>> parsed_condition("year=2020"), parsed_condition('year="2020"')
        ({'year': {'in': [2020, '2020']}}, {'year': '2020'})
    """
    match = _FORM.fullmatch(condition)
    if match is None:
        raise InputError(
            f"--filter {condition!r} is not a condition: write FIELD=VALUE, or !=, >=, <=, >, < "
            "(in quotes, for the shell)"
        )
    field, operator, written = match.groups()
    if operator in _BOUNDS:
        return {field: {_BOUNDS[operator]: _value(written)}}
    readings = _readings(written)
    if operator == "!=":
        return {field: {"nin": readings} if len(readings) > 1 else {"ne": readings[0]}}
    return {field: {"in": readings} if len(readings) > 1 else readings[0]}


def _readings(written: str) -> list[Any]:
    value = _value(written)
    if isinstance(value, str):
        return [value]
    # Null has no place in a list of values.
    return [value] if value is None else [value, written]


def _value(written: str) -> Any:
    """A number, true, false, null or a text in quotes; anything else is a text as it stands."""
    try:
        value = json.loads(written)
    except (ValueError, RecursionError):
        return written
    finite = not isinstance(value, float) or abs(value) != float("inf")
    return (
        value
        if isinstance(value, str | int | float | None) and finite and value == value
        else written
    )


def _object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"--filter-json is not JSON ({error}): put it in single quotes") from error
    if not isinstance(value, dict) or not value:
        raise InputError(
            f"--filter-json holds {text[:60]!r}, expected an object with a field, such as "
            '{"lang": "en"}'
        )
    return value
