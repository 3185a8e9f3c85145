from __future__ import annotations

import math
import random
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pytest
import qdrant_edge as edge
from qdrant_client import QdrantClient, models

from sbert_retriever.errors import InputError
from sbert_retriever.index.edge import convert

POINTS = 120
VECTORS = {
    "dense": models.VectorParams(size=8, distance=models.Distance.COSINE),
    "many": models.VectorParams(
        size=4,
        distance=models.Distance.DOT,
        multivector_config=models.MultiVectorConfig(
            comparator=models.MultiVectorComparator.MAX_SIM
        ),
    ),
}
SPARSE = {
    "words": models.SparseVectorParams(),
    "idf": models.SparseVectorParams(modifier=models.Modifier.IDF),
}


def sparse(rng: random.Random) -> models.SparseVector:
    indices = sorted(rng.sample(range(30), 6))
    return models.SparseVector(indices=indices, values=[rng.uniform(0.1, 2) for _ in indices])


def dense(rng: random.Random, size: int = 8) -> list[float]:
    return [rng.gauss(0, 1) for _ in range(size)]


def make_points() -> list[models.PointStruct]:
    rng = random.Random(3)
    return [
        models.PointStruct(
            id=i if i % 2 else str(UUID(int=i)),
            vector={
                "dense": dense(rng),
                "many": [dense(rng, 4) for _ in range(3)],
                "words": sparse(rng),
                "idf": sparse(rng),
            },
            payload={"n": i, "deep": {"x": i % 3, "y": "text"}},
        )
        for i in range(POINTS)
    ]


class Both:
    """The same collection in the embedded engine and in the client's local mode."""

    def __init__(self, folder: Path) -> None:
        points = make_points()
        self.shard = edge.EdgeShard.create(str(folder), convert.edge_config(VECTORS, SPARSE))
        self.shard.update(
            edge.UpdateOperation.upsert_points([convert.edge_point(p) for p in points])
        )
        index = convert.edge_payload_schema(models.PayloadSchemaType.INTEGER)
        self.shard.update(edge.UpdateOperation.create_field_index("n", index))
        self.client = QdrantClient(":memory:")
        self.client.create_collection("c", VECTORS, sparse_vectors_config=SPARSE)
        self.client.upsert("c", points)

    def embedded(self, query: Any = None, **arguments: Any) -> list[models.ScoredPoint]:
        found = self.shard.query(convert.edge_query_request(query, **arguments))
        return [convert.scored_point(point) for point in found]

    def local(self, query: Any = None, **arguments: Any) -> list[models.ScoredPoint]:
        return self.client.query_points("c", query=query, **arguments).points

    def agree(self, query: Any = None, **arguments: Any) -> list[models.ScoredPoint]:
        ours, theirs = self.embedded(query, **arguments), self.local(query, **arguments)
        assert len(ours) == len(theirs) > 0
        assert [p.score for p in ours] == pytest.approx([p.score for p in theirs], abs=1e-5)
        scores = np.array([p.score for p in theirs])
        for mine, other in zip(ours, theirs, strict=True):
            if (abs(scores - other.score) < 1e-5).sum() == 1:  # ties come in another order
                assert (mine.id, mine.payload) == (other.id, other.payload)
        return ours


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    made = Both(tmp_path_factory.mktemp("convert") / "shard")
    yield made
    made.shard.close()
    made.client.close()


RNG = random.Random(9)
Q, Q2, Q3 = dense(RNG), dense(RNG), dense(RNG)
MANY = [dense(RNG, 4) for _ in range(2)]
WORDS = sparse(RNG)
LOW = models.Filter(must=[models.FieldCondition(key="n", range=models.Range(lt=60))])
TWO = [
    models.Prefetch(query=Q, using="dense", limit=20),
    models.Prefetch(query=WORDS, using="words", limit=20, filter=LOW),
]
PAIR = models.ContextPair(positive=Q2, negative=Q3)
EXAMPLES = {"positive": [Q, Q2], "negative": [Q3]}

QUERIES: dict[str, tuple[Any, dict]] = {
    "dense": (Q, {"using": "dense"}),
    "numpy": (np.array(Q, dtype=np.float32), {"using": "dense"}),
    "limit and offset": (Q, {"using": "dense", "limit": 7, "offset": 5}),
    "filter": (Q, {"using": "dense", "query_filter": LOW, "limit": 50}),
    "threshold": (Q, {"using": "dense", "score_threshold": 0.3, "limit": 50}),
    "threshold 0": (Q, {"using": "dense", "score_threshold": 0.0, "limit": 120}),
    "sparse": (WORDS, {"using": "words"}),
    "idf": (WORDS, {"using": "idf"}),
    "several": (MANY, {"using": "many"}),
    "several, numpy": (np.array(MANY, dtype=np.float32), {"using": "many"}),
    "nearest": (models.NearestQuery(nearest=Q), {"using": "dense"}),
    "rrf": (models.FusionQuery(fusion=models.Fusion.RRF), {"prefetch": TWO}),
    "dbsf": (models.FusionQuery(fusion=models.Fusion.DBSF), {"prefetch": TWO}),
    "rrf, k": (models.RrfQuery(rrf=models.Rrf(k=60)), {"prefetch": TWO, "limit": 50}),
    "rrf, weights": (models.RrfQuery(rrf=models.Rrf(weights=[3.0, 1.0])), {"prefetch": TWO}),
    "one prefetch": (Q2, {"using": "dense", "prefetch": TWO[1]}),
    "nested prefetch": (
        Q2,
        {
            "using": "dense",
            "prefetch": models.Prefetch(
                prefetch=TWO, query=models.FusionQuery(fusion=models.Fusion.RRF), limit=15
            ),
        },
    ),
    "best score": (
        models.RecommendQuery(
            recommend=models.RecommendInput(
                **EXAMPLES, strategy=models.RecommendStrategy.BEST_SCORE
            )
        ),
        {"using": "dense"},
    ),
    "sum of scores": (
        models.RecommendQuery(
            recommend=models.RecommendInput(
                **EXAMPLES, strategy=models.RecommendStrategy.SUM_SCORES
            )
        ),
        {"using": "dense"},
    ),
    "average vector": (
        models.RecommendQuery(recommend=models.RecommendInput(**EXAMPLES)),
        {"using": "dense"},
    ),
    "average, no negatives": (
        models.RecommendQuery(recommend=models.RecommendInput(positive=[Q, Q2])),
        {"using": "dense"},
    ),
    "discover": (
        models.DiscoverQuery(discover=models.DiscoverInput(target=Q, context=[PAIR])),
        {"using": "dense"},
    ),
    "context": (models.ContextQuery(context=PAIR), {"using": "dense", "limit": 5}),
}


@pytest.mark.parametrize("name", QUERIES)
def test_each_query_answers_as_the_client_does(both, name):
    query, arguments = QUERIES[name]
    both.agree(query, **arguments)


@pytest.mark.parametrize(("diversity", "candidates"), [(0.0, 30), (0.5, 30), (1.0, 30)])
def test_diversity_is_not_turned_round(both, diversity, candidates):
    """The engine weighs relevance where the client weighs diversity; 0 stays plain similarity."""
    mmr = models.Mmr(diversity=diversity, candidates_limit=candidates)
    query = models.NearestQuery(nearest=Q, mmr=mmr)
    found = both.agree(query, using="dense", limit=5)
    plain = both.embedded(Q, using="dense", limit=5)
    assert ([p.id for p in found] == [p.id for p in plain]) is (diversity == 0.0)


def test_mmr_defaults_are_the_clients(both):
    both.agree(models.NearestQuery(nearest=Q, mmr=models.Mmr()), using="dense", limit=5)


def test_search_parameters_reach_a_query(both):
    params = models.SearchParams(exact=True, hnsw_ef=64)
    exact = both.embedded(Q, using="dense", search_params=params)
    assert [p.id for p in exact] == [p.id for p in both.local(Q, using="dense")]


def test_no_query_scrolls(both):
    found = both.embedded(limit=200, query_filter=LOW)
    assert sorted(p.payload["n"] for p in found) == list(range(60))


def test_order_by_and_sample(both):
    order = models.OrderBy(key="n", direction=models.Direction.DESC, start_from=50)
    found = both.embedded(models.OrderByQuery(order_by=order), limit=3)
    assert [p.payload["n"] for p in found] == [50, 49, 48]
    assert [p.order_value for p in found] == [50, 49, 48]
    first = both.embedded(models.OrderByQuery(order_by="n"), limit=2)
    assert [p.payload["n"] for p in first] == [0, 1]
    sample = models.SampleQuery(sample=models.Sample.RANDOM)
    assert len({p.id for p in both.embedded(sample, limit=20)}) == 20
    moment = models.OrderBy(key="n", start_from=datetime(2024, 1, 1, tzinfo=UTC))
    assert isinstance(convert.edge_order_by(moment), edge.OrderBy)


def test_payload_and_vectors_come_back_as_asked(both):
    def first(**arguments: Any) -> tuple[models.ScoredPoint, models.ScoredPoint]:
        asked = {"using": "dense", "limit": 1, **arguments}
        return both.embedded(Q, **asked)[0], both.local(Q, **asked)[0]

    for payload in (
        True,
        ["deep.x"],
        models.PayloadSelectorInclude(include=["n"]),
        models.PayloadSelectorExclude(exclude=["deep"]),
    ):
        ours, theirs = first(with_payload=payload)
        assert ours.payload == theirs.payload
    assert not first(with_payload=False)[0].payload
    assert first()[0].vector is None
    ours, theirs = first(with_vectors=["words", "many"])
    assert isinstance(ours.vector["words"], models.SparseVector)
    assert ours.vector["words"].indices == theirs.vector["words"].indices
    assert ours.vector["words"].values == pytest.approx(theirs.vector["words"].values, abs=1e-6)
    assert np.array(ours.vector["many"]) == pytest.approx(np.array(theirs.vector["many"]), abs=1e-6)
    assert set(ours.vector) == {"words", "many"}
    everything, _ = first(with_vectors=True)
    assert set(everything.vector) == {"dense", "many", "words", "idf"}
    assert math.hypot(*everything.vector["dense"]) == pytest.approx(1, abs=1e-5)


def test_a_request_model_is_read_with_its_own_defaults(both):
    request = models.QueryRequest(query=Q, using="dense", filter=LOW)
    found = both.shard.query(convert.edge_query_request_from(request))
    assert len(found) == 10
    assert not found[0].payload
    request = models.QueryRequest(
        query=Q, using="dense", limit=3, offset=1, with_payload=["n"], with_vector=["dense"]
    )
    found = [
        convert.scored_point(p) for p in both.shard.query(convert.edge_query_request_from(request))
    ]
    wanted = both.embedded(Q, using="dense", limit=3, offset=1, with_payload=["n"])
    assert [(p.id, p.payload) for p in found] == [(p.id, p.payload) for p in wanted]
    assert len(found[0].vector["dense"]) == 8


@pytest.mark.parametrize(
    "query",
    [
        [math.nan] * 8,
        [math.inf] + [0.0] * 7,
        [1e39] * 8,
        np.array([np.nan] * 8),
        ["a"] * 8,
        models.SparseVector(indices=[1, 1], values=[1.0, 1.0]),
        models.SparseVector(indices=[1, 2], values=[1.0]),
        models.SparseVector(indices=[1], values=[math.nan]),
        [[1.0, math.nan]],
        5,
        "00000000-0000-0000-0000-000000000005",
        UUID(int=5),
        models.NearestQuery(nearest=5),
        models.RecommendQuery(recommend=models.RecommendInput(positive=[5])),
        models.RecommendQuery(recommend=models.RecommendInput(negative=[Q])),
        models.RecommendQuery(recommend=models.RecommendInput(positive=[WORDS])),
        models.RrfQuery(rrf=models.Rrf(k=0)),
        models.Document(text="x", model="y"),
        object(),
    ],
    ids=lambda query: type(query).__name__,
)
def test_a_query_that_cannot_be_answered_is_refused(query):
    """NaN, infinity, broken sparse vectors and ids raise at once; none comes back empty."""
    with pytest.raises(InputError):
        convert.edge_query_request(query, using="dense")


def test_a_threshold_that_is_no_number_is_refused():
    with pytest.raises(InputError, match="score_threshold"):
        convert.edge_query_request(Q, using="dense", score_threshold=math.nan)


# --- ids and points -----------------------------------------------------------------------------

U = UUID("abcdef00-0000-4000-8000-000000000001")


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        (0, 0),
        (2**64 - 1, 2**64 - 1),
        (np.int64(7), 7),
        (np.uint64(2**64 - 1), 2**64 - 1),
        (U, U),
        (str(U), U),
        (str(U).upper(), U),
        (U.hex, U),
        (f"urn:uuid:{U}", U),
    ],
)
def test_point_ids_that_are_taken(given, stored):
    assert convert.edge_point_id(given) == stored
    assert type(convert.edge_point_id(given)) is type(stored)


@pytest.mark.parametrize(
    "given", [True, False, np.bool_(True), -1, 2**64, 1.0, "", "abc", "1", None, b"x"]
)
def test_point_ids_that_are_refused(given):
    """True is not 1, -1 and 2**64 do not wrap round: refused by name in every mode."""
    with pytest.raises(InputError, match="point id is"):
        convert.edge_point_id(given)


def test_a_matrix_becomes_points(tmp_path):
    shard = edge.EdgeShard.create(
        str(tmp_path / "s"),
        convert.edge_config({"dense": models.VectorParams(size=3, distance=models.Distance.DOT)}),
    )
    matrix = np.array([[1, 2, 3], [0.5, -1, 0]], dtype=np.float32)
    points = convert.edge_points([5, str(U)], matrix, [{"a": 1}, None])
    shard.update(edge.UpdateOperation.upsert_points(points))
    found = [convert.record(p) for p in shard.retrieve([5, U], True, True)]
    assert {p.id: p.vector for p in found} == {
        5: {"dense": [1.0, 2.0, 3.0]},
        str(U): {"dense": [0.5, -1.0, 0.0]},
    }
    assert next(p.payload for p in found if p.id == 5) == {"a": 1}
    shard.close()


def test_a_broken_row_names_its_point():
    """A vector with NaN or infinity is refused with its point's id before anything is written."""
    matrix = np.ones((3, 2), dtype=np.float32)
    for bad in (np.nan, np.inf, -np.inf):
        matrix[1] = bad
        with pytest.raises(InputError, match="point 8"):
            convert.edge_points([7, 8, 9], matrix, [{}, {}, {}])
    with pytest.raises(InputError, match="2 ids, 3 vectors"):
        convert.edge_points([7, 8], matrix, [{}, {}, {}])
    assert convert.edge_points([], np.empty((0, 2), dtype=np.float32), []) == []


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 1e39, -1e39])
def test_a_point_with_a_broken_vector_is_refused(bad):
    point = models.PointStruct(id=8, vector={"dense": [1.0, bad]}, payload={})
    with pytest.raises(InputError, match="point 8, 'dense'"):
        convert.edge_point(point)
    with pytest.raises(InputError, match="point 8"):
        convert.edge_point(models.PointStruct(id=8, vector=[bad, 0.0], payload={}))


def test_the_largest_floats_are_taken():
    largest = float(np.finfo(np.float32).max)
    convert.edge_point(models.PointStruct(id=1, vector=[largest, -largest], payload=None))
    convert.edge_point(models.PointStruct(id=1, vector=[largest] * 8, payload=None))


# --- configuration ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "quantization",
    [
        models.ScalarQuantization(
            scalar=models.ScalarQuantizationConfig(
                type=models.ScalarType.INT8, quantile=0.99, memory=models.Memory.CACHED
            )
        ),
        *(
            models.ProductQuantization(
                product=models.ProductQuantizationConfig(compression=compression, always_ram=True)
            )
            for compression in models.CompressionRatio
        ),
        *(
            models.BinaryQuantization(
                binary=models.BinaryQuantizationConfig(
                    encoding=encoding,
                    query_encoding=models.BinaryQuantizationQueryEncoding.SCALAR8BITS,
                )
            )
            for encoding in models.BinaryQuantizationEncoding
        ),
        *(
            models.TurboQuantization(turbo=models.TurboQuantQuantizationConfig(bits=bits))
            for bits in models.TurboQuantBitSize
        ),
    ],
    ids=lambda q: q.model_dump_json(exclude_none=True),
)
def test_every_quantisation_makes_a_collection(tmp_path, quantization):
    params = models.VectorParams(
        size=16, distance=models.Distance.COSINE, quantization_config=quantization
    )
    config = convert.edge_config({"dense": params}, quantization_config=quantization)
    edge.EdgeShard.create(str(tmp_path / "s"), config).close()
    edge.EdgeShard.load(str(tmp_path / "s")).close()


def test_every_vector_setting_arrives():
    for distance in models.Distance:
        params = convert.edge_vector_params(models.VectorParams(size=4, distance=distance))
        assert str(params.distance) == f"Distance.{distance.value}"
    for datatype in models.Datatype:
        params = convert.edge_vector_params(
            models.VectorParams(size=4, distance=models.Distance.DOT, datatype=datatype)
        )
        assert str(params.datatype).lower() == f"vectorstoragedatatype.{datatype.value}"
    params = convert.edge_vector_params(
        models.VectorParams(
            size=4,
            distance=models.Distance.DOT,
            on_disk=True,
            memory=models.Memory.COLD,
            hnsw_config=models.HnswConfigDiff(m=0, ef_construct=7, payload_m=4),
            multivector_config=VECTORS["many"].multivector_config,
        )
    )
    assert (params.size, params.on_disk, params.memory) == (4, True, edge.Memory.Cold)
    assert params.multivector_config.comparator == edge.MultiVectorComparator.MaxSim
    graph = params.hnsw_config
    assert (graph.m, graph.ef_construct, graph.full_scan_threshold) == (0, 7, 10_000)
    assert graph.payload_m == 4
    words = convert.edge_sparse_params(
        models.SparseVectorParams(
            index=models.SparseIndexParams(
                full_scan_threshold=5, on_disk=True, datatype=models.Datatype.FLOAT16
            ),
            modifier=models.Modifier.NONE,
        )
    )
    assert (words.full_scan_threshold, words.on_disk) == (5, True)
    assert words.datatype == edge.VectorStorageDatatype.Float16
    single = convert.edge_config(models.VectorParams(size=4, distance=models.Distance.DOT))
    assert list(single.vectors) == [""]


INDEXES = [
    *models.PayloadSchemaType,
    "keyword",
    models.KeywordIndexParams(type="keyword", is_tenant=True, memory=models.Memory.CACHED),
    models.IntegerIndexParams(type="integer", lookup=True, range=True),
    models.FloatIndexParams(type="float", on_disk=True),
    models.GeoIndexParams(type="geo"),
    models.BoolIndexParams(type="bool", enable_hnsw=False),
    models.DatetimeIndexParams(type="datetime", is_principal=True),
    models.UuidIndexParams(type="uuid"),
    models.TextIndexParams(
        type="text",
        tokenizer=models.TokenizerType.WORD,
        min_token_len=1,
        lowercase=True,
        phrase_matching=True,
        stopwords=models.StopwordsSet(languages=[models.Language.ENGLISH], custom=["foo"]),
        stemmer=models.SnowballParams(type="snowball", language=models.SnowballLanguage.ENGLISH),
    ),
    models.TextIndexParams(type="text", stopwords=models.Language.GERMAN),
    models.TextIndexParams(type="text", stemmer=models.DisabledStemmerParams(type="none")),
]


@pytest.mark.parametrize("schema", INDEXES, ids=lambda schema: repr(schema)[:30])
def test_every_payload_index_can_be_made(tmp_path, schema):
    shard = edge.EdgeShard.create(str(tmp_path / "s"), convert.edge_config(VECTORS))
    made = convert.edge_payload_schema(schema)
    shard.update(edge.UpdateOperation.create_field_index("f", made))
    assert list(shard.info().payload_schema) == ["f"]
    shard.close()


@pytest.mark.parametrize("schema", ["keywords", None, 3, object()])
def test_an_unknown_payload_index_is_refused(schema):
    with pytest.raises(InputError, match="keyword, integer, float"):
        convert.edge_payload_schema(schema)


def test_search_parameters_arrive():
    assert convert.edge_search_params(None) is None
    params = convert.edge_search_params(
        models.SearchParams(
            hnsw_ef=99,
            exact=True,
            indexed_only=True,
            quantization=models.QuantizationSearchParams(rescore=True, oversampling=2.0),
            acorn=models.AcornSearchParams(enable=True, max_selectivity=0.3),
            idf=models.IdfCorpusParams(corpus=LOW),
        )
    )
    assert (params.hnsw_ef, params.exact, params.indexed_only) == (99, True, True)
    assert (params.quantization.ignore, params.quantization.rescore) == (False, True)
    assert params.quantization.oversampling == 2.0
    assert params.acorn.enable is True
    assert params.idf is not None
    assert convert.edge_search_params(models.SearchParams()).exact is False


# --- filters: the conditions that a dict does not make ------------------------------------------

U0 = str(UUID(int=0))
FILTERS: dict[str, tuple[models.Filter, list[int]]] = {
    "ids": (models.Filter(must=[models.HasIdCondition(has_id=[1, U0, 3])]), [0, 1, 3]),
    "one condition": (models.Filter(must=models.HasIdCondition(has_id=[1])), [1]),
    "has vector": (
        models.Filter(
            must=[models.HasVectorCondition(has_vector="words")],
            must_not=[models.FieldCondition(key="n", range=models.Range(gt=1))],
        ),
        [0, 1],
    ),
    "min_should": (
        models.Filter(
            min_should=models.MinShould(
                conditions=[
                    models.FieldCondition(key="n", range=models.Range(lt=4)),
                    models.FieldCondition(key="n", range=models.Range(gte=2, lt=6)),
                    models.FieldCondition(key="deep.x", match=models.MatchValue(value=0)),
                ],
                min_count=2,
            )
        ),
        [0, 2, 3],
    ),
    "except": (
        models.Filter(
            must=[
                LOW,
                models.FieldCondition(
                    key="n", match=models.MatchExcept(**{"except": list(range(2, 60))})
                ),
            ]
        ),
        [0, 1],
    ),
    "no value of several": (
        models.Filter(must=[models.FieldCondition(key="n", match=models.MatchAny(any=[]))]),
        [],
    ),
    "flags": (
        models.Filter(
            must=[
                models.FieldCondition(key="gone", is_empty=True),
                models.FieldCondition(key="n", is_null=False, range=None),
                models.FieldCondition(key="n", match=models.MatchAny(any=[7, 8])),
            ]
        ),
        [7, 8],
    ),
}


@pytest.mark.parametrize("name", FILTERS)
def test_each_condition_means_what_the_client_means(both, name):
    built, wanted = FILTERS[name]
    found = both.embedded(limit=200, query_filter=built)
    assert sorted(p.payload["n"] for p in found) == wanted
    local = both.client.scroll("c", built, limit=200)[0]
    assert sorted(p.payload["n"] for p in local) == wanted


def test_slices_share_the_points_out(both):
    parts = []
    for index in range(3):
        condition = models.SliceCondition(slice=models.Slice(total=3, index=index))
        found = both.embedded(limit=200, query_filter=models.Filter(must=[condition]))
        parts.append({p.payload["n"] for p in found})
    assert sum(map(len, parts)) == POINTS
    assert set.union(*parts) == set(range(POINTS))


def test_bools_are_not_integers_even_among_several(tmp_path):
    """A bool in a list of values is told apart from 0 and 1, as a bool alone is."""
    shard = edge.EdgeShard.create(
        str(tmp_path / "s"),
        convert.edge_config({"d": models.VectorParams(size=1, distance=models.Distance.DOT)}),
    )
    values: list[Any] = [True, False, 1, 0, "true"]
    shard.update(
        edge.UpdateOperation.upsert_points(
            [edge.Point(i, {"d": [1.0]}, {"v": v}) for i, v in enumerate(values)]
        )
    )

    def found(match: Any) -> list[int]:
        condition = models.FieldCondition(key="v", match=models.MatchValue(value=1))
        condition.match = match
        request = edge.ScrollRequest(
            limit=9,
            filter=convert.edge_filter(models.Filter(must=[condition])),
            with_payload=False,
            with_vector=False,
        )
        return sorted(point.id for point in shard.scroll(request)[0])

    assert found(models.MatchValue(value=True)) == [0]
    assert found(models.MatchValue(value=False)) == [1]
    assert found(models.MatchValue(value=1)) == [2]
    assert found(models.MatchAny(any=[0, 1])) == [2, 3]
    assert found(models.MatchAny.model_construct(any=[True])) == [0]
    assert found(models.MatchAny.model_construct(any=[True, 0])) == [0, 3]
    with pytest.raises(InputError, match="must_not"):
        found(models.MatchExcept.model_construct(except_=[True]))
    shard.close()


def test_times_reach_the_engine_as_text():
    for bound in (date(2024, 5, 1), datetime(2024, 5, 1), datetime(2024, 5, 1, tzinfo=UTC)):
        built = models.Filter(
            must=[models.FieldCondition(key="t", range=models.DatetimeRange(gte=bound))]
        )
        assert isinstance(convert.edge_filter(built), edge.Filter)


def test_a_harmful_filter_stops_at_the_border():
    """An infinite bound, which would delete other points later, never reaches the engine."""
    infinite = models.Filter(must=[models.FieldCondition(key="n", range=models.Range(lt=math.inf))])
    with pytest.raises(InputError, match="'n'"):
        convert.edge_filter(infinite)
    deep = infinite
    for _ in range(2000):
        deep = models.Filter.model_construct(
            must=[deep], should=None, must_not=None, min_should=None
        )
    with pytest.raises(InputError, match="deeper"):
        convert.edge_filter(deep)
    with pytest.raises(InputError, match="object"):
        convert.edge_filter(
            models.Filter.model_construct(
                must=[object()], should=None, must_not=None, min_should=None
            )
        )
