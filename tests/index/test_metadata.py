from __future__ import annotations

import copy
import json
import random
import struct
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from pathlib import Path
from types import MappingProxyType
from uuid import UUID

import numpy as np
import pytest
import qdrant_edge as edge
from qdrant_client import QdrantClient, models

from sbert_retriever.errors import InputError
from sbert_retriever.index.edge.convert import edge_config, edge_point, record
from sbert_retriever.index.metadata import MAX_DEPTH, exact_copy_needed, plain_metadata


class Colour(Enum):
    RED = "red"
    WHEN = date(2024, 5, 1)


class Level(IntEnum):
    HIGH = 3


class Kind(StrEnum):
    NOTE = "note"


VECTORS = {"dense": models.VectorParams(size=2, distance=models.Distance.COSINE)}


@pytest.fixture
def shard(tmp_path: Path):
    shard = edge.EdgeShard.create(str(tmp_path / "shard"), edge_config(VECTORS))
    yield shard
    shard.close()


def through_edge(shard: edge.EdgeShard, values: list) -> list:
    points = [
        edge_point(models.PointStruct(id=i, vector={"dense": [1.0, 0.0]}, payload={"v": value}))
        for i, value in enumerate(values)
    ]
    shard.update(edge.UpdateOperation.upsert_points(points))
    found = {p.id: p.payload["v"] for p in shard.retrieve(list(range(len(values))), True, False)}
    return [found[i] for i in range(len(values))]


CARRIED = [
    ("text", "text"),
    ("", ""),
    ("straße \U0001f600 \x00", "straße \U0001f600 \x00"),
    (None, None),
    (True, True),
    (0, 0),
    (2**63 - 1, 2**63 - 1),
    (-(2**63), -(2**63)),
    (1.0, 1.0),
    (
        datetime(2024, 5, 1, 12, 30, tzinfo=timezone(timedelta(hours=2))),
        "2024-05-01T12:30:00+02:00",
    ),
    (datetime(2024, 5, 1, 12, 30, 0, 5), "2024-05-01T12:30:00.000005"),
    (datetime(2024, 5, 1, tzinfo=UTC), "2024-05-01T00:00:00+00:00"),
    (date(2024, 5, 1), "2024-05-01"),
    (Decimal("19.99"), 19.99),
    (Decimal("5"), 5.0),
    (Decimal("0.1000000000000000000001"), "0.1000000000000000000001"),
    (UUID("ABCDEF00-0000-0000-0000-000000000005"), "abcdef00-0000-0000-0000-000000000005"),
    (Colour.RED, "red"),
    (Colour.WHEN, "2024-05-01"),
    (Level.HIGH, 3),
    (Kind.NOTE, "note"),
    (np.float32(1.5), 1.5),
    (np.float64(0.1), 0.1),
    (np.int16(-7), -7),
    (np.uint8(7), 7),
    (np.bool_(True), True),
    (np.str_("x"), "x"),
    (np.datetime64("2024-05-01T12:00:00"), "2024-05-01T12:00:00"),
    (np.datetime64("2024-05-01"), "2024-05-01"),
    ((1, "a", (2,)), [1, "a", [2]]),
    ([], []),
    ({}, {}),
    ({3, 1, 2}, [1, 2, 3]),
    (frozenset({"b", "a"}), ["a", "b"]),
    ({"b", 1, "a"}, [1, "a", "b"]),
    (MappingProxyType({"a": {1}}), {"a": [1]}),
]


@pytest.mark.parametrize(("given", "stored"), CARRIED, ids=lambda value: type(value).__name__)
def test_what_json_can_carry_is_carried_in_one_form(given, stored):
    """Dates, decimals, UUIDs, enums, numpy scalars and sets are stored, not a far-off error."""
    plain = plain_metadata({"key": given}, passage_id="p")["key"]
    assert plain == stored
    assert type(plain) is type(stored)


def test_what_is_carried_comes_back_from_both_engines(shard):
    plain = [plain_metadata({"key": given}, passage_id="p")["key"] for given, _ in CARRIED]
    client = QdrantClient(":memory:")
    client.create_collection("c", VECTORS)
    client.upsert(
        "c",
        [
            models.PointStruct(id=i, vector={"dense": [1.0, 0.0]}, payload={"v": value})
            for i, value in enumerate(plain)
        ],
    )
    found = {p.id: p.payload["v"] for p in client.scroll("c", limit=100)[0]}
    client.close()
    for i, back in enumerate(through_edge(shard, plain)):
        assert json.dumps(back) == json.dumps(plain[i]) == json.dumps(found[i])


class NotATime(datetime):
    """Unequal to itself, as pandas' NaT is."""

    def __eq__(self, other: object) -> bool:
        return False

    def __ne__(self, other: object) -> bool:
        return True

    __hash__ = datetime.__hash__


REFUSED = [
    float("nan"),
    float("inf"),
    -float("inf"),
    np.float32("nan"),
    Decimal("NaN"),
    Decimal("sNaN"),
    Decimal("Infinity"),
    Decimal("1e400"),
    b"bytes",
    bytearray(b"x"),
    np.bytes_(b"x"),
    object(),
    time(12, 0),
    timedelta(1),
    Path("a"),
    1j,
    np.array([1, 2]),
    np.longdouble(1),
    np.datetime64("NaT"),
    np.datetime64(1, "ns"),
    NotATime(2024, 1, 1),
    2**63,
    -(2**63) - 1,
    10**5000,
    "lone \ud800 surrogate",
    (x for x in "abc"),
    {1: "int key"},
    {None: 1},
    {"lone \ud800": 1},
]


@pytest.mark.parametrize("value", REFUSED, ids=lambda value: type(value).__name__)
def test_the_rest_is_refused_by_key_and_passage(value):
    """NaN, bytes, foreign objects: the error names the path and the passage, before any write."""
    with pytest.raises(InputError) as caught:
        plain_metadata({"author": {"tags": ["x", value]}}, passage_id="doc-1")
    assert "author.tags[1]" in str(caught.value)
    assert "doc-1" in str(caught.value)
    str(caught.value).encode()  # can be printed and sent on


def test_a_key_at_the_top_is_refused_with_the_passage():
    with pytest.raises(InputError, match="of passage 'doc-1' has the key 3 of type int"):
        plain_metadata({3: "x"}, passage_id="doc-1")  # type: ignore[dict-item]  # the wrong use


def nested(depth: int) -> dict:
    value: dict = {}
    for level in range(depth - 1):
        value = {"a": value} if level % 2 else {"b": value}
    return value


def test_nesting_is_bounded():
    assert plain_metadata(nested(MAX_DEPTH), passage_id="p") == nested(MAX_DEPTH)
    with pytest.raises(InputError, match="deeper than 32"):
        plain_metadata(nested(MAX_DEPTH + 1), passage_id="p")
    endless: dict = {}
    endless["self"] = [endless]
    with pytest.raises(InputError, match="deeper than 32"):
        plain_metadata(endless, passage_id="p")


def test_the_input_stays_as_it_is():
    given = {"when": date(2024, 1, 1), "tags": {"b", "a"}, "deep": {"list": [1, (2, 3)]}}
    before = copy.deepcopy(given)
    plain = plain_metadata(given, passage_id="p")
    plain["deep"]["list"].append(4)
    assert given == before


def awkward_floats(count: int) -> list[float]:
    """Doubles of every kind: prices, scores, times, random bits, whole numbers, extremes."""
    rng = random.Random(7)
    kinds = [
        lambda: rng.random(),
        lambda: rng.gauss(0, 1000),
        lambda: round(rng.uniform(0, 1e6), rng.randint(0, 8)),
        lambda: float(np.float32(rng.gauss(0, 1))),
        lambda: float(rng.randint(-(2**60), 2**60)),
        lambda: float(f"{rng.randint(1, 10 ** rng.randint(1, 17))}e{rng.randint(-330, 290)}"),
        lambda: float(f"{rng.randint(1, 10 ** rng.randint(1, 17))}e{rng.randint(-40, 22)}"),
        lambda: float(rng.randint(2**53 - 10**4, 2**53 + 10**4)) / 10 ** rng.randint(0, 22),
        lambda: 1.7e9 + rng.random() * 1e8,
    ]
    values = [kind() for _ in range(count // len(kinds)) for kind in kinds]
    edges = [0.0, -0.0, 1.0, 1e15, 1e16, 1e17, 1e21, 1e22, 1e23, 1e300, 5e-324, 0.1, 1e-4, 1e-5]
    edges += [2.2250738585072014e-308, 1.7976931348623157e308, 123456789012345680.0, 1e-22, 1e-23]
    edges += [float(2**53), float(2**53 - 1), 9007199254740.993, 900719925474099.3]
    return values + edges


def test_no_float_that_needs_no_copy_comes_back_changed(shard):
    """The engine's JSON reader moves some doubles by one unit; none of those goes unnoticed."""
    values = awkward_floats(20_000)
    changed = 0
    for given, back in zip(values, through_edge(shard, values), strict=True):
        assert type(back) is float
        if struct.pack("d", given) != struct.pack("d", back):
            changed += 1
            assert exact_copy_needed({"a": [given]}), given
    assert changed > 100


def test_common_values_need_no_copy():
    assert not exact_copy_needed(
        {"price": 19.99, "share": 0.123456789, "n": 10**18, "one": 1.0, "deep": [{"x": -0.5}]}
    )
    assert exact_copy_needed({"deep": [{"x": 0.1 + 0.2}]})
    assert exact_copy_needed({"x": 1e300})


def test_ints_stay_ints_and_floats_floats(shard):
    back = through_edge(shard, [1.0, 1, -0.0, 2**53 + 1, True])
    assert [type(value) for value in back] == [float, int, float, int, bool]
    assert str(back[2]) == "-0.0"
    assert back[3] == 2**53 + 1


def test_a_record_keeps_the_payload(shard):
    through_edge(shard, [{"a": [1, {"b": None}]}])
    found = record(shard.retrieve([0], True, False)[0])
    assert found.payload == {"v": {"a": [1, {"b": None}]}}
