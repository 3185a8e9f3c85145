"""`SBERTRetriever`: what it honours, what it refuses, and how it is opened."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from langchain_core.documents import Document
from langchain_core.runnables import ConfigurableField, RunnableLambda
from langchain_core.vectorstores import VectorStoreRetriever
from langchain_sbert import SBERTEmbeddings, SBERTRetriever, SBERTVectorStore
from pydantic import ValidationError
from qdrant_client import QdrantClient, models

from sbert_retriever import Passage, Retriever
from sbert_retriever.errors import (
    CollectionNotFoundError,
    ContractError,
    InputError,
    InputTypeError,
    StoreClosedError,
    StoreUnavailableError,
)
from sbert_retriever.index.storage import Storage


@pytest.fixture
def store(place: dict[str, Any], table: Any) -> Iterator[SBERTVectorStore]:
    texts = [f"text {n}" for n in range(6)]
    vectors = {text: [1.0, n / 10] for n, text in enumerate(texts)} | {"q": [1.0, 0.0]}
    with SBERTVectorStore.from_texts(texts, table(vectors), ids=texts, **place) as made:
        yield made


async def test_the_constructors_k_holds_and_the_calls_wins(
    store: SBERTVectorStore, call: Any
) -> None:
    """k=3 given to the constructor gives 3, and k=1 given to the call gives 1, however built."""
    for retriever in (
        SBERTRetriever(vectorstore=store, k=3),
        SBERTRetriever(vectorstore=store, search_kwargs={"k": 3}),
        store.as_retriever(k=3),
        store.as_retriever(search_kwargs={"k": 3}),
        store.as_retriever(k=3, search_type="mmr"),
        store.as_retriever(
            k=3, search_type="similarity_score_threshold", search_kwargs={"score_threshold": 0.1}
        ),
    ):
        assert len(await call(retriever, "invoke", "q")) == 3
        assert len(await call(retriever, "invoke", "q", k=1)) == 1
        assert len(await call(retriever, "invoke", "q", k=None)) == 3
        assert [len(found) for found in await call(retriever, "batch", ["q", "q"])] == [3, 3]
    assert len(await call(store.as_retriever(), "invoke", "q")) == 4


async def test_the_call_wins_for_each_argument(store: SBERTVectorStore, call: Any) -> None:
    retriever = store.as_retriever(score_threshold=0.999, search_kwargs={"exact": True})
    # The cosine with (1, n/10) is 1, 0.995, 0.981, ...
    assert [d.id for d in await call(retriever, "invoke", "q")] == ["text 0"]
    found = await call(retriever, "invoke", "q", score_threshold=0.99)
    assert [d.id for d in found] == ["text 0", "text 1"]
    assert len(await call(retriever, "invoke", "q", score_threshold=0.0)) == 4


async def test_arguments_changed_after_construction_count(
    store: SBERTVectorStore, call: Any
) -> None:
    retriever = store.as_retriever()
    retriever.k = 2
    assert len(await call(retriever, "invoke", "q")) == 2
    retriever.search_kwargs["k"] = 5
    assert len(await call(retriever, "invoke", "q")) == 5


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"top_k": 3}, "top_k"),
        ({"k": 0}, "k"),
        ({"k": "3"}, "k"),
        ({"search_type": "nearest"}, "search_type is 'nearest'"),
        ({"search_type": "similarity_score_threshold"}, "needs a score_threshold"),
        ({"k": 3, "search_kwargs": {"k": 2}}, "k is 3, and in search_kwargs 2"),
    ],
)
def test_what_the_constructor_refuses(table: Any, fields: dict[str, Any], message: str) -> None:
    with SBERTVectorStore(table({"x": [1.0, 0.0]})) as store:
        with pytest.raises(ValidationError, match=message):
            SBERTRetriever(vectorstore=store, **fields)
        with pytest.raises(ValueError, match=message):
            store.as_retriever(**fields)


async def test_unknown_arguments_are_errors(store: SBERTVectorStore, call: Any) -> None:
    """A misspelt argument is an error in search_kwargs and in the call, never ignored."""
    with pytest.raises(InputTypeError, match="'filters' is not an argument"):
        store.as_retriever(search_kwargs={"filters": {}})
    with pytest.raises(InputTypeError, match="'fetch_k' is not an argument of a similarity search"):
        store.as_retriever(search_kwargs={"fetch_k": 3})
    with pytest.raises(TypeError, match="'top_k' is not an argument"):
        await call(store.as_retriever(), "invoke", "q", top_k=1)
    with pytest.raises(TypeError, match="'lambda_mult' is not an argument"):
        await call(store.as_retriever(), "invoke", "q", lambda_mult=1)


async def test_it_adds_documents(store: SBERTVectorStore, call: Any) -> None:
    retriever = store.as_retriever()
    assert isinstance(retriever, VectorStoreRetriever)
    assert await call(retriever, "add_documents", [Document("new", id="new")]) == ["new"]
    assert store.retriever.count() == 7


async def test_it_composes(store: SBERTVectorStore, call: Any) -> None:
    chain = store.as_retriever(k=2) | RunnableLambda(len)
    assert await call(chain, "invoke", "q") == 2
    configurable = store.as_retriever(search_kwargs={"k": 2}).configurable_fields(
        k=ConfigurableField(id="k")
    )
    assert len(await call(configurable, "invoke", "q")) == 2
    wide = configurable.with_config(configurable={"k": 5})
    assert len(await call(wide, "invoke", "q")) == 5


def test_its_tags_name_store_and_embeddings(store: SBERTVectorStore) -> None:
    assert store.as_retriever().tags == ["SBERTVectorStore", "TableEmbeddings"]
    assert store.as_retriever(tags=["mine"]).tags == ["mine"]


_TEXTS = [Document("Cats purr.", id="cat"), Document("Trains run on rails.", id="train")]


async def test_open_makes_and_reopens(tmp_path: Path, call: Any) -> None:
    """Opened again without a model, a collection is searched with the one that made it."""
    with SBERTRetriever.open(tmp_path, model="all-MiniLM-L6-v2", k=1, device="cpu") as retriever:
        await call(retriever, "add_documents", _TEXTS)
        assert [d.id for d in await call(retriever, "invoke", "an animal")] == ["cat"]
    with SBERTRetriever.open(tmp_path, k=1, device="cpu") as retriever:
        assert [d.id for d in await call(retriever, "invoke", "an animal")] == ["cat"]
        embeddings = retriever.vectorstore.embeddings
        assert len(embeddings.embed_query("x")) == len(embeddings.embed_documents(["x"])[0]) == 384
        assert embeddings.embed_documents([]) == []
    with pytest.raises(StoreClosedError):
        await call(retriever, "invoke", "an animal")


def test_open_refuses_another_model(
    tmp_path: Path, table: Any, minilm_embeddings: SBERTEmbeddings
) -> None:
    with SBERTRetriever.open(tmp_path, model=minilm_embeddings):
        pass
    with pytest.raises(ContractError, match="all-MiniLM-L6-v2"):
        SBERTRetriever.open(tmp_path, model=table({"x": [1.0, 0.0]}))


def test_open_finds_the_only_collection(tmp_path: Path, minilm_embeddings: Any) -> None:
    """What the command line or the core wrote under another name is found without naming it."""
    with Retriever.open(tmp_path, model=minilm_embeddings.encoder) as core:
        core.index([Passage("cat", "Cats purr.")])
    with SBERTRetriever.open(tmp_path, model=minilm_embeddings) as retriever:
        assert [d.id for d in retriever.invoke("an animal")] == ["cat"]
    with Retriever.open(tmp_path, model=minilm_embeddings.encoder, collection_name="more"):
        pass
    with pytest.raises(InputError, match="'default', 'more'"):
        SBERTRetriever.open(tmp_path)
    with SBERTRetriever.open(tmp_path, collection_name="default") as retriever:
        assert retriever.vectorstore.retriever.count() == 1


def test_open_prefers_the_stores_own_default(tmp_path: Path, table: Any) -> None:
    embedding = table({"x": [1.0, 0.0]})
    for name in ("docs", "more"):
        SBERTVectorStore(embedding, tmp_path, collection_name=name).close()
    with SBERTRetriever.open(tmp_path, model=embedding) as retriever:
        assert retriever.vectorstore.retriever.info().collection_name == "docs"


def test_open_takes_an_alias_for_a_collection(table: Any) -> None:
    """What a rebuild left beside the alias is the collection before, and what the alias means."""
    client = QdrantClient(":memory:")
    embedding = table({"x": [1.0, 0.0], "y": [0.0, 1.0]})
    for name, text in (("docs-1", "x"), ("docs-2", "y")):
        with SBERTVectorStore(embedding, client=client, collection_name=name) as store:
            store.add_texts([text])

    def opened() -> list[str]:
        with SBERTRetriever.open(client=client, model=embedding) as retriever:
            return [document.page_content for document in retriever.invoke("x", k=1)]

    with pytest.raises(InputError, match="'docs-1', 'docs-2'"):
        opened()
    _name(client, "docs-2", "docs")
    assert opened() == ["y"]
    client.delete_collection("docs-1")
    _name(client, "docs-2", "ours", instead_of="docs")
    assert opened() == ["y"]


def _name(client: QdrantClient, collection: str, alias: str, instead_of: str | None = None) -> None:
    created = models.CreateAlias(collection_name=collection, alias_name=alias)
    changes: list[Any] = [models.CreateAliasOperation(create_alias=created)]
    if instead_of is not None:
        dropped = models.DeleteAlias(alias_name=instead_of)
        changes.append(models.DeleteAliasOperation(delete_alias=dropped))
    client.update_collection_aliases(change_aliases_operations=changes)


def test_open_without_a_model_needs_a_collection(tmp_path: Path) -> None:
    with pytest.raises(CollectionNotFoundError, match="'docs'"):
        SBERTRetriever.open(tmp_path / "nothing")
    assert not (tmp_path / "nothing").exists()


def test_open_says_that_no_server_answers() -> None:
    """Looking for the collection's name must not let the client's own errors out."""
    with pytest.raises(StoreUnavailableError, match="cannot be reached"):
        SBERTRetriever.open("http://127.0.0.1:9")


def test_open_takes_a_client(table: Any) -> None:
    client = QdrantClient(":memory:")
    embedding = table({"x": [1.0, 0.0]})
    with SBERTRetriever.open(client=client, model=embedding, filter={"n": 1}) as retriever:
        retriever.add_documents([Document("x", id=str(n), metadata={"n": n}) for n in range(3)])
        assert [d.id for d in retriever.invoke("x")] == ["1"]
    assert client.count("docs").count == 3
    client.close()


def test_open_closes_what_it_opened_when_it_fails(tmp_path: Path, table: Any) -> None:
    embedding = table({"x": [1.0, 0.0]})
    with pytest.raises(ValidationError):
        SBERTRetriever.open(tmp_path, model=embedding, search_type="nearest")
    with SBERTRetriever.open(tmp_path, model=embedding) as retriever:
        assert retriever.invoke("x") == []


async def test_closing_for_an_event_loop(table: Any) -> None:
    async with SBERTRetriever.open(":memory:", model=table({"x": [1.0, 0.0]})) as retriever:
        assert await retriever.ainvoke("x") == []
    with pytest.raises(StoreClosedError):
        await retriever.ainvoke("x")


def test_a_store_closes_once_and_twice(tmp_path: Path, table: Any) -> None:
    store = SBERTVectorStore(table({"x": [1.0, 0.0]}), tmp_path)
    store.close()
    store.close()
    with pytest.raises(StoreClosedError):
        store.similarity_search("x")


class _Tokens:
    """One vector a word: its length, and 1; so that MaxSim prefers long words."""

    name = "lengths"

    def encode_tokens(self, texts: Any, *, role: str) -> Any:
        return [
            np.array([[len(word), 1.0] for word in text.split()], dtype=np.float32)
            for text in texts
        ]


def test_a_collection_is_made_as_the_core_makes_it(tmp_path: Path, table: Any) -> None:
    """What `Retriever.open` takes for a new collection, and for late interaction, is handed on."""
    embedding = table({"a": [1.0, 0.0], "ever so long": [0.9, 0.1], "q": [1.0, 0.0]})
    with SBERTRetriever.open(
        tmp_path,
        model=embedding,
        quantization="int8",
        storage=Storage(datatype="float16", on_disk=True),
        filterable={"year": "integer"},
        late_encoder=_Tokens(),
    ) as retriever:
        retriever.add_documents([Document(page_content=t) for t in ("a", "ever so long")])
        core = retriever.vectorstore.retriever
        assert (core.info().quantized, core.store.shape.storage.datatype) == (True, "float16")
        assert core.store.shape.storage.on_disk is True
        assert core.info().filterable["metadata.year"] == "integer"
        # By the vectors "a" is first; by its words the long one is.
        assert [d.page_content for d in retriever.invoke("q")] == ["ever so long", "a"]
    with SBERTVectorStore(embedding, tmp_path, late_encoder=_Tokens()) as store:
        assert [d.page_content for d in store.similarity_search("q")] == ["ever so long", "a"]
    with SBERTVectorStore(embedding, tmp_path) as store:
        assert [d.page_content for d in store.similarity_search("q")] == ["a", "ever so long"]
