"""Collections that langchain-qdrant wrote, opened where they are and moved over."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_qdrant import QdrantVectorStore
from langchain_sbert import SBERTVectorStore
from qdrant_client import QdrantClient, models

from sbert_retriever.errors import CollectionNotFoundError, InputError, StoreRequestError

EMBEDDING = DeterministicFakeEmbedding(size=8)
DOCUMENTS = [
    Document("cats", id="0b1f6a3e-94a1-4f5e-8a37-7d3a1f6c2b11", metadata={"source": "a", "n": 1}),
    Document("dogs", id="1b1f6a3e-94a1-4f5e-8a37-7d3a1f6c2b12", metadata={"source": "b", "n": 2}),
    Document("trains", id="2b1f6a3e-94a1-4f5e-8a37-7d3a1f6c2b13", metadata={}),
]


@pytest.fixture
def client() -> Iterator[QdrantClient]:
    made = QdrantClient(":memory:")
    yield made
    made.close()


def _written(client: QdrantClient, *, vector_name: str = "", **keys: str) -> QdrantVectorStore:
    params = models.VectorParams(size=8, distance=models.Distance.COSINE)
    config: Any = {vector_name: params} if vector_name else params
    client.create_collection("theirs", vectors_config=config)
    store = QdrantVectorStore(
        client=client,
        collection_name="theirs",
        embedding=EMBEDDING,
        vector_name=vector_name,
        **keys,
    )
    store.add_documents(DOCUMENTS)
    return store


def _opened(client: QdrantClient, **settings: str) -> SBERTVectorStore:
    return SBERTVectorStore.from_existing_collection(
        EMBEDDING, client=client, collection_name="theirs", **settings
    )


def test_an_id_of_very_many_digits(client: QdrantClient) -> None:
    """Any string is an id, one that Python would not read as a number too."""
    _written(client)
    with _opened(client) as store:
        assert store.add_texts(["zebras"], ids=["7" * 5000]) == ["7" * 5000]
        assert [d.page_content for d in store.get_by_ids(["7" * 5000])] == ["zebras"]


async def test_it_is_read_as_it_is(client: QdrantClient, call: Any) -> None:
    """Ids are the points' own, metadata has nothing injected, filters and variety work."""
    _written(client)
    with _opened(client) as store:
        assert await call(store, "similarity_search", "cats", k=1) == DOCUMENTS[:1]
        assert await call(store, "similarity_search", "cats", filter={"n": 2}) == DOCUMENTS[1:2]
        ids = [str(d.id) for d in DOCUMENTS]
        assert await call(store, "get_by_ids", ids) == DOCUMENTS
        found = await call(store, "max_marginal_relevance_search", "dogs", k=1)
        assert found == DOCUMENTS[1:2]
        assert sorted(store.iter_documents(), key=lambda d: str(d.id)) == DOCUMENTS


async def test_it_is_written_so_that_they_read_it(client: QdrantClient, call: Any) -> None:
    theirs = _written(client)
    with _opened(client) as store:
        added = Document("ships", id="any string", metadata={"n": 4})
        assert await call(store, "add_documents", [added]) == ["any string"]
        changed = DOCUMENTS[1].model_copy(update={"page_content": "wolves"})
        await call(store, "add_documents", [changed])
        await call(store, "delete", [str(DOCUMENTS[0].id)])
        assert await call(store, "similarity_search", "ships", k=1) == [added]
    assert client.count("theirs").count == 3
    (found,) = theirs.similarity_search("wolves", k=1)
    assert (found.page_content, found.metadata["n"]) == ("wolves", 2)


def test_names_other_than_the_defaults(client: QdrantClient) -> None:
    keys = {"content_payload_key": "body", "metadata_payload_key": "about"}
    _written(client, vector_name="fast", **keys)
    with _opened(client, vector_name="fast", **keys) as store:
        assert store.similarity_search("cats", k=1, filter={"n": 1}) == DOCUMENTS[:1]
        assert store.similarity_search("cats", k=1, filter={"about.n": 1}) == DOCUMENTS[:1]
    with pytest.raises(InputError, match="no vector 'slow'"):
        _opened(client, vector_name="slow")
    with (
        _opened(client, vector_name="fast") as store,
        pytest.raises(StoreRequestError, match="content_payload_key"),
    ):
        store.similarity_search("cats")


@pytest.mark.parametrize("name", ["content_payload_key", "metadata_payload_key"])
def test_a_payload_key_is_not_empty(client: QdrantClient, name: str) -> None:
    """Filters worked on the payload itself, while the documents came without metadata."""
    _written(client)
    with pytest.raises(InputError, match="is empty, expected the name of the field"):
        _opened(client, **{name: ""})


def test_it_must_be_there(client: QdrantClient) -> None:
    with pytest.raises(CollectionNotFoundError, match="'theirs'"):
        _opened(client)
    assert client.get_collections().collections == []


def test_the_width_must_fit(client: QdrantClient) -> None:
    _written(client)
    with pytest.raises(InputError, match="16 dimensions"):
        SBERTVectorStore.from_existing_collection(
            DeterministicFakeEmbedding(size=16), client=client, collection_name="theirs"
        )


async def test_moving_over(client: QdrantClient, tmp_path: Path, call: Any) -> None:
    """Moved into our own layout, nothing changes, and documents can be deleted by source."""
    _written(client)
    with _opened(client) as old, SBERTVectorStore(EMBEDDING, tmp_path) as new:
        await call(new, "add_documents", old.iter_documents())
        assert sorted(new.iter_documents(), key=lambda d: str(d.id)) == DOCUMENTS
        assert [d.id async for d in new.aiter_documents(filter={"n": 1})] == [DOCUMENTS[0].id]
        await call(new, "delete", source="a")
        assert new.retriever.count() == 2
