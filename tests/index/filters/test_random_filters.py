"""Filters drawn at random, as dicts and native, against their meaning written a second time."""

from __future__ import annotations

import math
import random
import re
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
import qdrant_edge as edge
from qdrant_client import models

from sbert_retriever import Passage
from sbert_retriever.index.edge.convert import edge_payload_schema
from sbert_retriever.index.filters import build_filter

COUNT = 500
# --- what a filter means, written a second time -------------------------------------------------


def values_at(metadata: dict, name: str) -> list:
    """Values that a dotted path leads to; `[]` steps into a list."""
    found = [metadata]
    for segment in name.split("."):
        key, *brackets = segment.split("[]")
        found = [v[key] for v in found if isinstance(v, dict) and key in v]
        for _ in brackets:
            found = [item for v in found if isinstance(v, list) for item in v]
    return found


def elements(values: list) -> list:
    return [e for v in values for e in (v if isinstance(v, list) else [v])]


def as_time(text: Any) -> datetime | None:
    try:
        time = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        return None
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def empty(values: list) -> bool:
    return all(v is None or v == [] for v in values)


def null(values: list) -> bool:
    return any(v is None or (isinstance(v, list) and None in v) for v in values)


def equals(values: list, wanted: Any) -> bool:
    if isinstance(wanted, list):
        return any(equals(values, item) for item in wanted)
    if wanted is None:
        return null(values)
    if isinstance(wanted, datetime):
        moment = wanted if wanted.tzinfo else wanted.replace(tzinfo=UTC)
        return any(as_time(e) == moment for e in elements(values) if isinstance(e, str))
    if isinstance(wanted, float):
        return any(is_number(e) and e == wanted for e in elements(values))
    return any(type(e) is type(wanted) and e == wanted for e in elements(values))


def within(values: list, bounds: dict) -> bool:
    times = any(isinstance(b, (datetime, str)) for b in bounds.values())
    if times:
        moments = [as_time(e) for e in elements(values) if isinstance(e, str)]
        numbers: list = [m for m in moments if m is not None]
        limits = {
            k: as_time(b.isoformat() if isinstance(b, datetime) else b) for k, b in bounds.items()
        }
    else:
        numbers, limits = [e for e in elements(values) if is_number(e)], bounds
    tests = {
        "gt": lambda x, b: x > b,
        "gte": lambda x, b: x >= b,
        "lt": lambda x, b: x < b,
        "lte": lambda x, b: x <= b,
    }
    return any(all(tests[k](x, b) for k, b in limits.items()) for x in numbers)


def words(text: str) -> list[str]:
    return [w.lower() for w in re.findall(r"[^\W_]+", text)]


def holds_phrase(text: str, phrase: str) -> bool:
    have, wanted = words(text), words(phrase)
    starts = range(len(have) - len(wanted) + 1)
    return bool(wanted) and any(have[i : i + len(wanted)] == wanted for i in starts)


def count_within(values: list, bounds: dict) -> bool:
    counts = [len(v) if isinstance(v, list) else 0 if v is None else 1 for v in values] or [0]
    return any(within([c], bounds) for c in counts)


# A place is (degrees east, degrees north). Edges are outside, those of holes too.


def places(values: list) -> list[tuple[float, float]]:
    found = [(e.get("lon"), e.get("lat")) for e in elements(values) if isinstance(e, dict)]
    return [p for p in found if all(map(is_number, p))]


def place(point: dict) -> tuple[float, float]:
    return point["lon"], point["lat"]


def in_circle(one: tuple[float, float], circle: dict) -> bool:
    """By the haversine of the angle between both, on a sphere of 6,371 km."""
    (x, y), (u, v) = (map(math.radians, p) for p in (one, place(circle["center"])))
    half = math.sin((v - y) / 2) ** 2 + math.cos(y) * math.cos(v) * math.sin((u - x) / 2) ** 2
    return 2 * 6_371_000 * math.asin(min(1.0, math.sqrt(half))) < circle["radius"]


def in_box(one: tuple[float, float], box: dict) -> bool:
    """One whose left is east of its right goes over the date line."""
    (x, y), (left, top), (right, bottom) = one, place(box["top_left"]), place(box["bottom_right"])
    across = left < x < right if left <= right else x > left or x < right
    return across and bottom < y < top


def in_polygon(one: tuple[float, float], polygon: dict) -> bool:
    inside, on_edge = in_ring(one, polygon["exterior"])
    holes = [in_ring(one, ring) for ring in polygon.get("interiors", [])]
    return inside and not on_edge and not any(any(hole) for hole in holes)


def in_ring(one: tuple[float, float], ring: list[dict]) -> tuple[bool, bool]:
    """Whether a ray to the east leaves the ring, and whether the place is on its edge."""
    inside, (x, y), corners = False, one, [place(point) for point in ring]
    for (a, b), (c, d) in zip(corners, [*corners[1:], corners[0]], strict=True):
        side = (c - a) * (y - b) - (d - b) * (x - a)
        if side == 0 and min(a, c) <= x <= max(a, c) and min(b, d) <= y <= max(b, d):
            return False, True
        if (b > y) != (d > y) and (side > 0) == (d > b):
            inside = not inside
    return inside, False


def field_holds(values: list, spec: Any) -> bool:
    if not isinstance(spec, dict):
        return equals(values, spec)
    bounds = {k: v for k, v in spec.items() if k in ("gt", "gte", "lt", "lte")}
    strings = [e for e in elements(values) if isinstance(e, str)]
    tests = {
        "eq": lambda x: equals(values, x),
        "in": lambda x: equals(values, x),
        "ne": lambda x: not equals(values, x) and not (x is None and empty(values)),
        "nin": lambda x: not equals(values, x) and not (None in x and empty(values)),
        "exists": lambda x: empty(values) is not x,
        "is_empty": lambda x: empty(values) is x,
        "is_null": lambda x: null(values) is x,
        "other_than": lambda x: any(e is not None and not equals([e], x) for e in elements(values)),
        "text": lambda x: any(set(words(x)) <= set(words(s)) for s in strings) and bool(words(x)),
        "text_any": lambda x: any(set(words(x)) & set(words(s)) for s in strings),
        "phrase": lambda x: any(holds_phrase(s, x) for s in strings),
        "prefix": lambda x: any(s.startswith(x) for s in strings),
        "substring": lambda x: any(x in s for s in strings),
        "any": lambda x: any(
            isinstance(e, dict) and matches(x, e) for v in values if isinstance(v, list) for e in v
        ),
        "values_count": lambda x: count_within(values, x),
        "geo_radius": lambda x: any(in_circle(p, x) for p in places(values)),
        "geo_box": lambda x: any(in_box(p, x) for p in places(values)),
        "geo_polygon": lambda x: any(in_polygon(p, x) for p in places(values)),
        "not": lambda x: not field_holds(values, x),
    }
    rest = {k: v for k, v in spec.items() if k not in bounds}
    return all(tests[k](x) for k, x in rest.items()) and (not bounds or within(values, bounds))


def matches(spec: dict, metadata: dict) -> bool:
    for key, value in spec.items():
        if key == "and":
            holds = all(matches(item, metadata) for item in value)
        elif key == "or":
            holds = any(matches(item, metadata) for item in value)
        elif key == "not":
            holds = not matches(value, metadata)
        else:
            holds = field_holds(values_at(metadata, key), value)
        if not holds:
            return False
    return True


# --- five hundred payloads, and filters over them -----------------------------------------------

ZONE = timezone(timedelta(hours=2))
TIMES = [
    "2024-05-01",
    "2024-05-01T00:00:00+00:00",
    "2024-05-01T02:00:00+02:00",
    "2023-01-01T10:00:00.5",
]
STRINGS = ["en", "de", "1", "", "The quick brown fox", "quick", "fox-trot, QUICK", *TIMES]
SCALARS = [*STRINGS, 0, 1, 2, -3, 2**40, 0.0, 1.0, 1.5, -0.5, True, False, None]
TEXTUAL = ["text", "text_any", "phrase", "prefix", "substring"]
OPERANDS = [
    *SCALARS,
    datetime(2024, 5, 1, tzinfo=UTC),
    datetime(2024, 5, 1, 2, tzinfo=ZONE),
    datetime(2023, 1, 1, 10, 0, 0, 500_000),
]


def random_place(rng: random.Random) -> dict:
    """Half of them on a grid, so that some lie on the edges of boxes and polygons."""
    if rng.random() < 0.5:
        return {
            "lat": rng.randint(-3, 3) * 10,
            "lon": rng.choice([0, 10, 20, 170, 180, -180, -170]),
        }
    return {"lat": rng.uniform(-90, 90), "lon": rng.uniform(-180, 180)}


def random_places(rng: random.Random) -> Any:
    odd = ["10,20", {"lat": 10}, {"lat": "10", "lon": "20"}, None, [10, 20]]
    several = [random_place(rng) for _ in range(rng.randint(0, 3))]
    return rng.choice([random_place(rng), random_place(rng), several, rng.choice(odd)])


def random_metadata(rng: random.Random) -> dict:
    def value() -> Any:
        if rng.random() < 0.3:
            return [rng.choice(SCALARS) for _ in range(rng.randint(0, 3))]
        return rng.choice(SCALARS)

    made = {name: value() for name in ("a", "b", "my key") if rng.random() < 0.8}
    if rng.random() < 0.7:
        made["author"] = {name: value() for name in ("name", "year") if rng.random() < 0.8}
    if rng.random() < 0.7:
        made["items"] = [
            {name: rng.choice(SCALARS) for name in ("k", "n") if rng.random() < 0.8}
            for _ in range(rng.randint(0, 3))
        ]
    if rng.random() < 0.8:
        made["at"] = random_places(rng)
    return made


def random_area(rng: random.Random) -> dict:
    """A circle, a box or a polygon whose corners go around once."""
    corners = [random_place(rng) for _ in range(rng.randint(3, 6))]
    x, y = (sum(c[axis] for c in corners) / len(corners) for axis in ("lon", "lat"))
    ring = sorted(corners, key=lambda c: math.atan2(c["lat"] - y, c["lon"] - x))
    hole = [{"lat": (c["lat"] + y) / 2, "lon": (c["lon"] + x) / 2} for c in ring]
    radius = rng.choice([0, rng.uniform(1e5, 4e6), rng.uniform(4e6, 2.1e7)])
    south, north = sorted(c["lat"] for c in corners[:2])
    box = [{"lat": lat, "lon": c["lon"]} for lat, c in zip((north, south), corners, strict=False)]
    return rng.choice(
        [
            {"geo_radius": {"center": corners[0], "radius": radius}},
            {"geo_box": {"top_left": box[0], "bottom_right": box[1]}},
            {"geo_polygon": {"exterior": ring}},
            {"geo_polygon": {"exterior": ring, "interiors": [hole]}},
        ]
    )


def random_bounds(rng: random.Random) -> dict:
    pool = [0, 1, 1.5, -3, 2.0] if rng.random() < 0.6 else OPERANDS[-3:] + TIMES[:3]
    return {
        op: rng.choice(pool) for op in rng.sample(["gt", "gte", "lt", "lte"], rng.randint(1, 2))
    }


def random_field(rng: random.Random, depth: int) -> Any:
    some = [rng.choice(OPERANDS) for _ in range(rng.randint(0, 4))]
    count = {rng.choice(["gte", "lt", "lte"]): rng.randint(0, 3)}
    choices = [
        lambda: rng.choice(OPERANDS),
        lambda: some,
        lambda: {"ne": rng.choice(OPERANDS)},
        lambda: {"nin": some},
        lambda: {"in": some, "ne": rng.choice(OPERANDS)},
        lambda: random_bounds(rng),
        lambda: random_bounds(rng),
        lambda: {rng.choice(["exists", "is_null", "is_empty"]): rng.random() < 0.5},
        lambda: {rng.choice(TEXTUAL): rng.choice(STRINGS)},
        lambda: {"values_count": count},
        lambda: {"not": random_field(rng, depth + 1)} if depth < 3 else 1,
    ]
    return rng.choice(choices)()


def random_spec(rng: random.Random, depth: int = 0) -> dict:
    names = ["a", "b", "my key", "author.name", "author.year", "items[].k", "absent"]
    spec: dict = {n: random_field(rng, depth) for n in rng.sample(names, rng.choice([1, 1, 1, 2]))}
    if rng.random() < 0.25:
        spec = {"at": random_area(rng) if rng.random() < 0.8 else random_field(rng, depth)}
    if depth < 3 and rng.random() < 0.4:
        logical = rng.choice(["and", "or", "not"])
        several = [random_spec(rng, depth + 1) for _ in range(rng.randint(1, 3))]
        spec = {logical: several[0] if logical == "not" else several}
    if rng.random() < 0.2:
        inner = {n: random_field(rng, depth) for n in rng.sample(["k", "n"], rng.randint(1, 2))}
        spec["items"] = {"any": inner}
    return spec


# --- native filters -----------------------------------------------------------------------------


def native_matches(built: models.Filter, number: int, payload: dict) -> bool:
    """Whether the point of that number and payload is one that a native filter means."""

    def holds(condition: Any) -> bool:
        return condition_holds(condition, number, payload)

    least = built.min_should
    return (
        all(map(holds, built.must or []))
        and not any(map(holds, built.must_not or []))
        and (not built.should or any(map(holds, built.should)))
        and (least is None or sum(map(holds, least.conditions)) >= least.min_count)
    )


def condition_holds(condition: Any, number: int, payload: dict) -> bool:
    if isinstance(condition, models.Filter):
        return native_matches(condition, number, payload)
    if isinstance(condition, models.HasIdCondition):
        return number in condition.has_id
    if isinstance(condition, models.IsEmptyCondition):
        return empty(values_at(payload, condition.is_empty.key))
    if isinstance(condition, models.IsNullCondition):
        return null(values_at(payload, condition.is_null.key))
    if isinstance(condition, models.NestedCondition):
        lists = [v for v in values_at(payload, condition.nested.key) if isinstance(v, list)]
        objects = [e for items in lists for e in items if isinstance(e, dict)]
        return any(native_matches(condition.nested.filter, number, e) for e in objects)
    return field_holds(values_at(payload, condition.key), as_operators(condition))


def as_operators(condition: models.FieldCondition) -> dict:
    """A condition on one field in the words of a dict filter."""
    found = condition.model_dump(by_alias=True, exclude_none=True)
    del found["key"]
    for kind, value in found.pop("match", {}).items():
        found[{"value": "eq", "any": "in", "except": "other_than"}.get(kind, kind)] = value
    if "geo_bounding_box" in found:
        found["geo_box"] = found.pop("geo_bounding_box")
    if rings := found.get("geo_polygon"):
        holes = [ring["points"] for ring in rings.get("interiors", [])]
        found["geo_polygon"] = {"exterior": rings["exterior"]["points"], "interiors": holes}
    return found | found.pop("range", {})


def random_match(rng: random.Random) -> models.Match:
    value = rng.choice([s for s in SCALARS if isinstance(s, (str, int))])
    several = [s for s in rng.sample(SCALARS, 6) if type(s) is type(value)] or [value]
    text = rng.choice(STRINGS)
    made = [
        models.MatchValue(value=value),
        models.MatchText(text=text),
        models.MatchTextAny(text_any=text),
        models.MatchPhrase(phrase=text),
        models.MatchPrefix(prefix=text),
        models.MatchSubstring(substring=text),
    ]
    if not isinstance(value, bool):
        made += [models.MatchAny(any=several), models.MatchExcept(**{"except": several})] * 2
    return rng.choice(made)


def random_field_condition(rng: random.Random, key: str) -> models.FieldCondition:
    numbers = {"gte": rng.choice([0, 1, -3]), rng.choice(["lt", "lte"]): rng.choice([1, 1.5, 2])}
    times = {"gt": rng.choice(OPERANDS[-3:]), "lte": OPERANDS[-2]}
    part = rng.choice(
        [
            *[{"match": random_match(rng)}] * 3,
            {"range": models.Range(**numbers)},
            {"range": models.DatetimeRange(**times)},
            {"values_count": models.ValuesCount(gte=rng.randint(0, 3))},
            {rng.choice(["is_empty", "is_null"]): rng.random() < 0.5},
        ]
    )
    return models.FieldCondition(key=key, **part)


KEYS = ["a", "b", "author.name", "author.year", "items[].k", "at", "absent"]
INNER_KEYS = ["k", "n"]


def random_condition(rng: random.Random, keys: list[str], depth: int) -> Any:
    key = rng.choice(keys)
    field = models.PayloadField(key=key)
    choices = [
        *[lambda: random_field_condition(rng, key)] * 4,
        lambda: models.IsEmptyCondition(is_empty=field),
        lambda: models.IsNullCondition(is_null=field),
    ]
    if depth < 3:
        choices += [lambda: random_native(rng, keys, depth + 1)] * 3
    if keys is KEYS:
        choices += [
            *[lambda: build_filter({"at": random_area(rng)}, metadata_key="").must[0]] * 3,
            lambda: models.HasIdCondition(has_id=rng.sample(range(COUNT), COUNT // 2)),
            *[lambda: random_nested(rng, depth)] * 2,
        ]
    return rng.choice(choices)()


def random_nested(rng: random.Random, depth: int) -> models.NestedCondition:
    inside = random_native(rng, INNER_KEYS, depth + 1)
    return models.NestedCondition(nested=models.Nested(key="items", filter=inside))


def random_native(rng: random.Random, keys: list[str], depth: int = 0) -> models.Filter:
    """One or two of the four clauses."""

    def several(most: int) -> list[Any]:
        return [random_condition(rng, keys, depth) for _ in range(rng.randint(1, most))]

    clauses: dict[str, Any] = {}
    for name in rng.sample(["must", "should", "must_not", "min_should"], rng.randint(1, 2)):
        clauses[name] = several(2 if name == "must" else 3)
    if (conditions := clauses.get("min_should")) is not None:
        least = rng.randint(1, len(conditions))
        clauses["min_should"] = models.MinShould(conditions=conditions, min_count=least)
    return models.Filter(**clauses)


def below_metadata(built: models.Filter) -> models.Filter:
    """The same filter on what lies under "metadata"; keys inside a nested condition stay."""
    raw = built.model_dump(by_alias=True, exclude_none=True)

    def moved(part: Any) -> Any:
        if isinstance(part, list):
            return [moved(item) for item in part]
        if not isinstance(part, dict):
            return part
        if "nested" in part:
            key = f"metadata.{part['nested']['key']}"
            return {"nested": {**part["nested"], "key": key}}
        return {n: f"metadata.{v}" if n == "key" else moved(v) for n, v in part.items()}

    return models.Filter(**moved(raw))


# --- the tests ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def payloads() -> list[dict]:
    rng = random.Random(11)
    return [random_metadata(rng) for _ in range(COUNT)]


@pytest.fixture(scope="module")
def engines(lasting_engines_of, payloads):
    return lasting_engines_of(*payloads)


def test_random_filters_mean_the_same_in_every_engine(engines, payloads):
    """The embedded engine, the client's local mode and the written meaning agree on each."""
    rng = random.Random(5)
    sizes = []
    for _ in range(100):
        spec = random_spec(rng)
        built = build_filter(spec)
        wanted = {i for i, payload in enumerate(payloads) if matches(spec, payload)}
        assert engines.embedded(built) == wanted, spec
        assert engines.local(built) == wanted, spec
        sizes.append(len(wanted))
    assert sum(0 < size < COUNT for size in sizes) > 50  # most of them tell payloads apart


def test_random_native_filters_mean_the_same_in_every_engine(engines, payloads):
    rng = random.Random(7)
    sizes = []
    for _ in range(100):
        native = random_native(rng, KEYS)
        built = build_filter(below_metadata(native))
        wanted = {i for i, payload in enumerate(payloads) if native_matches(native, i, payload)}
        assert engines.embedded(built) == wanted, native
        assert engines.local(built) == wanted, native
        sizes.append(len(wanted))
    assert sum(0 < size < COUNT for size in sizes) > 50


@pytest.mark.filterwarnings("ignore::sbert_retriever.errors.UnknownFieldWarning")
def test_random_filters_through_a_retriever(lasting_engine, payloads):
    """Both forms, on a server too, count and scroll what the written meaning says."""
    lasting_engine.needs(1, 20)  # for beginnings and parts of texts
    retriever = lasting_engine.open()
    retriever.index(Passage(str(i), "text", payload) for i, payload in enumerate(payloads))
    rng = random.Random(13)
    for _ in range(20):
        spec, native = random_spec(rng), random_native(rng, KEYS)
        # Points have other ids than numbers here: none is one that the filter names.
        for given, wanted in (
            (spec, {str(i) for i, p in enumerate(payloads) if matches(spec, p)}),
            (
                below_metadata(native),
                {str(i) for i, p in enumerate(payloads) if native_matches(native, -1, p)},
            ),
        ):
            assert retriever.count(given) == len(wanted), given
            page, _ = retriever.scroll(filter=given, limit=COUNT)
            assert {passage.id for passage in page} == wanted, given


TEXT = models.TextIndexParams(type="text", phrase_matching=True)  # without, no phrase matches


@pytest.mark.parametrize(
    "kind", ["keyword", "bool", "uuid", TEXT], ids=["keyword", "bool", "uuid", "text"]
)
def test_these_indexes_change_no_answer(engines_of, payloads, kind):
    """An index for one type leaves filters on values of other types as they are."""
    engines = engines_of(*payloads[:200])
    index = edge.UpdateOperation.create_field_index("metadata.a", edge_payload_schema(kind))
    engines.shard.update(index)
    rng = random.Random(2)
    for _ in range(200):
        spec = {"a": random_field(rng, 3)}
        wanted = {i for i, payload in enumerate(payloads[:200]) if matches(spec, payload)}
        assert engines.embedded(build_filter(spec)) == wanted, spec
