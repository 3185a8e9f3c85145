"""Qdrant's filter models in the embedded engine's own classes.

Two things differ in the engine: it takes `True` in a match for the integer 1, unless it comes as
a numpy bool; and it wants sets of ids, text for times, and lists of one type.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from typing import Any

import numpy as np
import qdrant_edge as edge
from qdrant_client import models

from sbert_retriever.errors import InputError
from sbert_retriever.index.edge.ids import edge_point_id
from sbert_retriever.index.filters.walk import check_filter, clause


def edge_filter(filter: models.Filter) -> edge.Filter:
    """Convert a filter.

    Raises:
        InputError: What would harm the engine (`check_filter`), or has no twin there.
    """
    check_filter(filter)
    return _filter(filter)


def _filter(filter: models.Filter) -> edge.Filter:
    return edge.Filter(
        must=_clause(filter.must),
        should=_clause(filter.should),
        must_not=_clause(filter.must_not),
        min_should=_min_should(filter.min_should),
    )


def _clause(conditions: Any) -> list[Any] | None:
    return None if conditions is None else [_condition(item) for item in clause(conditions)]


def _min_should(part: models.MinShould | None) -> edge.MinShould | None:
    if part is None:
        return None
    return edge.MinShould([_condition(item) for item in part.conditions], part.min_count)


def _condition(condition: Any) -> Any:
    convert = _CONDITIONS.get(type(condition))
    if convert is None:
        raise InputError(
            f"filter holds {type(condition).__name__}, expected a condition of qdrant_client.models"
        )
    return convert(condition)


def _field(condition: models.FieldCondition) -> Any:
    if isinstance(condition.match, models.MatchAny) and _has_bool(condition.match.any):
        return _any_with_bools(condition)
    return edge.FieldCondition(
        condition.key,
        match=_optional(_match, condition.match),
        range=_optional(_range, condition.range),
        geo_bounding_box=_optional(_box, condition.geo_bounding_box),
        geo_radius=_optional(_circle, condition.geo_radius),
        geo_polygon=_optional(_polygon, condition.geo_polygon),
        values_count=_optional(_count, condition.values_count),
        is_empty=condition.is_empty,
        is_null=condition.is_null,
    )


def _optional(convert: Callable[[Any], Any], value: Any) -> Any:
    return None if value is None else convert(value)


def _has_bool(values: list[Any]) -> bool:
    return any(isinstance(value, bool) for value in values)


def _any_with_bools(condition: models.FieldCondition) -> edge.Filter:
    values: list[Any] = list(getattr(condition.match, "any", ()))
    others: Any = [value for value in values if not isinstance(value, bool)]
    matches: list[Any] = [_bool_match(value) for value in values if isinstance(value, bool)]
    if others:
        matches.append(edge.MatchAny(others))
    return edge.Filter(should=[edge.FieldCondition(condition.key, match=m) for m in matches])


def _bool_match(value: Any) -> edge.MatchValue:
    flag: Any = np.bool_(value)  # the engine takes Python's True for the integer 1
    return edge.MatchValue(flag)


def _match(match: Any) -> Any:
    return _MATCHES[type(match)](match)


def _value(match: models.MatchValue) -> edge.MatchValue:
    value = match.value
    return _bool_match(value) if isinstance(value, bool) else edge.MatchValue(value)


def _except(match: models.MatchExcept) -> edge.MatchExcept:
    if _has_bool(match.except_):
        raise InputError("filter's MatchExcept holds a bool: put a MatchValue under must_not")
    return edge.MatchExcept(match.except_)


def _range(span: models.Range | models.DatetimeRange) -> Any:
    if isinstance(span, models.Range):
        return edge.RangeFloat(gte=span.gte, gt=span.gt, lte=span.lte, lt=span.lt)
    return edge.RangeDateTime(
        gte=iso_text(span.gte), gt=iso_text(span.gt), lte=iso_text(span.lte), lt=iso_text(span.lt)
    )


def iso_text(time: date | None) -> str | None:
    """A time as the engine reads it; naive ones are UTC there."""
    return None if time is None else time.isoformat()


def _count(count: models.ValuesCount) -> edge.ValuesCount:
    return edge.ValuesCount(lt=count.lt, gt=count.gt, lte=count.lte, gte=count.gte)


def _point(point: models.GeoPoint) -> edge.GeoPoint:
    return edge.GeoPoint(lon=point.lon, lat=point.lat)


def _box(box: models.GeoBoundingBox) -> edge.GeoBoundingBox:
    return edge.GeoBoundingBox(_point(box.top_left), _point(box.bottom_right))


def _circle(circle: models.GeoRadius) -> edge.GeoRadius:
    return edge.GeoRadius(_point(circle.center), circle.radius)


def _polygon(polygon: models.GeoPolygon) -> edge.GeoPolygon:
    holes = polygon.interiors
    return edge.GeoPolygon(
        _ring(polygon.exterior), None if holes is None else [_ring(hole) for hole in holes]
    )


def _ring(ring: models.GeoLineString) -> list[edge.GeoPoint]:
    return [_point(point) for point in ring.points]


def _slice(condition: models.SliceCondition) -> Any:
    kind: Any = getattr(edge, "SliceCondition")  # noqa: B009  # the stub lacks it
    return kind(condition.slice.total, condition.slice.index)


_MATCHES: dict[type, Callable[[Any], Any]] = {
    models.MatchValue: _value,
    models.MatchAny: lambda match: edge.MatchAny(match.any),
    models.MatchExcept: _except,
    models.MatchText: lambda match: edge.MatchText(match.text),
    models.MatchTextAny: lambda match: edge.MatchTextAny(match.text_any),
    models.MatchPhrase: lambda match: edge.MatchPhrase(match.phrase),
    models.MatchPrefix: lambda match: edge.MatchPrefix(match.prefix),
    models.MatchSubstring: lambda match: edge.MatchSubstring(match.substring),
}

_CONDITIONS: dict[type, Callable[[Any], Any]] = {
    models.FieldCondition: _field,
    models.Filter: _filter,
    models.NestedCondition: lambda c: edge.NestedCondition(c.nested.key, _filter(c.nested.filter)),
    models.IsEmptyCondition: lambda c: edge.IsEmptyCondition(c.is_empty.key),
    models.IsNullCondition: lambda c: edge.IsNullCondition(c.is_null.key),
    models.HasIdCondition: lambda c: edge.HasIdCondition({edge_point_id(i) for i in c.has_id}),
    models.HasVectorCondition: lambda c: edge.HasVectorCondition(c.has_vector),
    models.SliceCondition: _slice,
}
