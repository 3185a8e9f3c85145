"""The geographic operators of a dict filter. Degrees for points, metres for radii."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from qdrant_client import models

from sbert_retriever.errors import InputError
from sbert_retriever.index.filters.values import number

# Degrees of a box that the engine is asked for in one piece.
_WIDEST = 180.0
_HIGHEST = 179.0


def geo_radius(name: str, key: str, value: Any) -> models.Condition:
    """Within `radius` metres of `center`."""
    center, radius = _parts(name, "geo_radius", value, ("center", "radius"))
    metres = number(name, "geo_radius", radius)
    if metres < 0:
        raise InputError(f"filter on {name!r}: 'geo_radius' has the radius {metres}, below 0")
    circle = models.GeoRadius(center=_point(name, "geo_radius", center), radius=metres)
    return models.FieldCondition(key=key, geo_radius=circle)


def geo_box(name: str, key: str, value: Any) -> models.Condition:
    """Within the box; one that crosses the date line has its left edge east of its right."""
    corners = _parts(name, "geo_box", value, ("top_left", "bottom_right"))
    (left, top), (right, bottom) = (_degrees(name, corner) for corner in corners)
    boxes: list[models.Condition] = [
        models.FieldCondition(key=key, geo_bounding_box=_box(west, north, east, south))
        for west, east in _spans(left, right)
        for north, south in _bands(top, bottom)
    ]
    return boxes[0] if len(boxes) == 1 else models.Filter(should=boxes)


def _degrees(name: str, corner: Any) -> tuple[float, float]:
    point = _point(name, "geo_box", corner)
    return point.lon, point.lat


def _box(left: float, top: float, right: float, bottom: float) -> models.GeoBoundingBox:
    return models.GeoBoundingBox(
        top_left=models.GeoPoint(lat=top, lon=left),
        bottom_right=models.GeoPoint(lat=bottom, lon=right),
    )


# With an index on the field, the engine finds too little in a box nearly as wide as the world, and
# nothing in one as high. What is on an edge is outside, so the halves reach over one another.


def _spans(left: float, right: float) -> list[tuple[float, float]]:
    """A box's edges in the west and the east, in two halves where it is wide."""
    width = right - left if left <= right else right - left + 360
    if width <= _WIDEST:
        return [(left, right)]
    middle = left + width / 2
    return [(left, _around(middle + 1)), (_around(middle - 1), right)]


def _bands(top: float, bottom: float) -> list[tuple[float, float]]:
    return [(top, bottom)] if top - bottom <= _HIGHEST else [(top, -1.0), (1.0, bottom)]


def _around(longitude: float) -> float:
    return longitude - 360 if longitude > 180 else longitude


def geo_polygon(name: str, key: str, value: Any) -> models.Condition:
    """Within `exterior` and outside each of `interiors`; a ring left open is closed."""
    spec = {"interiors": [], **value} if isinstance(value, Mapping) else value
    exterior, interiors = _parts(name, "geo_polygon", spec, ("exterior", "interiors"))
    polygon = models.GeoPolygon(
        exterior=_ring(name, exterior),
        interiors=[_ring(name, ring) for ring in interiors] or None,
    )
    return models.FieldCondition(key=key, geo_polygon=polygon)


def _ring(name: str, value: Any) -> models.GeoLineString:
    if not isinstance(value, (list, tuple)) or len(value) < 3:
        raise InputError(
            f"filter on {name!r}: a ring of 'geo_polygon' is {value!r:.60}, expected a list of "
            "three or more points"
        )
    points = [_point(name, "geo_polygon", point) for point in value]
    if points[0] != points[-1]:
        points.append(points[0])
    return models.GeoLineString(points=points)


def _parts(name: str, operator: str, value: Any, names: tuple[str, str]) -> tuple[Any, Any]:
    if not isinstance(value, Mapping) or set(value) != set(names):
        raise InputError(
            f"filter on {name!r}: {operator!r} is {value!r:.60}, expected a dict with "
            f"{names[0]!r} and {names[1]!r}"
        )
    return value[names[0]], value[names[1]]


def _point(name: str, operator: str, value: Any) -> models.GeoPoint:
    lat, lon = _parts(name, operator, value, ("lat", "lon"))
    point = models.GeoPoint(lat=number(name, operator, lat), lon=number(name, operator, lon))
    if not (-90 <= point.lat <= 90 and -180 <= point.lon <= 180):
        raise InputError(
            f"filter on {name!r}: {operator!r} has the point lat {point.lat}, lon {point.lon}, "
            "expected degrees within 90 and 180"
        )
    return point
