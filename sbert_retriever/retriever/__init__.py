"""`Retriever`: an encoder over a store. The front door of the core."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from os import PathLike
from typing import TYPE_CHECKING, Self

from qdrant_client import models

from sbert_retriever.errors import InputError
from sbert_retriever.index.connection import connect
from sbert_retriever.index.points import Layout
from sbert_retriever.index.steps import RetryPolicy
from sbert_retriever.index.storage import Quantization, Storage, joined
from sbert_retriever.index.store import PassageStore
from sbert_retriever.lazy_encoder import LazyEncoder
from sbert_retriever.opening import settle
from sbert_retriever.rerank.late import TokenEncoder
from sbert_retriever.retriever.reading import Reading
from sbert_retriever.retriever.searching import Searching
from sbert_retriever.retriever.writing import Writing
from sbert_retriever.search.second_stage import LateSpec, RerankerSpec, SecondStage
from sbert_retriever.sparse import SparseSpec, as_sparse_encoder, encoder_of_identity
from sbert_retriever.types import Encoder, Profile

if TYPE_CHECKING:
    from qdrant_client import AsyncQdrantClient, QdrantClient


class Retriever(Searching, Reading, Writing):
    """Index passages and search them by meaning. Make one with `Retriever.open`.

    Safe to use from many threads. Each method has an asynchronous twin whose name begins with
    "a": the model and an embedded engine then work in a thread, a server is asked natively.

    Args:
        store: The collection.
        encoder: Texts to vectors, loaded when first needed.
        second: The reranker, where there is one, and the collection's profile.
    """

    @classmethod
    def open(
        cls,
        location: str | PathLike[str] | None = None,
        *,
        model: str | PathLike[str] | Encoder | None = None,
        reranker: RerankerSpec | None = None,
        late_encoder: LateSpec | None = None,
        sparse: SparseSpec | None = None,
        quantization: Quantization | models.QuantizationConfig | None = None,
        storage: Storage | None = None,
        truncate_dim: int | None = None,
        collection_name: str = "default",
        tenant: str | None = None,
        device: str = "auto",
        dtype: str = "auto",
        api_key: str | None = None,
        client: QdrantClient | None = None,
        async_client: AsyncQdrantClient | None = None,
        filterable: Mapping[str, str] | None = None,
        layout: Layout | None = None,
        create: bool = True,
        timeout_s: int | None = None,
        prefer_grpc: bool = False,
        grpc_port: int | None = None,
        retry: RetryPolicy | None = None,
    ) -> Self:
        """Open a collection, or create it.

        Args:
            location: A folder, ":memory:" (a private temporary folder, removed on close), or a
                URL.
            model: A folder, a packaged name, a hub id, or any `Encoder`. None reopens with the
                model that the collection was built with, loaded at the first text to encode.
            reranker: The second stage: a cross-encoder's folder, packaged name or hub id, a
                `CrossEncoder`, a `Reranker`, or any `Scorer`. None loads the one that the
                collection's saved profile names, if it names one, at the first search.
            late_encoder: What gives token vectors for late interaction: a ColBERT checkpoint's
                folder or hub id, or any object with `encode_tokens(texts, role=)`. The best
                candidates are put in order by them, before any rerank: 50, or as many as a
                profile's `late` says. None loads the one that the collection's saved profile names;
                where it names none, late interaction takes the bi-encoder's own.
            sparse: "bm25" keeps words beside meanings: a collection that is created has sparse
                vectors too, and searches are hybrid. Also a SPLADE model's name, or any
                `SparseEncoder`. None creates none, and reopens with the collection's own.
            quantization: "int8", "turbo", "product" or "binary": a collection that is created
                searches small copies of its vectors first; the same as
                `storage=Storage(quantization=...)`.
            storage: How a collection that is created keeps its vectors.
            truncate_dim: For a model's name: how many numbers of each vector are kept, for models
                trained so (Matryoshka) and at some loss for others.
            collection_name: Which collection at that location.
            tenant: Whose passages alone this retriever sees, writes and deletes; several tenants
                share a collection and know nothing of each other. None is the whole collection.
            device: "auto", "cpu", "cuda", "cuda:1", "mps"; for all models.
            dtype: "auto", "float32", "bfloat16", "float16", "int8" (quick, on a CPU); for all.
            api_key: For a URL; None reads QDRANT_API_KEY.
            client: Any QdrantClient, used instead of a location and left open by `close`.
            async_client: Its asynchronous twin; without it, async calls go through a thread.
            filterable: Metadata fields to index for filtering when the collection is created:
                {"lang": "keyword", "year": "integer"}; the kinds are keyword, integer, float,
                bool, datetime, text, uuid and geo. A field should hold values of its kind only.
                For a collection that is there: `make_filterable`.
            layout: Where the points keep what, for a collection that another program made.
            create: Whether to create a collection that is not there, when a model is given.
            timeout_s: Seconds a request to a server may take.
            prefer_grpc: Talk to a server over gRPC.
            grpc_port: With `prefer_grpc`, the server's port for it; None is 6334.
            retry: How long a call that failed in passing is tried again.

        Raises:
            CollectionNotFoundError: There is no such collection, and no model to create it with
                or no leave to.
            ContractError: It was built with another model.
            InputError: The location, or a kind of `filterable`, has no known form; or token
                vectors are to be kept and are not the bi-encoder's.
            ModelFormatError: The files of a model are of another kind of model.
            ModelNotFoundError: Nothing holds a model of that name.
            StoreLockedError: Another process holds the folder.
            StoreRequestError: The server refuses the request, for want of a key perhaps.
            StoreUnavailableError: No server answered within a few seconds.
        """
        encoder = LazyEncoder(model, device=device, dtype=dtype, truncate_dim=truncate_dim)
        second = SecondStage(reranker, device=device, dtype=dtype, late=late_encoder)
        kept = joined(storage, quantization)
        if kept.tokens and late_encoder is not None:
            raise InputError(
                "storage.tokens keeps the token vectors of the bi-encoder, and late_encoder's are "
                "made for the candidates of each query: give one of them"
            )
        words = None if sparse is None else as_sparse_encoder(sparse, device=device, dtype=dtype)
        connection = connect(
            location,
            client=client,
            async_client=async_client,
            api_key=api_key,
            timeout_s=timeout_s,
            prefer_grpc=prefer_grpc,
            grpc_port=grpc_port,
            retry=retry,
        )
        try:
            store = PassageStore(connection, collection_name, layout, tenant=tenant)
            store.make_sparse = partial(encoder_of_identity, device=device, dtype=dtype)
            metadata = settle(
                store,
                encoder,
                sparse=words,
                storage=kept,
                filterable=filterable or {},
                create=create,
            )
        except BaseException:
            connection.close()
            raise
        return cls(store, encoder, second.over(metadata))

    def with_reranker(self, reranker: RerankerSpec | None) -> Self:
        """Another retriever over the same collection and encoder, with another second stage.

        Closing either closes both.

        Args:
            reranker: As for `open`.
        """
        return type(self)(self._store, self._encoder, self._second.with_reranker(reranker))

    def with_tenant(self, tenant: str) -> Self:
        """Another retriever over the same collection and models, for one tenant.

        Closing either closes both.

        Args:
            tenant: As for `open`.

        Raises:
            InputError: This retriever is bound to a tenant itself, or the name is empty.
        """
        store = self._store.for_tenant(tenant)
        self._run(self._store.index_tenants())
        self._run(store.find_part())
        return type(self)(store, self._encoder, self._second)

    async def awith_tenant(self, tenant: str) -> Self:
        """`with_tenant` for an event loop."""
        store = self._store.for_tenant(tenant)
        await self._arun(store.index_tenants())
        await self._arun(store.find_part())
        return type(self)(store, self._encoder, self._second)

    # Life -------------------------------------------------------------------------------

    @property
    def profile(self) -> Profile | None:
        """The operating point saved with the collection.

        Raises:
            ContractError: It has settings that this version does not know, or is damaged.
        """
        return self._second.saved

    @property
    def encoder(self) -> Encoder:
        """The encoder; loads it."""
        return self._encoder.get()

    @property
    def late_encoder(self) -> Encoder | TokenEncoder:
        """What gives token vectors for late interaction: the one that was given, or the encoder."""
        return self._second.late or self._encoder.get()

    @property
    def store(self) -> PassageStore:
        """The collection, for what the retriever has no method for."""
        return self._store

    def close(self) -> None:
        """Flush and let go of the location; a client that was handed in stays open.

        After asynchronous calls on a server, so does the client that was made for their event loop:
        `aclose` in that loop closes both.
        """
        self._store.connection.close()

    async def aclose(self) -> None:
        """`close`, with the asynchronous client that was made for the running event loop."""
        await self._store.connection.aclose()
