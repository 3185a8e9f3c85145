"""Filters on metadata, as a dict with operators or as Qdrant's own `models.Filter`.

`{"year": {"gte": 2020}, "lang": ["en", "de"], "not": {"kind": "draft"}}`: every entry must hold.

| written | holds where the field |
|---|---|
| `"x"`, `{"eq": "x"}` | equals; on a list, where one element does. Types are told apart: `True` is never `1`, an int matches ints alone, a float matches any equal number |
| `["x", 3]`, `{"in": [...]}` | equals one of them; `[]` matches nothing |
| `{"ne": "x"}`, `{"nin": [...]}` | does not; an absent field passes. `{"nin": []}` lets all pass |
| `{"gt", "gte", "lt", "lte"}` | is in the range; both bounds hold for one number or time. A bound that is a datetime, a date (its midnight) or ISO text makes it a range of times, naive ones read as UTC. Numbers compare as doubles |
| `None`, `{"is_null": True}` | is null, or a list that holds a null |
| `{"ne": None}`, `{"exists": True}` | has a value: not absent, null or `[]`; `ne` also refuses lists that hold a null |
| `{"is_empty": True}` | is absent, null or `[]` |
| `{"text": "a b"}` | contains all the words, in any order and case |
| `{"text_any"}`, `{"phrase"}`, `{"prefix"}`, `{"substring"}` | contains one of the words, the words in a row, starts with, contains |
| `{"any": {...}}` | is a list of objects, one of which meets the whole filter inside |
| `{"values_count": {"gte": 2}}` | has that many values |
| `{"geo_radius": {"center": {"lat", "lon"}, "radius": metres}}`, `{"geo_box": {"top_left", "bottom_right"}}`, `{"geo_polygon": {"exterior": [...], "interiors": [...]}}` | is a point `{"lat", "lon"}` inside |
| `{"not": ...}` | does not meet the value or operators inside |

`"and": [...]`, `"or": [...]` and `"not": {...}` stand beside fields and hold whole filters. Each
operator may be spelt with a dollar (`$gte`, `$or`). A field is named as in the metadata, with dots
into nested objects (`author.name`), quotes around a name that has dots itself (`"a.b"`), and
brackets into lists (`tags[0]`); a field named like `or` is written `metadata.or`. Keys that begin
`_sbert.` mean the project's own fields.
"""  # noqa: E501  # a table's row is one line

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from qdrant_client import models

from sbert_retriever.errors import InputError, InputTypeError
from sbert_retriever.index.filters.operators import (
    BOUNDS,
    OPERATORS,
    Clauses,
    equal,
    range_condition,
)
from sbert_retriever.index.filters.walk import (
    check_filter,
    filter_fields,
    is_match_all,
    number_ranges,
)
from sbert_retriever.index.metadata import plain_value

__all__ = [
    "build_filter",
    "check_filter",
    "field_names",
    "filter_fields",
    "is_match_all",
    "number_ranges",
    "payload_key",
]

FilterSpec: TypeAlias = Mapping[str, Any] | models.Filter

MAX_DEPTH = 50
"""Levels of `and`, `or`, `not` and `any` in a dict."""

_OWN = "_sbert"
_LOGICAL = ("and", "or", "not")
_SEGMENT = re.compile(r'(?:"([^"]*)"|([^."\[\]]+))((?:\[\d*\])*)(\.|$)')
_BARE = re.compile(r"[A-Za-z0-9_-]+")


def build_filter(
    spec: FilterSpec | None, *, metadata_key: str = "metadata"
) -> models.Filter | None:
    """Turn a dict into Qdrant's filter; a `models.Filter` is checked and passes as it is.

    Args:
        spec: See the module's table. None and `{}` mean no filter.
        metadata_key: The payload key that holds the metadata; "" where it is the payload itself.

    Raises:
        InputTypeError: Neither a mapping, a `models.Filter` nor None.
        InputError: A key, operator, bound or value that has no exact meaning, by name.

    Examples:
        >>> build_filter({"lang": "en"}).must[0].key
        'metadata.lang'
    """
    if spec is None:
        return None
    if isinstance(spec, models.Filter):
        check_filter(spec)
        return spec
    if not isinstance(spec, Mapping):
        raise InputTypeError(
            f"filter is {type(spec).__name__}, expected a dict such as "
            '{"lang": "en"} or a qdrant_client.models.Filter'
        )
    if not spec:
        return None
    built = _Scope(metadata_key).group(spec, 1).as_filter()
    check_filter(built)
    return built


def payload_key(name: str, *, metadata_key: str = "metadata") -> str:
    """The payload path of a metadata field.

    Raises:
        InputError: The name is no path.

    Examples:
        >>> payload_key("author.name"), payload_key("metadata.lang"), payload_key("my key")
        ('metadata.author.name', 'metadata.lang', 'metadata."my key"')
    """
    if name == _OWN or name.startswith(f"{_OWN}."):
        return _path(name)
    prefix = f"{metadata_key}." if metadata_key else ""
    return (f"{_path(metadata_key)}." if metadata_key else "") + _path(name.removeprefix(prefix))


def field_names(name: str, *, metadata_key: str = "metadata") -> list[str]:
    """The keys that lead to one value of the metadata, as a filter's field names them.

    Raises:
        InputError: The name is no path, or leads into a list.

    Examples:
        >>> field_names("author.name"), field_names("metadata.lang"), field_names('"a.b"')
        (['author', 'name'], ['lang'], ['a.b'])
    """
    payload_key(name, metadata_key=metadata_key)  # refuses what is no path
    own = name.removeprefix(f"{metadata_key}.") if metadata_key else name
    keys = []
    for match in _SEGMENT.finditer(own):
        quoted, bare, brackets, _ = match.groups()
        if brackets:
            raise InputError(f"field {name!r} leads into a list, expected a single value")
        keys.append(quoted if bare is None else bare)
    return keys


def _path(name: str) -> str:
    """Quote what needs it, so that the engine reads the path as the user meant it."""
    if "\\" in name:
        raise InputError(
            f"filter key {name!r} has a backslash, which no path of the engine can have: give the "
            "field another name"
        )
    parts = []
    position = 0
    more = True
    while more:
        match = _SEGMENT.match(name, position)
        if match is None:
            raise InputError(
                f"filter key {name!r} is not a field path: give names with dots between them, "
                "such as 'author.name', and quotes around a name with dots or brackets"
            )
        quoted, bare, brackets, dot = match.groups()
        segment = bare if bare is not None and _BARE.fullmatch(bare) else f'"{bare or quoted}"'
        parts.append(segment + brackets)
        position, more = match.end(), bool(dot)
    plain_value(name, where=f"filter key {name!r}")
    return ".".join(parts)


@dataclass(frozen=True)
class _Scope:
    """Where field names start: the metadata, or (inside "any") the element of a list."""

    metadata_key: str

    def group(self, spec: Mapping[Any, Any], depth: int) -> Clauses:
        if depth > MAX_DEPTH:
            raise InputError(f"filter is nested deeper than {MAX_DEPTH} levels: flatten it")
        clauses = Clauses()
        for key, value in spec.items():
            if not isinstance(key, str):
                raise InputError(f"filter key {key!r} is {type(key).__name__}, expected str")
            logical = key.removeprefix("$")
            if logical in _LOGICAL:
                clauses.add(self._logical(key, logical, value, depth))
            elif key.startswith("$"):
                raise InputError(
                    f"filter operator {key!r} is unknown here: beside fields stand "
                    "and, or, not; others go inside a field, as {'year': {'gte': 2020}}"
                )
            else:
                clauses.add(self._field(key, value, depth))
        return clauses

    def _logical(self, key: str, logical: str, value: Any, depth: int) -> Clauses:
        if logical == "not":
            return Clauses(must_not=[self._inner(key, value, depth).as_condition()])
        if not isinstance(value, (list, tuple)):
            raise InputError(
                f"filter {key!r} is {type(value).__name__}, expected a list of dicts "
                f"(a field of that name is written 'metadata.{logical}')"
            )
        if not value:
            raise InputError(f"filter {key!r} is an empty list: give at least one dict")
        inner = [self._inner(key, item, depth) for item in value]
        if logical == "or":
            alternatives = [item.as_condition() for item in inner]
            return Clauses(must=[models.Filter(should=alternatives)])
        clauses = Clauses()
        for item in inner:
            clauses.add(item)
        return clauses

    def _inner(self, key: str, value: Any, depth: int) -> Clauses:
        if not isinstance(value, Mapping):
            raise InputError(
                f"filter {key!r} holds {type(value).__name__}, expected a dict "
                f"(a field of that name is written 'metadata.{key.removeprefix('$')}')"
            )
        if not value:
            raise InputError(f"filter {key!r} holds an empty dict: name a field in it")
        return self.group(value, depth + 1)

    def _field(self, name: str, value: Any, depth: int) -> Clauses:
        key = payload_key(name, metadata_key=self.metadata_key)
        if isinstance(value, Mapping):
            return self._operators(name, key, value, depth)
        return equal(name, key, value)

    def _operators(self, name: str, key: str, spec: Mapping[Any, Any], depth: int) -> Clauses:
        if not spec:
            raise InputError(f"filter on {name!r} is an empty dict: give an operator or a value")
        if depth > MAX_DEPTH:
            raise InputError(f"filter is nested deeper than {MAX_DEPTH} levels: flatten it")
        clauses = Clauses()
        bounds = {}
        for raw, value in spec.items():
            operator = raw.removeprefix("$") if isinstance(raw, str) else raw
            if operator in BOUNDS:
                bounds[operator] = value
            elif operator == "not":
                inner = self._field_not(name, key, value, depth)
                clauses.must_not.append(inner.as_condition())
            elif operator == "any":
                clauses.must.append(_nested(name, key, value, depth))
            elif operator in OPERATORS:
                clauses.add(OPERATORS[operator](name, key, value))
            else:
                raise InputError(_unknown(name, raw))
        if bounds:
            clauses.must.append(range_condition(name, key, bounds))
        return clauses

    def _field_not(self, name: str, key: str, value: Any, depth: int) -> Clauses:
        if isinstance(value, Mapping):
            return self._operators(name, key, value, depth + 1)
        return equal(name, key, value)


def _unknown(name: str, operator: object) -> str:
    known = ", ".join((*BOUNDS, *OPERATORS, "any", "not"))
    return (
        f"filter on {name!r} has the unknown operator {operator!r}: known are {known}; "
        f"a field inside an object is written '{name}.{operator}'"
    )


def _nested(name: str, key: str, spec: Any, depth: int) -> models.Condition:
    if not isinstance(spec, Mapping) or not spec:
        raise InputError(
            f"filter on {name!r}: 'any' takes a dict of the fields of one element, got {spec!r:.60}"
        )
    inner = _Scope("").group(spec, depth + 1).as_filter()
    return models.NestedCondition(nested=models.Nested(key=key.removesuffix("[]"), filter=inner))
