"""What stands inside one field of a dict filter: values, ranges, presence, text and counts.

The meaning of each operator is in the table of `sbert_retriever.index.filters`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from qdrant_client import models

from sbert_retriever.errors import InputError
from sbert_retriever.index.filters.geo import geo_box, geo_polygon, geo_radius
from sbert_retriever.index.filters.values import bound, unwrap
from sbert_retriever.index.metadata import plain_value

BOUNDS = ("gt", "gte", "lt", "lte")


@dataclass
class Clauses:
    """Conditions that must hold, and conditions that must not."""

    must: list[models.Condition] = field(default_factory=list)
    must_not: list[models.Condition] = field(default_factory=list)

    def add(self, other: Clauses) -> None:
        """Both must hold."""
        self.must += other.must
        self.must_not += other.must_not

    def as_filter(self) -> models.Filter:
        """As Qdrant's filter."""
        return models.Filter(must=self.must or None, must_not=self.must_not or None)

    def as_condition(self) -> models.Condition:
        """As one condition, bare where it is alone."""
        if len(self.must) == 1 and not self.must_not:
            return self.must[0]
        return self.as_filter()


def _nothing() -> models.Condition:
    return models.HasIdCondition(has_id=[])


def _null(key: str) -> models.Condition:
    return models.IsNullCondition(is_null=models.PayloadField(key=key))


def _empty(key: str) -> models.Condition:
    return models.IsEmptyCondition(is_empty=models.PayloadField(key=key))


def equal(name: str, key: str, value: Any) -> Clauses:
    """The field equals the value, or one of them where it is a list."""
    values = value if _is_list(value) else [value]
    return Clauses(must=[_one_of(_equalities(name, key, values))])


def _unequal(name: str, key: str, value: Any) -> Clauses:
    values = list(value) if _is_list(value) else [value]
    clauses = Clauses(must_not=_equalities(name, key, values))
    if any(item is None for item in values):
        clauses.must_not.append(_empty(key))
    return clauses


def _in(name: str, key: str, value: Any) -> Clauses:
    _expect_list(name, "in", value)
    return equal(name, key, value)


def _not_in(name: str, key: str, value: Any) -> Clauses:
    _expect_list(name, "nin", value)
    return _unequal(name, key, value)


def _is_list(value: Any) -> bool:
    return isinstance(value, (list, tuple, set, frozenset))


def _expect_list(name: str, operator: str, value: Any) -> None:
    if not _is_list(value):
        raise InputError(
            f"filter on {name!r}: {operator!r} takes a list, got {type(value).__name__}"
        )


def _one_of(conditions: list[models.Condition]) -> models.Condition:
    return conditions[0] if len(conditions) == 1 else models.Filter(should=conditions)


def _equalities(name: str, key: str, values: Iterable[Any]) -> list[models.Condition]:
    """Conditions of which one holds where the field equals one of the values."""
    texts: list[str] = []
    integers: list[int] = []
    others: list[models.Condition] = []
    for value in values:
        plain = _operand(name, value)
        if isinstance(plain, str):
            texts.append(plain)
        elif type(plain) is int:
            integers.append(plain)
        else:
            others.append(_other_equality(name, key, plain))
    matches = [_match(key, group) for group in (texts, integers) if group]
    return [*matches, *others] or [_nothing()]


def _operand(name: str, value: Any) -> Any:
    """A value as the metadata stores it, but for datetimes: those are compared as times."""
    value = unwrap(value)
    if isinstance(value, datetime):
        return value
    plain = plain_value(value, where=f"filter on {name!r}: a value")
    if isinstance(plain, (list, dict)):
        raise InputError(
            f"filter on {name!r}: a {type(value).__name__} is inside the list of values, "
            "expected text, numbers, bools, dates or None"
        )
    return plain


def _match(key: str, values: list[Any]) -> models.Condition:
    match = models.MatchValue(value=values[0]) if len(values) == 1 else models.MatchAny(any=values)
    return models.FieldCondition(key=key, match=match)


def _other_equality(name: str, key: str, value: Any) -> models.Condition:
    if value is None:
        return _null(key)
    if isinstance(value, bool):
        return models.FieldCondition(key=key, match=models.MatchValue(value=value))
    return range_condition(name, key, {"gte": value, "lte": value})


def range_condition(name: str, key: str, bounds: Mapping[str, Any]) -> models.Condition:
    """The field lies within bounds that are all numbers or all times."""
    values = {operator: bound(name, operator, value) for operator, value in bounds.items()}
    times = {operator: v for operator, v in values.items() if isinstance(v, datetime)}
    if times and len(times) < len(values):
        raise InputError(
            f"filter on {name!r}: one bound is a time and another a number ({bounds!r:.80}): "
            "give both alike"
        )
    tight = _tightest(values)
    span = models.DatetimeRange(**tight) if times else models.Range(**tight)
    return models.FieldCondition(key=key, range=span)


def _tightest(bounds: Mapping[str, Any]) -> dict[str, Any]:
    """Keep one bound a side: with an index on the field, the engine reads only one."""
    kept = dict(bounds)
    if "gt" in kept and "gte" in kept:
        kept.pop("gte" if kept["gt"] >= kept["gte"] else "gt")
    if "lt" in kept and "lte" in kept:
        kept.pop("lte" if kept["lt"] <= kept["lte"] else "lt")
    return kept


def _presence(
    condition: Callable[[str], models.Condition], *, operator: str, when: bool
) -> Callable[[str, str, Any], Clauses]:
    """An operator that takes a bool; the condition holds where it equals `when`."""

    def build(name: str, key: str, value: Any) -> Clauses:
        flag = unwrap(value)
        if not isinstance(flag, bool):
            raise InputError(
                f"filter on {name!r}: {operator!r} is {value!r:.60}, expected True or False"
            )
        conditions = [condition(key)]
        return Clauses(must=conditions) if flag is when else Clauses(must_not=conditions)

    return build


def _text(operator: str, match: Callable[[str], models.Match]) -> Callable[..., Clauses]:
    def build(name: str, key: str, value: Any) -> Clauses:
        if not isinstance(value, str):
            raise InputError(
                f"filter on {name!r}: {operator!r} is {type(value).__name__}, expected str"
            )
        plain = plain_value(value, where=f"filter on {name!r}: {operator!r}")
        return Clauses(must=[models.FieldCondition(key=key, match=match(plain))])

    return build


def _values_count(name: str, key: str, value: Any) -> Clauses:
    spec = value if isinstance(value, Mapping) else {"gte": value, "lte": value}
    bounds = {}
    for raw, item in spec.items():
        operator = str(raw).removeprefix("$")
        count = unwrap(item)
        if operator not in BOUNDS or type(count) is not int or not 0 <= count < 2**63:
            raise InputError(
                f"filter on {name!r}: 'values_count' has {raw!r}: {item!r:.60}, expected "
                "gt, gte, lt or lte with a count of 0 or more"
            )
        bounds[operator] = count
    if not bounds:
        raise InputError(f"filter on {name!r}: 'values_count' is empty: give a bound")
    count_range = models.ValuesCount(**bounds)
    return Clauses(must=[models.FieldCondition(key=key, values_count=count_range)])


def _single(build: Callable[[str, str, Any], models.Condition]) -> Callable[..., Clauses]:
    return lambda name, key, value: Clauses(must=[build(name, key, value)])


OPERATORS: dict[str, Callable[[str, str, Any], Clauses]] = {
    "eq": equal,
    "ne": _unequal,
    "in": _in,
    "nin": _not_in,
    "exists": _presence(_empty, operator="exists", when=False),
    "is_null": _presence(_null, operator="is_null", when=True),
    "is_empty": _presence(_empty, operator="is_empty", when=True),
    "text": _text("text", lambda text: models.MatchText(text=text)),
    "text_any": _text("text_any", lambda text: models.MatchTextAny(text_any=text)),
    "phrase": _text("phrase", lambda text: models.MatchPhrase(phrase=text)),
    "prefix": _text("prefix", lambda text: models.MatchPrefix(prefix=text)),
    "substring": _text("substring", lambda text: models.MatchSubstring(substring=text)),
    "values_count": _values_count,
    "geo_radius": _single(geo_radius),
    "geo_box": _single(geo_box),
    "geo_polygon": _single(geo_polygon),
}
