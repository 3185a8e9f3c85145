from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

import numpy as np
import pytest
import qdrant_edge as edge
from hypothesis import given, settings
from hypothesis import strategies as st
from qdrant_client import models

from sbert_retriever.errors import InputError, InputTypeError
from sbert_retriever.index.edge.convert import (
    edge_config,
    edge_filter,
    edge_payload_schema,
)
from sbert_retriever.index.filters import (
    build_filter,
    filter_fields,
    is_match_all,
    payload_key,
)


@pytest.fixture(scope="module")
def engines(lasting_engines_of):
    """Two hundred points whose fields are of several kinds."""
    kinds = ["en", 1, 2.5, True, None, ["en", 3], {"b": "en"}, []]
    payloads = [{"a": kinds[n % 8], "b": {"c": n}, "exists": n} for n in range(200)]
    return lasting_engines_of(*payloads)


# --- single meanings, checked by hand -----------------------------------------------------------


ZONE = timezone(timedelta(hours=2))


class Colour(Enum):
    RED = "red"


def test_true_never_matches_one(engines_of):
    """A bool and the integer it resembles are different values, in every engine."""
    engines = engines_of({"v": True}, {"v": 1}, {"v": 1.0}, {"v": "true"}, {"v": False}, {"v": 0})
    assert engines.both({"v": True}) == [0]
    assert engines.both({"v": 1}) == [1]
    assert engines.both({"v": 1.0}) == [1, 2]
    assert engines.both({"v": [True, 0]}) == [0, 5]
    assert engines.both({"v": {"ne": True}}) == [1, 2, 3, 4, 5]
    assert engines.both({"v": {"gte": 0}}) == [1, 2, 5]
    assert engines.both({"v": np.bool_(False)}) == [4]


def test_zero_and_empty_are_values(engines_of):
    """0, 0.0, "" and [] are compared, never taken for "no filter"."""
    engines = engines_of({"v": 0}, {"v": ""}, {"v": 5}, {})
    assert engines.both({"v": 0}) == [0]
    assert engines.both({"v": ""}) == [1]
    assert engines.both({"v": {"lte": 0}}) == [0]
    assert engines.both({"v": []}) == []
    assert engines.both({"v": {"in": []}}) == []
    assert engines.both({"v": {"nin": []}}) == [0, 1, 2, 3]
    assert engines.both({"not": {"v": []}}) == [0, 1, 2, 3]


def test_null_absent_and_empty_are_told_apart(engines_of):
    engines = engines_of({"v": None}, {}, {"v": []}, {"v": [None]}, {"v": "x"}, {"v": {}})
    assert engines.both({"v": None}) == [0, 3]
    assert engines.both({"v": {"is_null": False}}) == [1, 2, 4, 5]
    assert engines.both({"v": {"ne": None}}) == [4, 5]
    assert engines.both({"v": {"exists": True}}) == [3, 4, 5]
    assert engines.both({"v": {"exists": False}}) == [0, 1, 2]
    assert engines.both({"v": {"is_empty": True}}) == [0, 1, 2]
    assert engines.both({"v": ["x", None]}) == [0, 3, 4]
    assert engines.both({"v": {"nin": ["x", None]}}) == [5]


def test_a_value_matches_what_the_metadata_stores(engines_of):
    """Dates, decimals, UUIDs, enums and numpy scalars find the passage that was given them."""
    moment = datetime(2024, 5, 1, 12, tzinfo=ZONE)
    values = [
        moment,
        datetime(2024, 5, 1, 9, 0, 0, 7),
        date(2024, 5, 1),
        Decimal("19.99"),
        Decimal("0.1000000000000000000001"),
        UUID(int=7),
        Colour.RED,
        np.float32(0.1),
        np.int64(2**62),
        np.str_("x"),
        1e300,
        -0.25,
    ]
    engines = engines_of(*({"v": value} for value in values))
    for i, value in enumerate(values):
        assert engines.both({"v": value}) == [i], value
        assert engines.both({"v": [value, "none such"]}) == [i], value
    assert engines.both({"v": moment.astimezone(UTC)}) == [0]
    assert engines.both({"v": {"gte": moment, "lt": moment + timedelta(seconds=1)}}) == [0]
    assert engines.both({"v": np.datetime64("2024-05-01T10:00:00")}) == [0]


def test_times_are_compared_as_times(engines_of):
    engines = engines_of(
        {"t": "2024-05-01"}, {"t": "2024-05-01T01:00:00+02:00"}, {"t": "2024-05-02T00:00:00Z"}
    )
    assert engines.both({"t": {"gte": date(2024, 5, 1)}}) == [0, 2]
    assert engines.both({"t": {"gte": "2024-05-01", "lt": "2024-05-02"}}) == [0]
    assert engines.both({"t": {"lt": datetime(2024, 5, 1)}}) == [1]
    assert engines.both({"t": {"lte": np.datetime64("2024-05-01")}}) == [0, 1]


def test_both_bounds_hold_for_one_element(engines_of):
    engines = engines_of({"n": [1, 9]}, {"n": [5]}, {"n": 5})
    assert engines.both({"n": {"gt": 2, "lt": 8}}) == [1, 2]
    assert engines.both({"and": [{"n": {"gt": 2}}, {"n": {"lt": 8}}]}) == [0, 1, 2]


@pytest.mark.parametrize(
    ("bounds", "wanted"),
    [
        ({"gt": 1, "gte": 3}, [3, 4, 5]),
        ({"gt": 3, "gte": 3}, [4, 5]),
        ({"gt": 4, "gte": 3}, [5]),
        ({"lt": 4, "lte": 1}, [0, 1]),
        ({"lt": 1, "lte": 1}, [0]),
        ({"lt": 2, "lte": 3, "gt": 0, "gte": 0}, [1]),
    ],
)
@pytest.mark.parametrize("kind", ["integer", "float", None])
def test_two_bounds_on_one_side_both_hold(engines_of, kind, bounds, wanted):
    """With an index on the field the engine reads only one of gt and gte: the tighter is sent."""
    engines = engines_of(*({"n": float(n) if kind == "float" else n} for n in range(6)))
    if kind:
        schema = edge_payload_schema(kind)
        index = edge.UpdateOperation.create_field_index("metadata.n", schema)
        engines.shard.update(index)
    assert engines.both({"n": bounds}) == wanted


def test_any_asks_one_element_for_everything(engines_of):
    engines = engines_of(
        {"authors": [{"name": "Ann", "year": 1}, {"name": "Bo", "year": 2}]},
        {"authors": [{"name": "Ann", "year": 2}]},
        {"authors": {"name": "Ann", "year": 2}},
        {},
    )
    assert engines.both({"authors": {"any": {"name": "Ann", "year": 2}}}) == [1]
    assert engines.both({"authors[]": {"any": {"name": "Ann", "year": 2}}}) == [1]
    assert engines.both({"authors[].name": "Ann", "authors[].year": 2}) == [0, 1]
    assert engines.both({"authors": {"any": {"name": {"ne": "Ann"}}}}) == [0]
    assert engines.both({"authors.name": "Ann"}) == [2]
    either = {"authors": {"any": {"or": [{"name": "Bo"}, {"year": {"gt": 5}}]}}}
    assert engines.both(either) == [0]


def test_text_phrase_prefix_and_substring(engines_of):
    engines = engines_of({"t": "Hello, big WORLD"}, {"t": "world hello"}, {"t": "helloworld"})
    assert engines.both({"t": {"text": "hello world"}}) == [0, 1]
    assert engines.both({"t": {"text_any": "big helloworld"}}) == [0, 2]
    assert engines.both({"t": {"phrase": "big world"}}) == [0]
    assert engines.both({"t": {"prefix": "hello"}}) == [2]
    assert engines.both({"t": {"substring": "low"}}) == [2]


def test_geography(engines_of):
    berlin, potsdam, paris = (52.52, 13.405), (52.39, 13.06), (48.857, 2.35)
    engines = engines_of(
        *({"at": {"lat": lat, "lon": lon}} for lat, lon in (berlin, potsdam, paris))
    )
    center = {"lat": 52.5, "lon": 13.4}
    assert engines.both({"at": {"geo_radius": {"center": center, "radius": 10_000}}}) == [0]
    assert engines.both({"at": {"geo_radius": {"center": center, "radius": 50_000}}}) == [0, 1]
    box = {"top_left": {"lat": 53, "lon": 13}, "bottom_right": {"lat": 52, "lon": 14}}
    assert engines.both({"at": {"geo_box": box}}) == [0, 1]
    ring = [{"lat": 53, "lon": 13.2}, {"lat": 52, "lon": 13.2}, {"lat": 52.5, "lon": 14}]
    assert engines.both({"at": {"geo_polygon": {"exterior": ring}}}) == [0]
    hole = [{"lat": 52.6, "lon": 13.3}, {"lat": 52.4, "lon": 13.3}, {"lat": 52.5, "lon": 13.7}]
    assert engines.both({"at": {"geo_polygon": {"exterior": ring, "interiors": [hole]}}}) == []


def test_counts(engines_of):
    engines = engines_of({"v": [1, 2, 3]}, {"v": "x"}, {"v": []}, {})
    assert engines.both({"v": {"values_count": {"$gte": 2}}}) == [0]
    assert engines.both({"v": {"values_count": 1}}) == [1]
    assert engines.both({"v": {"values_count": {"lt": 1}}}) == [2, 3]


def test_field_names_of_every_kind(engines_of):
    """A field is found with and without the "metadata." before it, whatever its characters."""
    engines = engines_of(
        {"my key": 1, "straße": 1, "a.b": 1, "deep": {"x y": {"z": 1}}, "or": 1, "$x": 1, "a/b": 1},
        {"metadata": {"lang": 1}, "tags": [5, 1], "source": 1, "id": 1},
    )
    for name in ("my key", "straße", '"a.b"', "deep.x y.z", "metadata.or", "metadata.$x", "a/b"):
        assert engines.both({name: 1}) == [0], name
    for name in ("metadata.metadata.lang", "tags[1]", "tags[]", "source", "id", "metadata.source"):
        assert engines.both({name: 1}) == [1], name
    assert payload_key("_sbert.source") == "_sbert.source"
    assert payload_key("lang", metadata_key="") == "lang"
    assert payload_key("my meta.lang", metadata_key="my meta") == '"my meta".lang'


def test_dollar_spellings_mean_the_same():
    """Filters as LangChain users write them, `$and`, `$gte` and so on, are the same filters."""
    plain = {"and": [{"year": {"gte": 2020}}, {"or": [{"a": {"in": ["x"]}}, {"not": {"b": 1}}]}]}
    dollar = {
        "$and": [{"year": {"$gte": 2020}}, {"$or": [{"a": {"$in": ["x"]}}, {"$not": {"b": 1}}]}]
    }
    assert build_filter(plain) == build_filter(dollar)
    assert build_filter({"a": {"$not": {"$eq": 1}}}) == build_filter({"not": {"a": 1}})


def test_no_filter_is_none_and_a_native_one_passes():
    native = models.Filter(must=[models.HasIdCondition(has_id=[1])])
    assert build_filter(None) is None
    assert build_filter({}) is None
    assert build_filter(native) is native


def deep(kind: str, levels: int) -> dict:
    spec: dict = {"a": 1}
    for _ in range(levels):
        spec = {
            "not": {"not": spec},
            "or": {"or": [spec, {"b": 2}]},
            "any": {"a": {"any": spec}},
        }[kind]
    return spec


def deep_native(levels: int) -> models.Filter:
    inner = models.Filter(must=[models.HasIdCondition(has_id=[1])])
    for _ in range(levels):
        inner = models.Filter.model_construct(
            must=[inner], should=None, must_not=None, min_should=None
        )
    return inner


REFUSED: list[tuple[Any, str]] = [
    ({"year": {"gte": float("nan")}}, "year"),
    ({"year": {"lt": float("inf")}}, "year"),
    ({"year": -float("inf")}, "year"),
    ({"year": {"gte": Decimal("NaN")}}, "year"),
    ({"year": {"gte": 10**400}}, "year"),
    ({"year": {"gte": True}}, "year"),
    ({"year": {"gte": None}}, "year"),
    ({"year": {"gte": "soon"}}, "year"),
    ({"year": {"gte": [1]}}, "year"),
    ({"year": {"gte": 2020, "lt": date(2021, 1, 1)}}, "year"),
    ({"year": {"above": 3}}, "above"),
    ({"author": {"name": "x"}}, "author.name"),
    ({"year": {3: 4}}, "unknown operator 3"),
    ({"year": {}}, "year"),
    ({"year": {"not": {}}}, "year"),
    ({"not": {}}, "'not' holds an empty dict"),
    ({"not": {"a": {}}}, "'a'"),
    ({"not": [1]}, "not"),
    ({"or": []}, "or"),
    ({"and": []}, "and"),
    ({"$or": {"a": 1}}, "or"),
    ({"or": [{}]}, "or"),
    ({"or": "x"}, "metadata.or"),
    ({"$gte": 3}, "gte"),
    ({3: 4}, "3"),
    ({"": 1}, "not a field path"),
    ({"a..b": 1}, "a..b"),
    ({"a.": 1}, "not a field path"),
    ({"a[x]": 1}, "not a field path"),
    ({'a"b': 1}, "not a field path"),
    ({"lone \ud800": 1}, "surrogate"),
    ({"lang": "lone \ud800"}, "lang"),
    ({"lang": {"text": "lone \ud800"}}, "lang"),
    ({"lang": b"x"}, "lang"),
    ({"lang": object()}, "lang"),
    ({"lang": 2**63}, "lang"),
    ({"lang": [["en"]]}, "lang"),
    ({"lang": [{"a": 1}]}, "lang"),
    ({"lang": {"in": "en"}}, "lang"),
    ({"lang": {"nin": 3}}, "lang"),
    ({"lang": {"text": 3}}, "lang"),
    ({"lang": {"exists": 1}}, "lang"),
    ({"lang": {"any": {}}}, "lang"),
    ({"lang": {"any": "x"}}, "lang"),
    ({"lang": {"values_count": -1}}, "lang"),
    ({"lang": {"values_count": {}}}, "lang"),
    ({"lang": {"values_count": {"eq": 1}}}, "lang"),
    ({"lang": {"values_count": {"gte": True}}}, "lang"),
    ({"at": {"geo_radius": {"center": {"lat": 1, "lon": 2}}}}, "at"),
    ({"at": {"geo_radius": {"center": {"lat": 91, "lon": 2}, "radius": 1}}}, "at"),
    ({"at": {"geo_radius": {"center": {"lat": 1, "lon": 2}, "radius": float("nan")}}}, "at"),
    ({"at": {"geo_radius": {"center": {"lat": 1, "lon": 2}, "radius": -1}}}, "at"),
    ({"at": {"geo_radius": {"center": [1, 2], "radius": 1}}}, "at"),
    ({"at": {"geo_box": "x"}}, "at"),
    ({"at": {"geo_polygon": {"exterior": [{"lat": 1, "lon": 2}]}}}, "at"),
    ({"at": {"geo_polygon": {"exterior": [{"lat": "x", "lon": 2}] * 3}}}, "at"),
    (deep("not", 51), "deeper"),
    (deep("or", 51), "deeper"),
    (deep("any", 30), "deeper"),
    (deep("not", 5000), "deeper"),
    (deep_native(60), "deeper"),
    (deep_native(5000), "deeper"),
    (
        models.Filter(must=[models.FieldCondition(key="k", range=models.Range(lt=float("nan")))]),
        "'k'",
    ),
    (
        models.Filter(
            min_should=models.MinShould(
                conditions=[
                    models.FieldCondition(
                        key="k",
                        geo_radius=models.GeoRadius(
                            center=models.GeoPoint(lat=1, lon=2), radius=float("inf")
                        ),
                    )
                ],
                min_count=1,
            )
        ),
        "'k'",
    ),
]


@pytest.mark.parametrize(("spec", "named"), REFUSED, ids=range(len(REFUSED)))
def test_what_has_no_exact_meaning_is_refused_by_name(spec, named):
    """A filter that cannot be honoured is an error that names the key, never ignored."""
    with pytest.raises(InputError) as caught:
        build_filter(spec)
    assert named in str(caught.value)


@pytest.mark.parametrize("spec", ["lang = en", 3, [{"a": 1}], {"a"}, b""])
def test_a_filter_of_another_type_is_refused(spec):
    with pytest.raises(InputTypeError, match="expected a dict"):
        build_filter(spec)


@pytest.mark.parametrize(("kind", "levels"), [("not", 48), ("or", 24), ("any", 23)])
def test_the_deepest_filter_taken_can_delete_and_be_replayed(tmp_path, kind, levels):
    """A deletion by a deep filter, once acknowledged, never makes the folder unreadable."""
    folder = str(tmp_path / "shard")
    vectors = {"dense": models.VectorParams(size=2, distance=models.Distance.COSINE)}
    shard = edge.EdgeShard.create(folder, edge_config(vectors))
    built = build_filter(deep(kind, levels))
    shard.update(edge.UpdateOperation.delete_points_by_filter(edge_filter(built)))
    shard.close()
    edge.EdgeShard.load(folder).close()


def test_the_fields_a_filter_names():
    built = build_filter(
        {
            "lang": "en",
            "not": {"kind": None},
            "or": [{"author.name": "x"}, {"_sbert.source": "s"}],
            "authors": {"any": {"name": "x", "not": {"born": {"exists": True}}}},
        }
    )
    assert filter_fields(built) == {
        "metadata.lang",
        "metadata.kind",
        "metadata.author.name",
        "_sbert.source",
        "metadata.authors",
        "metadata.authors[].name",
        "metadata.authors[].born",
    }
    by_id = models.Filter(must=models.HasIdCondition(has_id=[1]))
    assert filter_fields(by_id) == set()


ALL = [
    models.Filter(),
    models.Filter(must=[]),
    models.Filter(must_not=[]),
    models.Filter(should=[]),
    models.Filter(must=[models.Filter()]),
    models.Filter(must=models.Filter()),
    models.Filter(should=[models.Filter(), models.HasIdCondition(has_id=[1])]),
    models.Filter(must_not=[models.HasIdCondition(has_id=[])]),
    models.Filter(
        min_should=models.MinShould(
            conditions=[models.Filter(), models.HasIdCondition(has_id=[1])], min_count=1
        )
    ),
]
SOME = [
    models.Filter(must=[models.HasIdCondition(has_id=[1])]),
    models.Filter(must=[models.HasIdCondition(has_id=[])]),
    models.Filter(must_not=[models.Filter()]),
    models.Filter(should=[models.HasIdCondition(has_id=[1])]),
    models.Filter(must=[models.Filter(), models.HasIdCondition(has_id=[1])]),
    models.Filter(
        min_should=models.MinShould(
            conditions=[models.Filter(), models.HasIdCondition(has_id=[1])], min_count=2
        )
    ),
]


@pytest.mark.parametrize("native", ALL, ids=range(len(ALL)))
def test_filters_without_any_condition_are_known(native, engines):
    """What would delete every point is recognised, however it is dressed."""
    assert is_match_all(native)
    assert len(engines.embedded(native)) == 200


@pytest.mark.parametrize("native", SOME, ids=range(len(SOME)))
def test_filters_with_a_condition_are_not_taken_for_all(native, engines):
    assert not is_match_all(native)
    assert len(engines.embedded(native)) < 200


def test_a_dict_that_lets_all_pass_is_known():
    assert is_match_all(build_filter({"lang": {"nin": []}}))
    assert not is_match_all(build_filter({"lang": []}))
    assert not is_match_all(build_filter({"lang": "en"}))


WILD = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.binary(max_size=3)
    | st.datetimes(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["gte", "lt", "$in", "not", "or", "and", "any", "exists", "a", "b.c", ""]
            )
            | st.text(max_size=4),
            inner,
            max_size=3,
        )
    ),
    max_leaves=12,
)


@pytest.mark.parametrize("name", ["\\", "a\\b", 'metadata."a\\"', "\\.a"])
def test_a_name_with_a_backslash_is_refused(name):
    """The engine's paths know no escape; its own error came out as it was."""
    with pytest.raises(InputError, match="has a backslash, which no path of the engine can have"):
        build_filter({name: 1})
    with pytest.raises(InputError, match="has a backslash"):
        payload_key(name)


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(st.text(max_size=4) | st.sampled_from(["a", "or", "not"]), WILD, max_size=3))
def test_any_dict_is_a_filter_the_engine_takes_or_one_clear_error(engines, spec):
    try:
        built = build_filter(spec)
    except InputError:
        return
    if built is not None:
        engines.embedded(built)
