"""What must hold in a store of each kind: with words, small copies, half precision, tenants, all.

The plain store is tested at length elsewhere; here each matter is asked once of every kind, in each
mode, synchronous and not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from langchain_core import indexing
from langchain_core.documents import Document
from langchain_sbert import SBERTVectorStore
from qdrant_client import models

from sbert_retriever import Passage
from sbert_retriever.errors import InputError, InputTypeError, UnknownFieldWarning
from sbert_retriever.types import Fusion

_Vectors = dict[str, list[float]]
_Open = Callable[..., SBERTVectorStore]

# The cosines with "valve" are 1, 0.6, 0 and -1, and only the last has its word.
_CIRCLE = {
    "valve": [1.0, 0.0],
    "same pump": [1.0, 0.0],
    "near seal": [0.6, 0.8],
    "beside rod": [0.0, 1.0],
    "against valve": [-1.0, 0.0],
}
_IDS = ["same", "near", "beside", "against"]
_TEXTS = dict(zip(_IDS, list(_CIRCLE)[1:], strict=True))
_METADATAS = [{"lang": "en"}, {"lang": "de"}, {"lang": "en"}, {"lang": "fr"}]
_QUERIES = [
    ("similarity_search", "valve"),
    ("similarity_search_with_score", "valve"),
    ("similarity_search_with_relevance_scores", "valve"),
    ("similarity_search_by_vector", [1.0, 0.0]),
    ("similarity_search_with_score_by_vector", [1.0, 0.0]),
    ("max_marginal_relevance_search", "valve"),
    ("max_marginal_relevance_search_by_vector", [1.0, 0.0]),
]
# Half precision has eleven bits.
_CLOSE = 1e-3
_WORDED = pytest.mark.parametrize("kind", ["words", "all"], indirect=True)


@pytest.fixture
def opened(where: dict[str, Any], kind: dict[str, Any], table: Any) -> Iterator[_Open]:
    """Opens a store; a tenant's lies beside another's with the same texts, which stay there."""
    with ExitStack() as stack:

        def make(vectors: _Vectors, **more: Any) -> SBERTVectorStore:
            settings = {**where, **kind, **more}
            tenant = settings.pop("tenant", None)
            embedding = table(vectors)
            whole = stack.enter_context(SBERTVectorStore(embedding, **settings))
            if tenant is None:
                return whole
            ours, theirs = (
                SBERTVectorStore.from_retriever(whole.retriever.with_tenant(name), embedding)
                for name in (tenant, "them")
            )
            theirs.add_texts(list(vectors), [{"lang": "en"}] * len(vectors), ids=list(vectors))
            embedding.embedded.clear()
            stack.callback(_check, theirs, len(vectors))
            return ours

        yield make


def _check(theirs: SBERTVectorStore, count: int) -> None:
    assert theirs.retriever.count() == count


@pytest.fixture
def circle(opened: _Open, kind: dict[str, Any]) -> SBERTVectorStore:
    store = opened(_CIRCLE)
    store.add_texts(list(_TEXTS.values()), _METADATAS, ids=_IDS)
    if "quantization" in kind:
        # Small copies are made with the graph.
        store.retriever.optimize()
    return store


def ids(found: list[Any]) -> list[str | None]:
    """Ids of documents, with or without scores."""
    return [item[0].id if isinstance(item, tuple) else item.id for item in found]


def has_words(store: SBERTVectorStore) -> bool:
    return store.retriever.info().sparse is not None


@_WORDED
async def test_a_threshold_beside_words_is_on_the_scale_of_the_fusion(
    circle: SBERTVectorStore, call: Any
) -> None:
    """A threshold in a hybrid search is one number: the cosine and what the words add."""
    # A plain word adds 0.15 to the cosine of the passage that is best by words.
    scores = {"same": 1.0, "near": 0.6, "beside": 0.0, "against": -1 + 0.15}
    asked = {"mode": "hybrid", "k": 4}
    found = await call(circle, "similarity_search_with_score", "valve", **asked)
    assert {d.id: s for d, s in found} == pytest.approx(scores, abs=_CLOSE)
    hits = await call(circle.retriever, "search", "valve")
    assert {hit.score_kind for hit in hits} == {"fused"}
    for threshold, kept in ((0.59, 2), (0.0, 3), (-0.84, 3), (-0.86, 4), (1.1, 0)):
        at = {"score_threshold": threshold}
        assert ids(await call(circle, "search", "valve", "hybrid", **at)) == _IDS[:kept]
        assert ids(await call(circle, "similarity_search", "valve", **asked, **at)) == _IDS[:kept]
        retriever = circle.as_retriever(search_type="hybrid", **at)
        assert ids(await call(retriever, "invoke", "valve")) == _IDS[:kept]
        assert ids(await call(circle.retriever, "search", "valve", **at)) == _IDS[:kept]


@_WORDED
async def test_a_threshold_by_ranks_or_by_words_is_no_cosine(
    circle: SBERTVectorStore, call: Any
) -> None:
    """Ranks stay far below 0.6, so that threshold keeps none; words alone have their own scale."""
    # Ranks 1 and 4 of both legs, the constant being 60: 0.5 / 61 and 0.5 / 61 + 0.5 / 64.
    by_ranks = {"mode": "hybrid", "fusion": Fusion(method="rrf")}
    for threshold, kept in ((0.6, []), (0.01, ["against"]), (0.0081, ["against", "same"])):
        asked = {**by_ranks, "score_threshold": threshold}
        assert ids(await call(circle, "similarity_search", "valve", **asked)) == kept
        hits = await call(circle.retriever, "search", "valve", **asked)
        assert ids(hits) == kept
        assert {hit.score_kind for hit in hits} <= {"rrf"}
    # BM25 of one word among two, found in 1 of 4 passages, or in 3 of 9 with another tenant's.
    passages, having = (4, 1) if circle.retriever.store.tenant is None else (9, 3)
    idf = math.log(1 + (passages - having + 0.5) / (having + 0.5))
    score = idf * 2.2 / (1 + 1.2 * (0.25 + 0.75 * 2 / 200))
    for threshold, kept in ((score - 0.01, ["against"]), (score + 0.01, [])):
        asked = {"mode": "sparse", "score_threshold": threshold}
        assert ids(await call(circle, "similarity_search", "valve", **asked)) == kept
        hits = await call(circle.retriever, "search", "valve", **asked)
        assert [hit.score_kind for hit in hits] == ["bm25"] * len(kept)


@_WORDED
async def test_a_relevance_of_what_has_no_bounds_is_refused(
    circle: SBERTVectorStore, call: Any
) -> None:
    """LangChain's threshold on a relevance, in a hybrid search, is an error naming the scale."""
    for mode, scale in (("hybrid", "fused"), ("sparse", "bm25")):
        retriever = circle.as_retriever(
            search_type="similarity_score_threshold",
            search_kwargs={"score_threshold": 0.6, "mode": mode},
        )
        with pytest.raises(InputError, match=f"the scores are {scale}, which has no bounds"):
            await call(retriever, "invoke", "valve")


async def test_a_threshold_by_meaning_is_the_cosine(circle: SBERTVectorStore, call: Any) -> None:
    """The same number keeps the same texts in every search, and 0 is a number."""
    for threshold, kept in ((0.59, 2), (0, 3), (0.0, 3), (-0.5, 3), (-1.1, 4), (1.1, 0), (None, 4)):
        for method, query in _QUERIES:
            found = await call(circle, method, query, score_threshold=threshold)
            assert sorted(ids(found), key=_IDS.index) == _IDS[:kept]
    found = await call(circle, "similarity_search_with_score", "valve")
    assert [score for _, score in found] == pytest.approx([1, 0.6, 0, -1], abs=_CLOSE)
    assert {hit.score_kind for hit in circle.retriever.search("valve", mode="dense")} == {"cosine"}


async def test_generators(opened: _Open, call: Any) -> None:
    """Texts, metadata and ids out of generators are all stored, in more than one batch."""
    store = opened({"x": [1.0, 0.0]})
    names = [f"id {n}" for n in range(60)]
    texts, metadatas = (f"text {n}" for n in range(60)), ({"n": n} for n in range(60))
    given = await call(store, "add_texts", texts, metadatas, ids=iter(names), batch_size=25)
    assert given == names
    assert store.retriever.count() == 60
    last = Document("text 59", id="id 59", metadata={"n": 59})
    assert await call(store, "get_by_ids", ["id 59"]) == [last]
    assert len(await call(store, "add_texts", iter("ab"))) == 2
    assert store.retriever.count() == 62


async def test_unequal_lengths(opened: _Open, call: Any) -> None:
    """Another number of ids or metadata than of texts names both, and nothing is encoded."""
    store = opened({"x": [1.0, 0.0]})
    for metadatas, given, message in (
        (None, ["1"], "3 texts and 1 ids"),
        (None, list("1234"), "3 texts and 4 ids"),
        ([{}], None, "3 texts and 1 metadatas"),
        ([{}] * 4, None, "3 texts and 4 metadatas"),
    ):
        with pytest.raises(ValueError, match=message):
            await call(store, "add_texts", list("abc"), metadatas, ids=given)
    assert store.retriever.count() == 0
    assert store.embeddings.embedded == []  # type: ignore[attr-defined]  # the test's own


async def test_variety(opened: _Open, call: Any) -> None:
    """lambda_mult 1 looks at nearness only and 0 at variety only, whatever else is stored."""
    vectors = {
        "q": [1.0, 0.0, 0.0],
        "near1": [0.99, 0.1, 0.0],
        "near2": [0.99, 0.11, 0.0],
        "far": [0.2, 0.0, 0.98],
    }
    store = opened(vectors)
    texts = ["near1", "near2", "far"]
    store.add_texts(texts, ids=texts)
    for lambda_mult, chosen in ((1, ["near1", "near2"]), (0, ["near1", "far"])):
        asked = {"k": 2, "fetch_k": 3, "lambda_mult": lambda_mult}
        assert ids(await call(store, "max_marginal_relevance_search", "q", **asked)) == chosen
        by_vector = "max_marginal_relevance_search_by_vector"
        assert ids(await call(store, by_vector, [1, 0, 0], **asked)) == chosen
        retriever = store.as_retriever(search_type="mmr", search_kwargs=asked)
        assert ids(await call(retriever, "invoke", "q")) == chosen
        by_meaning = {"mode": "dense", "diversity": 1.0 - lambda_mult}
        found = await call(store.retriever, "search", "q", 2, **by_meaning)
        assert ids(found) == chosen


@pytest.mark.filterwarnings("ignore:Using SHA-1:UserWarning")
async def test_langchains_indexing(opened: _Open, call: Any) -> None:
    """Every key encoder's ids are taken; a second run skips all; a gone source's texts go."""
    store = opened({"x": [1.0, 0.0]})
    one = [Document(text, metadata={"source": "one"}) for text in "ab"]
    two = [Document("c", metadata={"source": "two"})]
    for encoder in ("sha1", "sha256", "sha512", "blake2b"):
        records = indexing.InMemoryRecordManager(encoder)
        records.create_schema()
        settings = {"source_id_key": "source", "key_encoder": encoder}
        for documents, cleanup, expected in (
            (one + two, "incremental", (3, 0, 0)),
            (one + two, "incremental", (0, 3, 0)),
            (one, "full", (0, 2, 1)),
            ([], "full", (0, 0, 2)),
        ):
            done = await call(
                indexing, "index", documents, records, store, cleanup=cleanup, **settings
            )
            counts = tuple(done[f"num_{name}"] for name in ("added", "skipped", "deleted"))
            assert counts == expected
        assert store.retriever.count() == 0


async def test_points_removed_behind_the_indexers_back(opened: _Open, call: Any) -> None:
    """What the collection lost is added again, since the collection itself is asked."""
    store = opened(_CIRCLE)
    core = store.retriever
    passages = [Passage(name, text) for name, text in _TEXTS.items()]
    assert (await call(core, "index", passages)).added == 4
    points = [core.store.point_id(passage.id) for passage in passages]
    name = core.store.collection_name
    core.store.connection.client.delete(collection_name=name, points_selector=points)
    assert await call(core, "count") == 0
    assert (await call(core, "index", passages)).added == 4
    assert await call(core, "get", _IDS) == passages
    assert ids(await call(core, "search", "valve", 1, mode="dense")) == ["same"]
    if has_words(store):
        assert ids(await call(core, "search", "valve", mode="sparse")) == ["against"]


async def test_documents_come_back_as_they_went_in(opened: _Open, call: Any) -> None:
    """The id is the one that adding returned, the metadata as given, and adding anew is no work."""
    store = opened({"pump": [1.0, 0.0]})
    metadata = {"source": "a.md", "n": 1, "tags": ["x", {"deep": None}], "ratio": 1 / 3, "_id": 7}
    (name,) = await call(store, "add_texts", ["pump"], [metadata])
    expected = [Document("pump", id=name, metadata=metadata)]
    assert await call(store, "get_by_ids", [name]) == expected
    for method, _ in _QUERIES:
        query = [1.0, 0.0] if method.endswith("by_vector") else "pump"
        (found,) = await call(store, method, query)
        assert (found[0] if isinstance(found, tuple) else found) == expected[0]
    for mode in ("hybrid", "sparse") if has_words(store) else ():
        assert await call(store, "similarity_search", "pump", mode=mode) == expected
    assert await call(store, "add_documents", expected) == [name]
    assert await call(store, "similarity_search", "pump") == expected
    assert store.retriever.count() == 1
    assert store.embeddings.embedded == ["pump"]  # type: ignore[attr-defined]  # the test's own


async def test_ids(opened: _Open, call: Any) -> None:
    """Any non-empty string is an id and comes back unchanged; what is none is refused by name."""
    names = ["./data/a.txt_1", "doc-1", "1", "x" * 10_000, "日本語 ünï", "9f" * 16]
    names += ["B5E5C1F4-E0B9-4A6A-8F6F-0D8A7C3B2A19", "18446744073709551616"]
    # Each text points in a direction of its own.
    texts = [f"text {letter}" for letter in "abcdefgh"]
    angles = [n / 4 for n in range(len(names))]
    vectors = {t: [math.cos(a), math.sin(a)] for t, a in zip(texts, angles, strict=True)}
    store = opened(vectors)
    assert await call(store, "add_texts", texts, ids=names) == names
    assert ids(await call(store, "get_by_ids", names[::-1])) == names[::-1]
    for name, text in zip(names, texts, strict=True):
        assert ids(await call(store, "similarity_search", text, 1)) == [name]
    for wrong in (0, 2**64 - 1, -1, 2**64, True):
        for method in ("get_by_ids", "delete"):
            with pytest.raises(InputTypeError, match="expected a string"):
                await call(store, method, [wrong])
        with pytest.raises(InputTypeError, match=r"ids\[0\]"):
            await call(store, "add_texts", ["text"], ids=[wrong])
    with pytest.raises(InputError, match="empty"):
        await call(store, "add_texts", ["text"], ids=[""])
    assert await call(store, "delete", names[1:])
    assert ids(await call(store, "similarity_search", texts[3])) == names[:1]


async def test_filters(circle: SBERTVectorStore, call: Any) -> None:
    """Every search takes a dict with or without the prefix, and refuses an argument it has not."""
    searches = [(method, query, {}) for method, query in _QUERIES]
    for mode in ("hybrid", "sparse") if has_words(circle) else ():
        searches.append(("similarity_search", "valve", {"mode": mode}))
    for method, query, more in searches:
        # By words there is nothing to find but this one.
        by_words = more.get("mode") == "sparse"
        lang, names = ("fr", {"against"}) if by_words else ("en", {"same", "beside"})
        for key in ("lang", "metadata.lang"):
            found = await call(circle, method, query, filter={key: lang}, **more)
            assert set(ids(found)) == names
        with pytest.raises(TypeError, match="filters"):
            await call(circle, method, query, filters={"lang": "en"}, **more)
        with pytest.warns(UnknownFieldWarning, match="'langauge'") as warned:
            assert await call(circle, method, query, filter={"langauge": "en"}, **more) == []
        assert len(warned) == 1


async def test_deleting_without_a_condition(circle: SBERTVectorStore, call: Any) -> None:
    """An empty filter, or ids that are None, delete nothing; deleting all has a name of its own."""
    for arguments in ({}, {"ids": None}, {"filter": {}}, {"filter": models.Filter(must=[])}):
        with pytest.raises(InputError, match="delete_all"):
            await call(circle, "delete", **arguments)
    assert circle.retriever.count() == 4
    assert await call(circle, "delete", filter={"lang": "de"}) is True
    assert await call(circle, "delete_all") == 3
    assert circle.retriever.count() == 0
    assert await call(circle, "similarity_search", "valve") == []
    if has_words(circle):
        assert await call(circle.retriever, "search", "valve") == []


async def test_the_calls_k_wins(circle: SBERTVectorStore, call: Any) -> None:
    """k=3 given to the constructor gives three, k=1 given to the call gives one."""
    kinds = ["similarity", "mmr", *(["hybrid"] if has_words(circle) else [])]
    for search_type in kinds:
        retriever = circle.as_retriever(k=3, search_type=search_type)
        assert len(await call(retriever, "invoke", "valve")) == 3
        assert len(await call(retriever, "invoke", "valve", k=1)) == 1


async def test_vectors_that_would_be_lost(opened: _Open, call: Any) -> None:
    """Of three texts one has NaN, infinity or no direction: it is named and nothing is written."""
    store = opened({"a": [1.0, 0.0], "b": [0.0, 1.0], "c": [0.6, 0.8]})
    for bad in ([math.nan, 0.0], [math.inf, 0.0], [0.0, 0.0]):
        store.embeddings.table["b"] = bad  # type: ignore[attr-defined]  # the test's own
        with pytest.raises(InputError, match="'two'"):
            await call(store, "add_texts", list("abc"), ids=["one", "two", "three"])
        assert store.retriever.count() == 0
    await call(store, "add_texts", list("ac"), ids=["one", "three"])
    for name, vector in (("one", [1.0, 0.0]), ("three", [0.6, 0.8])):
        assert ids(await call(store, "similarity_search_by_vector", vector, k=1)) == [name]
