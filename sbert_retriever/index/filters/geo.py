"""The geographic operators of a dict filter. Degrees for points, metres for radii."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from qdrant_client import models

from sbert_retriever.errors import InputError
from sbert_retriever.index.filters.values import number


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
    top_left, bottom_right = (_point(name, "geo_box", corner) for corner in corners)
    box = models.GeoBoundingBox(top_left=top_left, bottom_right=bottom_right)
    return models.FieldCondition(key=key, geo_bounding_box=box)


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
