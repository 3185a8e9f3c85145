"""`SBERTVectorStore`: LangChain's vector store over any Qdrant engine."""

# LangChain's methods take any keyword and drop what they do not know. Ours name each keyword, so
# that a misspelt one is an error, which to mypy is an incompatible override.
# mypy: disable-error-code="override"

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from os import PathLike
from typing import TYPE_CHECKING, Any, Self

from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from qdrant_client import models

from langchain_sbert._adapters import EncoderEmbeddings, encoder_of
from langchain_sbert._reading import ReadingStore
from langchain_sbert._writing import WritingStore
from sbert_retriever import Retriever
from sbert_retriever.closing import Closing
from sbert_retriever.index.points import Layout
from sbert_retriever.index.storage import Quantization, Storage
from sbert_retriever.search.second_stage import LateSpec
from sbert_retriever.sparse import SparseSpec

if TYPE_CHECKING:
    from qdrant_client import AsyncQdrantClient, QdrantClient

    from langchain_sbert.retriever import SBERTRetriever


class SBERTVectorStore(Closing, WritingStore, ReadingStore):
    """Documents and their vectors in a folder, in memory, or on a Qdrant server.

    Each search takes, as keywords: `filter` (on metadata, a dict such as {"lang": "en", "year":
    {"gte": 2020}} or a `models.Filter`), `score_threshold` (hits whose score is below are left
    out), `expand` and `window` (the text around a chunk), `exact` and `ef`, and those by text also
    `mode`, `fusion` and what a reranker is asked for; they are those of
    `sbert_retriever.Retriever.search`, but that `mode` is "dense" where none is named. A
    keyword that no search knows is a TypeError.

    Document ids come back as the exact strings that `add_documents` returned, and metadata as it
    was given, with nothing added. Each method has its asynchronous twin, which does not block the
    event loop: the model works in a thread, and a server is asked natively.

    Args:
        embedding: Any LangChain embeddings. A collection remembers which ones made it, and
            refuses others.
        location: A folder, ":memory:" (a private temporary folder, removed on close), or a URL.
            None is ":memory:" where no client is given.
        late_encoder: Token vectors for late interaction: a ColBERT checkpoint's folder or hub id,
            or any object with `encode_tokens(texts, role=)`. The best documents of a search by text
            are put in order by them; not by "mmr".
        sparse: "bm25" keeps words beside meanings in a collection that is made, for
            `search_type="hybrid"`; also a SPLADE model's name, or any `SparseEncoder`.
        quantization: "int8", "turbo", "product" or "binary": a collection that is made searches
            small copies of its vectors first.
        storage: How a collection that is made keeps its vectors.
        collection_name: Which collection at that location; made when it is not there.
        tenant: Whose documents alone this store sees, adds and deletes; several tenants share a
            collection and know nothing of each other.
        client: Any QdrantClient, used instead of a location and left open by `close`.
        async_client: Its asynchronous twin; without it, asynchronous calls go through a thread.
        api_key: For a URL; None reads QDRANT_API_KEY.
        filterable: Metadata fields to index for filtering when the collection is made:
            {"lang": "keyword", "year": "integer"}.
        timeout_s: Seconds a request to a server may take.
        prefer_grpc: Talk to a server over gRPC.
        grpc_port: With `prefer_grpc`, the server's port for it; None is 6334.

    Raises:
        ContractError: The collection was built with other embeddings.
        StoreLockedError: Another process holds the folder.
    """

    def __init__(
        self,
        embedding: Embeddings,
        location: str | PathLike[str] | None = None,
        *,
        late_encoder: LateSpec | None = None,
        sparse: SparseSpec | None = None,
        quantization: Quantization | models.QuantizationConfig | None = None,
        storage: Storage | None = None,
        collection_name: str = "docs",
        tenant: str | None = None,
        client: QdrantClient | None = None,
        async_client: AsyncQdrantClient | None = None,
        api_key: str | None = None,
        filterable: Mapping[str, str] | None = None,
        timeout_s: int | None = None,
        prefer_grpc: bool = False,
        grpc_port: int | None = None,
    ) -> None:
        self._embedding = embedding
        self._retriever = Retriever.open(
            ":memory:" if location is None and client is None else location,
            model=encoder_of(embedding),
            late_encoder=late_encoder,
            sparse=sparse,
            quantization=quantization,
            storage=storage,
            collection_name=collection_name,
            tenant=tenant,
            client=client,
            async_client=async_client,
            api_key=api_key,
            filterable=filterable,
            timeout_s=timeout_s,
            prefer_grpc=prefer_grpc,
            grpc_port=grpc_port,
        )

    @classmethod
    def from_retriever(cls, retriever: Retriever, embedding: Embeddings | None = None) -> Self:
        """A vector store over a core retriever that is already open; `close` closes it.

        Args:
            retriever: The core's.
            embedding: What `embeddings` hands out; None is the retriever's own model.
        """
        store = cls.__new__(cls)
        store._retriever = retriever
        store._embedding = embedding or EncoderEmbeddings(lambda: retriever.encoder)
        return store

    @classmethod
    def from_existing_collection(
        cls,
        embedding: Embeddings,
        location: str | PathLike[str] | None = None,
        *,
        collection_name: str,
        client: QdrantClient | None = None,
        async_client: AsyncQdrantClient | None = None,
        api_key: str | None = None,
        vector_name: str = "",
        content_payload_key: str = "page_content",
        metadata_payload_key: str = "metadata",
        timeout_s: int | None = None,
        prefer_grpc: bool = False,
        grpc_port: int | None = None,
    ) -> Self:
        """Open a collection that langchain-qdrant, or another program, wrote.

        Its points stay where they are; searching, reading, adding and deleting work on them.

        Args:
            embedding: What made its vectors; only their width can be checked.
            location: As for the constructor.
            collection_name: Which collection; it must be there.
            client: As for the constructor.
            async_client: As for the constructor.
            api_key: As for the constructor.
            vector_name: The dense vector's name; "" is the unnamed one.
            content_payload_key: Payload key of the text.
            metadata_payload_key: Payload key of the metadata.
            timeout_s: As for the constructor.
            prefer_grpc: As for the constructor.
            grpc_port: As for the constructor.

        Raises:
            CollectionNotFoundError: There is no such collection.
            InputError: The embeddings' vectors have another width, or no vector has that name.
        """
        retriever = Retriever.open(
            location,
            model=encoder_of(embedding),
            collection_name=collection_name,
            client=client,
            async_client=async_client,
            api_key=api_key,
            layout=Layout(
                vector_name=vector_name,
                text_key=content_payload_key,
                metadata_key=metadata_payload_key,
                foreign=True,
            ),
            create=False,
            timeout_s=timeout_s,
            prefer_grpc=prefer_grpc,
            grpc_port=grpc_port,
        )
        return cls.from_retriever(retriever, embedding)

    @classmethod
    def from_texts(
        cls,
        texts: Iterable[str],
        embedding: Embeddings,
        metadatas: Iterable[Mapping[str, Any] | None] | None = None,
        *,
        ids: Iterable[str | None] | None = None,
        **settings: Any,
    ) -> Self:
        """Open a collection and add texts.

        Args:
            texts: As for `add_texts`.
            embedding: As for the constructor.
            metadatas: As for `add_texts`.
            ids: As for `add_texts`.
            **settings: The constructor's other arguments.
        """
        store = cls(embedding, **settings)
        try:
            store.add_texts(texts, metadatas, ids=ids)
        except BaseException:
            store.close()
            raise
        return store

    @classmethod
    async def afrom_texts(
        cls,
        texts: Iterable[str],
        embedding: Embeddings,
        metadatas: Iterable[Mapping[str, Any] | None] | None = None,
        *,
        ids: Iterable[str | None] | None = None,
        **settings: Any,
    ) -> Self:
        """`from_texts` for an event loop."""
        store = await asyncio.to_thread(cls, embedding, **settings)
        try:
            await store.aadd_texts(texts, metadatas, ids=ids)
        except BaseException:
            await store.aclose()
            raise
        return store

    @classmethod
    def from_documents(
        cls,
        documents: Iterable[Document],
        embedding: Embeddings,
        *,
        ids: Iterable[str | None] | None = None,
        **settings: Any,
    ) -> Self:
        """Open a collection and add documents.

        Args:
            documents: As for `add_documents`.
            embedding: As for the constructor.
            ids: As for `add_documents`.
            **settings: The constructor's other arguments.
        """
        store = cls(embedding, **settings)
        try:
            store.add_documents(documents, ids=ids)
        except BaseException:
            store.close()
            raise
        return store

    @classmethod
    async def afrom_documents(
        cls,
        documents: Iterable[Document],
        embedding: Embeddings,
        *,
        ids: Iterable[str | None] | None = None,
        **settings: Any,
    ) -> Self:
        """`from_documents` for an event loop."""
        store = await asyncio.to_thread(cls, embedding, **settings)
        try:
            await store.aadd_documents(documents, ids=ids)
        except BaseException:
            await store.aclose()
            raise
        return store

    # Life -------------------------------------------------------------------------------

    @property
    def embeddings(self) -> Embeddings:
        """What encodes its documents and queries."""
        return self._embedding

    @property
    def retriever(self) -> Retriever:
        """The core's retriever underneath, for what LangChain has no name for."""
        return self._retriever

    def as_retriever(self, **settings: Any) -> SBERTRetriever:
        """A retriever over this store.

        Args:
            **settings: Fields of `SBERTRetriever`: k, filter, score_threshold, search_type,
                search_kwargs, tags, metadata, name.

        Raises:
            ValidationError: A field is unknown or has an unusable value.
        """
        from langchain_sbert.retriever import SBERTRetriever

        settings.setdefault("tags", self._get_retriever_tags())
        return SBERTRetriever(vectorstore=self, **settings)

    def close(self) -> None:
        """Flush and let go of the location; a client that was handed in stays open.

        After asynchronous calls on a server, so does the client that was made for their event loop:
        `aclose` in that loop closes both.
        """
        self._retriever.close()

    async def aclose(self) -> None:
        """`close`, with the asynchronous client that was made for the running event loop."""
        await self._retriever.aclose()
