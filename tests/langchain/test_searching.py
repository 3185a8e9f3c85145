"""Filters, thresholds and variety, in each mode, synchronous and not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from langchain_core.documents import Document
from langchain_sbert import SBERTVectorStore
from qdrant_client import QdrantClient, models

from sbert_retriever.errors import InputError, InputTypeError, UnknownFieldWarning
from sbert_retriever.index.store import PassageStore
from sbert_retriever.search.diversity import mmr_order

# Cosines with "q": 1, 0.6, 0, -1.
_CIRCLE = {
    "q": [1.0, 0.0],
    "same": [1.0, 0.0],
    "near": [0.6, 0.8],
    "beside": [0.0, 1.0],
    "against": [-1.0, 0.0],
}
_METADATA = {
    "same": {"lang": "en", "year": 2019},
    "near": {"lang": "de", "year": 2020},
    "beside": {"lang": "en", "year": 2021},
    "against": {"lang": "fr", "year": 2022},
}
_QUERIES = [
    ("similarity_search", "q"),
    ("similarity_search_with_score", "q"),
    ("similarity_search_with_relevance_scores", "q"),
    ("similarity_search_by_vector", [1.0, 0.0]),
    ("similarity_search_with_score_by_vector", [1.0, 0.0]),
    ("max_marginal_relevance_search", "q"),
    ("max_marginal_relevance_search_by_vector", [1.0, 0.0]),
]


@pytest.fixture
def circle(place: dict[str, Any], table: Any) -> Iterator[SBERTVectorStore]:
    texts = list(_METADATA)
    with SBERTVectorStore.from_texts(
        texts, table(_CIRCLE), list(_METADATA.values()), ids=texts, **place
    ) as store:
        yield store


def ids(found: list[Any]) -> list[str | None]:
    """Ids of documents, with or without scores."""
    return [item[0].id if isinstance(item, tuple) else item.id for item in found]


_FILTERS: list[tuple[Any, set[str]]] = [
    ({"lang": "en"}, {"same", "beside"}),
    ({"metadata.lang": "en"}, {"same", "beside"}),
    ({"lang": ["en", "de"], "year": {"gte": 2020}}, {"near", "beside"}),
    (
        models.Filter(
            must=[models.FieldCondition(key="metadata.lang", match=models.MatchValue(value="de"))]
        ),
        {"near"},
    ),
    ({}, set(_METADATA)),
]


@pytest.mark.parametrize(("method", "query"), _QUERIES)
async def test_every_search_takes_filters(
    circle: SBERTVectorStore, call: Any, method: str, query: Any
) -> None:
    """A filter as a dict, with or without its prefix, or as Qdrant's own, works in each search."""
    for condition, expected in _FILTERS:
        assert set(ids(await call(circle, method, query, filter=condition))) == expected


async def test_the_retriever_takes_filters(circle: SBERTVectorStore, call: Any) -> None:
    """A filter given to the constructor, to search_kwargs or to the call is honoured in each."""
    for search_type in ("similarity", "mmr"):
        for condition, expected in _FILTERS:
            retriever = circle.as_retriever(search_type=search_type, filter=condition)
            assert set(ids(await call(retriever, "invoke", "q"))) == expected
            retriever = circle.as_retriever(
                search_type=search_type, search_kwargs={"filter": condition}
            )
            assert set(ids(await call(retriever, "invoke", "q"))) == expected
            retriever = circle.as_retriever(search_type=search_type)
            assert set(ids(await call(retriever, "invoke", "q", filter=condition))) == expected


@pytest.mark.parametrize(("method", "query"), _QUERIES)
async def test_unknown_arguments_are_errors(
    circle: SBERTVectorStore, call: Any, method: str, query: Any
) -> None:
    """An argument that a search does not know is an error, never ignored."""
    with pytest.raises(TypeError, match="filters"):
        await call(circle, method, query, filters={"lang": "en"})
    if "marginal" not in method:
        with pytest.raises(TypeError, match="fetch_k"):
            await call(circle, method, query, fetch_k=3)


@pytest.mark.parametrize(("method", "query"), _QUERIES)
async def test_a_filter_on_no_passages_field(
    circle: SBERTVectorStore, call: Any, method: str, query: Any
) -> None:
    """A filter on a field that no passage has says so once, and finds nothing."""
    with pytest.warns(UnknownFieldWarning, match="'langauge'") as warned:
        assert await call(circle, method, query, filter={"langauge": "en"}) == []
    assert len(warned) == 1


@pytest.mark.parametrize(
    ("threshold", "kept"),
    [
        (0.5, ["same", "near"]),
        (0.0, ["same", "near", "beside"]),
        (0, ["same", "near", "beside"]),
        (-0.5, ["same", "near", "beside"]),
        (-1.1, ["same", "near", "beside", "against"]),
        (1.1, []),
        (None, ["same", "near", "beside", "against"]),
    ],
)
async def test_a_threshold_means_one_thing(
    circle: SBERTVectorStore, call: Any, threshold: float | None, kept: list[str]
) -> None:
    """One threshold keeps the same texts in every search: it is the cosine, and 0 is a number."""
    for method, query in _QUERIES:
        found = await call(circle, method, query, score_threshold=threshold)
        assert sorted(ids(found), key=list(_METADATA).index) == kept
    plain = circle.as_retriever(score_threshold=threshold)
    assert ids(await call(plain, "invoke", "q")) == kept
    if threshold is not None:
        strict = circle.as_retriever(
            search_type="similarity_score_threshold", search_kwargs={"score_threshold": threshold}
        )
        assert ids(await call(strict, "invoke", "q")) == kept


async def test_scores_are_cosines_and_relevance_is_cut(
    circle: SBERTVectorStore, call: Any, close: float
) -> None:
    scores = [s for _, s in await call(circle, "similarity_search_with_score", "q")]
    assert scores == pytest.approx([1, 0.6, 0, -1], abs=close)
    found = await call(circle, "similarity_search_with_relevance_scores", "q")
    assert [s for _, s in found] == pytest.approx([1, 0.6, 0, 0], abs=close)
    assert all(0 <= s <= 1 for _, s in found)


async def test_scores_without_bounds_have_no_relevance(call: Any, table: Any) -> None:
    """A dot product has no relevance between 0 and 1, and asking for it says why."""
    client = QdrantClient(":memory:")
    vectors = models.VectorParams(size=2, distance=models.Distance.DOT)
    client.create_collection("dots", vectors_config=vectors)
    with SBERTVectorStore.from_existing_collection(
        table(_CIRCLE), client=client, collection_name="dots"
    ) as store:
        with pytest.raises(InputError, match="dot"):
            await call(store, "similarity_search_with_relevance_scores", "q")
        assert await call(store, "similarity_search_with_score", "q") == []
    client.close()


_TRIAD = {
    "q": [1.0, 0.0, 0.0],
    "near1": [0.99, 0.1, 0.0],
    "near2": [0.99, 0.11, 0.0],
    "far": [0.2, 0.0, 0.98],
}


@pytest.mark.parametrize(
    ("lambda_mult", "chosen"),
    [(1, ["near1", "near2"]), (0, ["near1", "far"]), (0.0, ["near1", "far"])],
)
async def test_variety(
    place: dict[str, Any], call: Any, table: Any, lambda_mult: float, chosen: list[str]
) -> None:
    """lambda_mult 1 looks at nearness only, 0 at variety only, by text, vector and retriever."""
    texts = ["near1", "near2", "far"]
    with SBERTVectorStore.from_texts(texts, table(_TRIAD), ids=texts, **place) as store:
        asked = {"k": 2, "fetch_k": 3, "lambda_mult": lambda_mult}
        assert ids(await call(store, "max_marginal_relevance_search", "q", **asked)) == chosen
        by_vector = "max_marginal_relevance_search_by_vector"
        assert ids(await call(store, by_vector, [1, 0, 0], **asked)) == chosen
        retriever = store.as_retriever(search_type="mmr", search_kwargs=asked)
        assert ids(await call(retriever, "invoke", "q")) == chosen
        assert ids(await call(store, "search", "q", "mmr", **asked)) == chosen


async def test_variety_checks_its_arguments(circle: SBERTVectorStore, call: Any) -> None:
    search = "max_marginal_relevance_search"
    with pytest.raises(InputError, match=r"lambda_mult is 1\.5"):
        await call(circle, search, "q", lambda_mult=1.5)
    with pytest.raises(InputTypeError, match="lambda_mult"):
        await call(circle, search, "q", lambda_mult="0.5")
    with pytest.raises(InputError, match="fetch_k is 2 and k is 3"):
        await call(circle, search, "q", k=3, fetch_k=2)
    with pytest.raises(InputError, match="k is 0"):
        await call(circle, search, "q", k=0)
    with pytest.raises(InputTypeError, match="query is list"):
        await call(circle, search, [1.0, 0.0])
    assert len(await call(circle, search, "q", k=30)) == 4


def test_variety_weighs_both_sides() -> None:
    """Worked out by hand at lambda 0.5: after a (1.0), b gains .5*.8-.5*.8, c .5*.6-.5*.6."""
    query = np.array([1, 0], np.float32)
    rows = np.array([[1, 0], [0.8, 0.6], [0.6, -0.8]], np.float32)
    # lambda .7: b gains .7*.8-.3*.8=.32, c .7*.6-.3*.6=.24; lambda .3: b -.32, c -.24.
    assert mmr_order(query, rows, k=3, lambda_mult=0.7) == [0, 1, 2]
    assert mmr_order(query, rows, k=2, lambda_mult=0.3) == [0, 2]


@pytest.mark.parametrize("kind", ["cosine", "dot", "neg_l2", "neg_l1"])
def test_variety_is_that_of_its_definition(kind: str) -> None:
    """Each choice has the largest gain of all that are left, computed one by one in float64."""
    rows = np.random.default_rng(7).normal(size=(12, 5)).astype(np.float32)
    query, rows = rows[0], rows[1:]

    def similarity(a: Any, b: Any) -> float:
        a, b = a.astype(np.float64), b.astype(np.float64)
        if kind == "cosine":
            return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))
        if kind == "dot":
            return float(a @ b)
        return -float(np.linalg.norm(a - b, ord=2 if kind == "neg_l2" else 1))

    expected: list[int] = []
    while len(expected) < 6:
        gains = {
            n: 0.4 * similarity(query, row) - 0.6 * max(similarity(row, rows[m]) for m in expected)
            if expected
            else similarity(query, row)
            for n, row in enumerate(rows)
            if n not in expected
        }
        expected.append(max(gains, key=gains.__getitem__))
    found = mmr_order(query, rows, k=6, lambda_mult=0.4, score_kind=kind)  # type: ignore[arg-type]  # a str of the list above
    assert found == expected


async def test_k_is_honoured_and_checked(circle: SBERTVectorStore, call: Any) -> None:
    for method, query in _QUERIES:
        assert len(await call(circle, method, query, k=3)) == 3
        with pytest.raises(InputError, match="k is 0"):
            await call(circle, method, query, k=0)


async def test_each_search_keeps_the_time_that_it_is_given(
    circle: SBERTVectorStore, call: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[float | None] = []

    def within_time(store: PassageStore, timeout_s: float | None) -> PassageStore:
        given.append(timeout_s)
        return store

    monkeypatch.setattr(PassageStore, "within_time", within_time)
    for method, query in _QUERIES:
        given.clear()
        await call(circle, method, query, timeout_s=7)
        assert given == [7], method


async def test_a_vector_that_no_passage_is_near_to(circle: SBERTVectorStore, call: Any) -> None:
    for method in ("similarity_search_by_vector", "max_marginal_relevance_search_by_vector"):
        for vector in ([0.0, 0.0], [float("nan"), 1.0], [1.0, 0.0, 0.0]):
            with pytest.raises(InputError):
                await call(circle, method, vector)


async def test_meaning_is_found(place: dict[str, Any], call: Any, minilm_embeddings: Any) -> None:
    texts = ["Cats purr when they are content.", "The train leaves at noon."]
    with SBERTVectorStore.from_texts(texts, minilm_embeddings, **place) as store:
        found = await call(store, "similarity_search", "Which animal makes a soft noise?", k=1)
        assert [d.page_content for d in found] == texts[:1]
        assert isinstance(found[0], Document)
