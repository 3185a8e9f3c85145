"""Adding, reading back and deleting, in each mode, synchronous and not."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_sbert import SBERTVectorStore

from sbert_retriever.errors import InputError, InputTypeError


async def test_generators_store_all_they_yield(letters: SBERTVectorStore, call: Any) -> None:
    """Two texts from a generator, with generated metadata and ids, are both stored."""
    ids = await call(
        letters,
        "add_texts",
        (text for text in ["a", "b"]),
        ({"n": n} for n in range(2)),
        ids=(name for name in ["one", "two"]),
    )
    assert ids == ["one", "two"]
    assert letters.retriever.count() == 2
    documents = (Document(text) for text in ["c", "d"])
    assert len(await call(letters, "add_documents", documents)) == 2
    assert letters.retriever.count() == 4


async def test_generators_longer_than_a_batch(letters: SBERTVectorStore, call: Any) -> None:
    """A generator of more texts than one batch holds loses none of them."""
    ids = await call(letters, "add_texts", (f"text {n}" for n in range(1100)), batch_size=500)
    assert len(set(ids)) == 1100
    assert letters.retriever.count() == 1100
    assert [d.page_content for d in letters.get_by_ids([ids[0], ids[1099]])] == [
        "text 0",
        "text 1099",
    ]


@pytest.mark.parametrize(
    ("metadatas", "ids", "message"),
    [
        (None, ["1"], "3 texts and 1 ids"),
        (None, ["1", "2", "3", "4"], "3 texts and 4 ids"),
        ([{}], None, "3 texts and 1 metadatas"),
        ([{}] * 4, None, "3 texts and 4 metadatas"),
        ([], None, "3 texts and 0 metadatas"),
        (None, [], "3 texts and 0 ids"),
    ],
)
async def test_unequal_lengths(
    place: dict[str, Any], call: Any, table: Any, metadatas: Any, ids: Any, message: str
) -> None:
    """Fewer or more ids or metadata than texts is an error naming both, before any work."""
    embedding = table({"x": [1.0, 0.0]})
    with SBERTVectorStore(embedding, **place) as store:
        with pytest.raises(ValueError, match=message):
            await call(store, "add_texts", ["a", "b", "c"], metadatas, ids=ids)
        assert store.retriever.count() == 0
    assert embedding.embedded == []


async def test_unequal_lengths_of_documents(letters: SBERTVectorStore, call: Any) -> None:
    """Three documents with one id are an error, not one document."""
    with pytest.raises(InputError, match="3 documents and 1 ids"):
        await call(letters, "add_documents", [Document("a")] * 3, ids=["1"])
    assert letters.retriever.count() == 0


async def test_what_was_added_comes_back_as_it_was(letters: SBERTVectorStore, call: Any) -> None:
    """Every way of reading gives the id that adding returned and the metadata that was given."""
    metadata = {"source": "a.md", "n": 1, "tags": ["x", {"deep": None}], "ratio": 1 / 3, "_id": 7}
    given = Document("x", metadata=copy.deepcopy(metadata))
    (name,) = await call(letters, "add_documents", [given])
    expected = [Document("x", id=name, metadata=metadata)]
    assert given == Document("x", metadata=metadata)
    assert await call(letters, "get_by_ids", [name]) == expected
    assert await call(letters, "similarity_search", "x") == expected
    assert await call(letters, "similarity_search_by_vector", [1, 0, 0]) == expected
    assert await call(letters, "max_marginal_relevance_search", "x") == expected
    by_vector = "max_marginal_relevance_search_by_vector"
    assert await call(letters, by_vector, [1, 0, 0]) == expected
    for method, argument in (
        ("similarity_search_with_score", "x"),
        ("similarity_search_with_score_by_vector", [1, 0, 0]),
        ("similarity_search_with_relevance_scores", "x"),
    ):
        ((document, score),) = await call(letters, method, argument)
        assert document == expected[0]
        assert score == pytest.approx(1)
    assert await call(letters.as_retriever(), "invoke", "x") == expected


async def test_adding_again_what_was_found_changes_nothing(
    place: dict[str, Any], call: Any, table: Any
) -> None:
    """Documents that a search found can be added again: same ids, same metadata, no new work."""
    embedding = table({"x": [1.0, 0.0], "y": [0.0, 1.0]})
    with SBERTVectorStore(embedding, **place) as store:
        ids = await call(store, "add_texts", ["x", "y"], [{"n": 1}, {"n": 2}])
        before = await call(store, "similarity_search", "x")
        assert await call(store, "add_documents", before) == ids
        assert await call(store, "similarity_search", "x") == before
        assert store.retriever.count() == 2
    assert embedding.embedded == ["x", "y"]


async def test_a_known_id_takes_the_new_content(letters: SBERTVectorStore, call: Any) -> None:
    await call(letters, "add_texts", ["old"], [{"n": 1}], ids=["1"])
    await call(letters, "add_texts", ["new"], [{"m": 2}], ids=["1"])
    assert letters.get_by_ids(["1"]) == [Document("new", id="1", metadata={"m": 2})]


async def test_one_id_for_two_different_texts(letters: SBERTVectorStore, call: Any) -> None:
    """An id that comes twice in one call with different content is refused, so none is lost."""
    with pytest.raises(InputError, match="positions 0 and 2"):
        await call(letters, "add_texts", ["a", "b", "c"], ids=["1", "2", "1"])
    assert letters.retriever.count() == 0
    assert await call(letters, "add_texts", ["a", "a"], ids=["1", "1"]) == ["1", "1"]
    assert letters.retriever.count() == 1


async def test_metadata_that_cannot_be_stored(letters: SBERTVectorStore, call: Any) -> None:
    """One bad value, far behind, is refused by key and id before anything is written."""
    texts = [f"text {n}" for n in range(1100)]
    metadatas: list[dict[str, Any]] = [{} for _ in texts]
    metadatas[-1] = {"weight": float("nan")}
    with pytest.raises(InputError, match=r"weight.*'last'"):
        await call(letters, "add_texts", texts, metadatas, ids=[*texts[:-1], "last"])
    assert letters.retriever.count() == 0


async def test_vectors_that_cannot_be_stored(place: dict[str, Any], call: Any, table: Any) -> None:
    """Of three texts one has a NaN vector: it is named, and none of the three is written."""
    embedding = table({"a": [1.0, 0.0], "b": [float("nan"), 0.0], "c": [0.0, 1.0]})
    with SBERTVectorStore(embedding, **place) as store:
        with pytest.raises(InputError, match=r"'two' \(NaN"):
            await call(store, "add_texts", ["a", "b", "c"], ids=["one", "two", "three"])
        assert store.retriever.count() == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ("a text", None),
        (["a", 1], None),
        (["a"], {"lang": "en"}),
        (["a"], [["lang"]]),
        (3, None),
    ],
)
async def test_wrong_types(letters: SBERTVectorStore, call: Any, arguments: Any) -> None:
    with pytest.raises(InputTypeError, match=r"texts|metadatas"):
        await call(letters, "add_texts", *arguments)
    with pytest.raises(InputTypeError, match="expected Document"):
        await call(letters, "add_documents", ["a text"])


async def test_unknown_arguments_of_writing(letters: SBERTVectorStore, call: Any) -> None:
    with pytest.raises(TypeError, match="metadata"):
        await call(letters, "add_texts", ["a"], metadata=[{}])
    with pytest.raises(TypeError, match="namespace"):
        await call(letters, "add_documents", [Document("a")], namespace="n")
    with pytest.raises(TypeError, match="namespace"):
        await call(letters, "delete", ["a"], namespace="n")


async def test_batch_size_is_checked(letters: SBERTVectorStore, call: Any) -> None:
    with pytest.raises(InputError, match="batch_size is 0"):
        await call(letters, "add_texts", ["a"], batch_size=0)


async def test_deleting_by_id(letters: SBERTVectorStore, call: Any) -> None:
    await call(letters, "add_texts", ["a", "b", "c"], ids=["1", "2", "3"])
    assert await call(letters, "delete", ["1", "never there"]) is True
    assert await call(letters, "delete", []) is True
    assert letters.retriever.count() == 2


async def test_deleting_everything_has_its_own_name(letters: SBERTVectorStore, call: Any) -> None:
    """An id list that is None, or a filter without a condition, never empties a store."""
    await call(letters, "add_texts", ["a", "b"])
    for arguments in ({}, {"ids": None}, {"filter": {}}):
        with pytest.raises(InputError, match="delete_all"):
            await call(letters, "delete", **arguments)
    assert letters.retriever.count() == 2
    assert await call(letters, "delete_all") == 2
    assert letters.retriever.count() == 0


async def test_deleting_by_filter_and_by_source(letters: SBERTVectorStore, call: Any) -> None:
    metadatas = [{"source": "a"}, {"source": "b"}, {"source": "b", "lang": "en"}, {"source": 3}]
    await call(letters, "add_texts", list("abcd"), metadatas, ids=list("1234"))
    await call(letters, "delete", filter={"lang": "en"})
    await call(letters, "delete", source="b")
    assert [d.id for d in letters.get_by_ids(list("1234"))] == ["1", "4"]
    assert letters.get_by_ids(["4"])[0].metadata == {"source": 3}


async def test_ids_of_any_shape(letters: SBERTVectorStore, call: Any) -> None:
    """Any non-empty string is an id, and comes back unchanged."""
    ids = ["./data/a.txt_1", "doc-1", "1", "ü" * 1000, "9F" * 16, "a b\n"]
    assert await call(letters, "add_texts", [f"text {i}" for i in range(6)], ids=ids) == ids
    assert [d.id for d in await call(letters, "get_by_ids", ids)] == ids
    await call(letters, "delete", ids)
    assert letters.retriever.count() == 0
    with pytest.raises(InputError, match="empty"):
        await call(letters, "add_texts", ["a"], ids=[""])


async def test_nothing_in_nothing_out(letters: SBERTVectorStore, call: Any) -> None:
    assert await call(letters, "add_texts", []) == []
    assert await call(letters, "add_documents", iter([])) == []
    assert await call(letters, "get_by_ids", []) == []
    assert await call(letters, "similarity_search", "x") == []
    assert await call(letters, "max_marginal_relevance_search", "x") == []


async def test_from_texts_and_documents(place: dict[str, Any], call: Any, table: Any) -> None:
    embedding = table({"x": [1.0, 0.0], "y": [0.0, 1.0]})

    def texts() -> Iterator[str]:
        yield from "xy"

    store = await call(
        SBERTVectorStore,
        "from_texts",
        texts(),
        embedding,
        [{"n": 1}, None],
        ids=["1", None],
        **place,
    )
    with store:
        found = await call(store, "similarity_search", "x", k=1)
        assert found == [Document("x", id="1", metadata={"n": 1})]
        assert store.retriever.count() == 2


async def test_from_documents_keeps_their_ids(place: dict[str, Any], call: Any, table: Any) -> None:
    embedding = table({"x": [1.0, 0.0]})
    documents = [Document("x", id="own"), Document("y", id="other")]
    store = await call(
        SBERTVectorStore, "from_documents", iter(documents), embedding, ids=["given", "2"], **place
    )
    with store:
        assert [d.id for d in store.similarity_search("x", k=1)] == ["given"]
    assert [d.id for d in documents] == ["own", "other"]


async def test_from_texts_refuses_unknown_arguments(call: Any, table: Any) -> None:
    with pytest.raises(TypeError, match="metric"):
        await call(SBERTVectorStore, "from_texts", ["x"], table({"x": [1.0]}), metric="l2")
