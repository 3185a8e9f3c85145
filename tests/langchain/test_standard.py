"""LangChain's own standard suites, in each mode, whole."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.retrievers import BaseRetriever
from langchain_core.vectorstores import VectorStore
from langchain_sbert import SBERTEmbeddings, SBERTRetriever, SBERTVectorStore
from langchain_tests.integration_tests import (
    EmbeddingsIntegrationTests,
    RetrieversIntegrationTests,
    VectorStoreIntegrationTests,
)
from langchain_tests.unit_tests import EmbeddingsUnitTests


class TestVectorStore(VectorStoreIntegrationTests):
    @pytest.fixture
    def vectorstore(self, place: dict[str, Any]) -> Iterator[VectorStore]:
        with SBERTVectorStore(self.get_embeddings(), **place) as store:
            yield store


class TestHybridStore(TestVectorStore):
    """The same over collections that keep words beside meanings."""

    @pytest.fixture
    def vectorstore(self, place: dict[str, Any]) -> Iterator[VectorStore]:
        with SBERTVectorStore(self.get_embeddings(), **{**place, "sparse": "bm25"}) as store:
            yield store


class TestTenantsStore(TestVectorStore):
    """The same for one tenant, beside another's documents."""

    @pytest.fixture
    def vectorstore(self, place: dict[str, Any]) -> Iterator[VectorStore]:
        if "tenant" in place:
            pytest.skip("is bound to a tenant already")
        embeddings = self.get_embeddings()
        with SBERTVectorStore(embeddings, **place) as whole:
            theirs, ours = (
                SBERTVectorStore.from_retriever(whole.retriever.with_tenant(name), embeddings)
                for name in ("them", "us")
            )
            theirs.add_texts(["foo", "bar"], ids=["1", "2"])
            yield ours
            assert theirs.retriever.count() == 2


class TestRetriever(RetrieversIntegrationTests):
    @pytest.fixture(autouse=True)
    def _stored(self, place: dict[str, Any]) -> Iterator[None]:
        embedding = VectorStoreIntegrationTests.get_embeddings()
        documents = [Document(f"text {n}") for n in range(5)]
        with SBERTVectorStore.from_documents(documents, embedding, **place) as self.store:
            yield

    @property
    def retriever_constructor(self) -> type[BaseRetriever]:
        return SBERTRetriever

    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        return {"vectorstore": self.store}

    @property
    def retriever_query_example(self) -> str:
        return "text"


class TestEmbeddingsUnit(EmbeddingsUnitTests):
    @property
    def embeddings_class(self) -> type[Embeddings]:
        return SBERTEmbeddings

    @property
    def embedding_model_params(self) -> dict[str, Any]:
        return {"model": "all-MiniLM-L6-v2", "device": "cpu"}


class TestEmbeddingsIntegration(EmbeddingsIntegrationTests):
    @property
    def embeddings_class(self) -> type[Embeddings]:
        return SBERTEmbeddings

    @property
    def embedding_model_params(self) -> dict[str, Any]:
        return {"model": "all-MiniLM-L6-v2", "device": "cpu"}
