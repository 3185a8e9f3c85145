"""`Retriever`: an encoder over a store. The front door of the core."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping
from os import PathLike
from typing import TYPE_CHECKING, Self, TypeVar, Unpack, get_args

import numpy as np
from qdrant_client import models

from sbert_retriever.closing import Closing
from sbert_retriever.errors import (
    InputError,
    InputTypeError,
    TruncationWarning,
)
from sbert_retriever.index.collection import WriteOrder
from sbert_retriever.index.connection import connect
from sbert_retriever.index.contract import Contract
from sbert_retriever.index.declaring import declare
from sbert_retriever.index.facts import CollectionFacts
from sbert_retriever.index.filters import build_filter
from sbert_retriever.index.points import Layout, check_id
from sbert_retriever.index.steps import RetryPolicy, Steps
from sbert_retriever.index.storage import Quantization, Storage, joined
from sbert_retriever.index.store import PassageStore, source_is
from sbert_retriever.ingest.expand import Expand
from sbert_retriever.ingest.sync import Sync, as_passages
from sbert_retriever.lazy_encoder import LazyEncoder
from sbert_retriever.opening import settle
from sbert_retriever.rerank.late import TokenEncoder
from sbert_retriever.search.answer import searched
from sbert_retriever.search.first_stage import grown, nearest, query_vector
from sbert_retriever.search.joined import JoinedSearches
from sbert_retriever.search.request import (
    FilterSpec,
    Query,
    QueryOptions,
    Search,
    SearchOptions,
    query_text,
    query_texts,
    whole,
)
from sbert_retriever.search.second_stage import LateSpec, RerankerSpec, SecondStage
from sbert_retriever.sparse import SparseSpec, as_sparse_encoder
from sbert_retriever.types import (
    Encoder,
    Failure,
    Fusion,
    Hit,
    IndexReport,
    OnTruncate,
    Passage,
    Profile,
    RerankMode,
    RetrieverInfo,
    SearchMode,
    SearchResult,
)

if TYPE_CHECKING:
    from numpy.typing import ArrayLike
    from qdrant_client import AsyncQdrantClient, QdrantClient

T = TypeVar("T")


class Retriever(Closing):
    """Index passages and search them by meaning. Make one with `Retriever.open`.

    Safe to use from many threads. Each method has an asynchronous twin whose name begins with
    "a": the model and an embedded engine then work in a thread, a server is asked natively.

    Args:
        store: The collection.
        encoder: Texts to vectors, loaded when first needed.
        second: The reranker, where there is one, and the collection's profile.
    """

    def __init__(
        self, store: PassageStore, encoder: LazyEncoder, second: SecondStage | None = None
    ) -> None:
        self._store = store
        self._encoder = encoder
        self._second = second or SecondStage()
        self._joined = JoinedSearches(self._answered)

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

    # Searching --------------------------------------------------------------------------

    def search(
        self,
        query: str,
        k: int = 10,
        *,
        filter: FilterSpec | None = None,
        score_threshold: float | None = None,
        expand: Expand | None = None,
        window: int = 1,
        exact: bool | None = None,
        ef: int | None = None,
        oversampling: float | None = None,
        rescore: bool | None = None,
        group_by: str | None = None,
        group_size: int = 1,
        diversity: float | None = None,
        distinct: float | None = None,
        timeout_s: float | None = None,
        mode: SearchMode | None = None,
        fusion: Fusion | None = None,
        candidates: int | None = None,
        rerank_mode: RerankMode | None = None,
        budget_ms: float | None = None,
        profile: str | Profile | None = None,
        rerank_threshold: float | None = None,
    ) -> list[Hit]:
        """The k passages that answer a query best, best first.

        Without a second stage these are the nearest in meaning. With a reranker, a cross-encoder
        scores the first of them again; how many is said here, or by a profile: the one named here,
        else the one saved with the collection, else "balanced". What is said here comes before a
        profile.

        Args:
            query: A question, or any text.
            k: How many.
            filter: On metadata: {"lang": "en", "year": {"gte": 2020}}; or a models.Filter.
            score_threshold: Hits that the first stage scores below this are left out, before any
                rerank. It is on the scale of that stage: in a dense search `info().score_kind`, the
                cosine for most models; "bm25" in a sparse one; in a hybrid one what the `fusion`
                gives, by default the cosine with what the words add.
            expand: "neighbours" or "parent": hand out the text around each chunk.
            window: Chunks on each side, for "neighbours".
            exact: Compare with every vector instead of walking the HNSW graph.
            ef: Width of the walk; more is more exact and slower. None is the engine's own.
            oversampling: Where vectors are quantised: how many times as many hits are looked at by
                their small copies, and compared by the vectors themselves. None is 2.
            rescore: Whether they are compared by the vectors themselves. None is yes.
            group_by: "source" or a metadata field: hits come from k groups, the best first. Beside
                words or a rerank, groups are made of the candidates.
            group_size: How many hits of a group at most.
            diversity: From 0 (near to the query only) to 1 (unlike one another only): hits are
                chosen by maximal marginal relevance among more, without a rerank.
            distinct: Leave out a hit whose vector is as near as this to a better hit's, on the
                scale of `info().score_kind`: 0.95 leaves out what says nearly the same, 0.999
                copies. Others take their places, before any rerank; in a hybrid search they are
                looked for among what both legs found.
            timeout_s: Seconds that a server has for each request of this search (a whole number
                of them, rounded up), in the place of the `timeout_s` of `open`; what failed in
                passing is not tried again after that.
            mode: "dense" goes by meaning, "sparse" by words, "hybrid" by both; the last two where
                the collection has sparse vectors. None is "hybrid" where it has.
            fusion: How "hybrid" joins both.
            candidates: How many of the first stage's hits are scored again; all of them are.
            rerank_mode: "replace" takes the cross-encoder's order, "fuse" joins both orders.
            budget_ms: Milliseconds for the query: as many candidates as fit are scored again, the
                best first. Models are loaded, and the speed is measured at the first use, before
                that time begins. In a batch, each query has it.
            profile: "fast", "balanced", "accurate", or a `Profile`.
            rerank_threshold: Hits that the cross-encoder scores below this, on its own scale, are
                left out, and so are those that it was not asked about.

        Raises:
            InputError: k below 1, an unusable filter, threshold, window or ef; or what takes a
                reranker was asked for, and there is none.
            InputTypeError: The query is not a string.
            ModelError: The encoder gave a vector that is not finite.

        Warns:
            FallbackWarning: The reranker failed: the first stage's order is kept, and each hit's
                `fallback` says why.
            UnknownFieldWarning: No passage has a field of a filter that found nothing, or the one
                that groups are made by.
        """
        return self.search_detailed(
            query,
            k,
            filter=filter,
            score_threshold=score_threshold,
            expand=expand,
            window=window,
            exact=exact,
            ef=ef,
            oversampling=oversampling,
            rescore=rescore,
            group_by=group_by,
            group_size=group_size,
            diversity=diversity,
            distinct=distinct,
            timeout_s=timeout_s,
            mode=mode,
            fusion=fusion,
            candidates=candidates,
            rerank_mode=rerank_mode,
            budget_ms=budget_ms,
            profile=profile,
            rerank_threshold=rerank_threshold,
        ).hits

    async def asearch(self, query: str, k: int = 10, **options: Unpack[QueryOptions]) -> list[Hit]:
        """`search` for an event loop."""
        return (await self.asearch_detailed(query, k, **options)).hits

    def search_detailed(
        self, query: str, k: int = 10, **options: Unpack[QueryOptions]
    ) -> SearchResult:
        """`search`, with the milliseconds of each stage and how many hits were rescored.

        Where several threads ask an embedded collection at once, and no second stage follows, they
        are answered together: the stages' milliseconds are those of all, the total is one's own.
        """
        text, asked = query_text(query), Query(k=k, **options)
        if self._joins(asked):
            return self._joined.run(text, asked)
        return self._answered([text], asked)[0]

    async def asearch_detailed(
        self, query: str, k: int = 10, **options: Unpack[QueryOptions]
    ) -> SearchResult:
        """`search_detailed` for an event loop."""
        return (await self._arun(self._searched([query_text(query)], Query(k=k, **options))))[0]

    def search_batch(
        self, queries: Iterable[str], k: int = 10, **options: Unpack[QueryOptions]
    ) -> list[list[Hit]]:
        """`search` for many queries, encoded and answered together, in their order."""
        return [result.hits for result in self.search_batch_detailed(queries, k, **options)]

    async def asearch_batch(
        self, queries: Iterable[str], k: int = 10, **options: Unpack[QueryOptions]
    ) -> list[list[Hit]]:
        """`search_batch` for an event loop."""
        found = await self.asearch_batch_detailed(queries, k, **options)
        return [result.hits for result in found]

    def search_batch_detailed(
        self, queries: Iterable[str], k: int = 10, **options: Unpack[QueryOptions]
    ) -> list[SearchResult]:
        """`search_batch`, with the milliseconds that each stage took for all of them."""
        return self._answered(query_texts(queries), Query(k=k, **options))

    async def asearch_batch_detailed(
        self, queries: Iterable[str], k: int = 10, **options: Unpack[QueryOptions]
    ) -> list[SearchResult]:
        """`search_batch_detailed` for an event loop."""
        return await self._arun(self._searched(query_texts(queries), Query(k=k, **options)))

    def search_by_vector(
        self, vector: ArrayLike, k: int = 10, **options: Unpack[SearchOptions]
    ) -> list[Hit]:
        """The k passages nearest to a vector (dim,), with the first stage's options of `search`.

        Raises:
            InputError: The vector has another shape, or NaN, infinity, or nothing but zeros.
        """
        return self._run(self._by_vector(vector, Search(k=k, **options)))

    async def asearch_by_vector(
        self, vector: ArrayLike, k: int = 10, **options: Unpack[SearchOptions]
    ) -> list[Hit]:
        """`search_by_vector` for an event loop."""
        return await self._arun(self._by_vector(vector, Search(k=k, **options)))

    def similar(self, id: str, k: int = 10, **options: Unpack[SearchOptions]) -> list[Hit]:
        """The k passages nearest to one that is in the collection, itself left out.

        Raises:
            InputError: No passage has that id.
        """
        return self._run(self._similar(id, Search(k=k, **options)))

    async def asimilar(self, id: str, k: int = 10, **options: Unpack[SearchOptions]) -> list[Hit]:
        """`similar` for an event loop."""
        return await self._arun(self._similar(id, Search(k=k, **options)))

    # Reading ----------------------------------------------------------------------------

    def get(self, ids: Iterable[str]) -> list[Passage]:
        """Passages by id, in the order asked for; missing ones are left out."""
        return self._run(self._store.get(_ids(ids)))

    async def aget(self, ids: Iterable[str]) -> list[Passage]:
        """`get` for an event loop."""
        return await self._arun(self._store.get(_ids(ids)))

    def scroll(
        self,
        *,
        filter: FilterSpec | None = None,
        limit: int = 100,
        offset: str | int | None = None,
    ) -> tuple[list[Passage], str | int | None]:
        """A page of passages, in no order of meaning, and the offset of the next page.

        Args:
            filter: As in `search`.
            limit: Passages a page.
            offset: What the call before returned; None begins.
        """
        return self._run(self._scrolled(filter, limit, offset))

    async def ascroll(
        self,
        *,
        filter: FilterSpec | None = None,
        limit: int = 100,
        offset: str | int | None = None,
    ) -> tuple[list[Passage], str | int | None]:
        """`scroll` for an event loop."""
        return await self._arun(self._scrolled(filter, limit, offset))

    def count(self, filter: FilterSpec | None = None) -> int:
        """How many passages there are, or match a filter."""
        return self._run(self._store.count(self._condition(filter)))

    async def acount(self, filter: FilterSpec | None = None) -> int:
        """`count` for an event loop."""
        return await self._arun(self._store.count(self._condition(filter)))

    def optimize(self) -> None:
        """Build the graph of vectors that lack it, and tidy up what was deleted, at once.

        `index` does so at its end where it is worth it. Until then, words of passages that were
        deleted or replaced count in BM25's document frequencies. A server does it by itself.
        """
        self._run(self._store.optimize())

    async def aoptimize(self) -> None:
        """`optimize` for an event loop."""
        await self._arun(self._store.optimize())

    def info(self) -> RetrieverInfo:
        """What is known of the collection; loads no model."""
        return self._info_of(self._run(self._store.facts()))

    async def ainfo(self) -> RetrieverInfo:
        """`info` for an event loop."""
        return self._info_of(await self._arun(self._store.facts()))

    # Writing ----------------------------------------------------------------------------

    def index(
        self,
        passages: Iterable[Passage],
        *,
        prune: bool = False,
        dry_run: bool = False,
        strict: bool = False,
        on_truncate: OnTruncate | None = None,
        on_progress: Callable[[IndexReport], None] | None = None,
        sources: Iterable[str] = (),
        spared: Iterable[str] = (),
        failures: list[Failure] | None = None,
        ordering: WriteOrder | None = None,
    ) -> IndexReport:
        """Bring the collection in line with passages; only what changed is encoded and written.

        It can be killed and run again: what the first run wrote is not done twice.

        Args:
            passages: Any iterable, drawn in windows, so that it may be larger than memory.
            prune: Delete passages of the sources seen in this call whose ids were not in it.
            dry_run: Count what would be done; encode and write nothing.
            strict: Raise at the first passage that cannot go in, instead of reporting it.
            on_truncate: For texts longer than the model reads: "warn" once a call, "error" before
                their window is written, or "ignore"; None is the encoder's own.
            on_progress: Called with the report so far, after each window.
            sources: Sources that count as seen though no passage may carry them (emptied files);
                read after the last passage is drawn.
            spared: Sources that `prune` leaves alone (files read in part); read after the last
                passage is drawn.
            failures: A list of failures that the caller goes on filling while passages are drawn.
            ordering: On a cluster, how sure it is that all copies take writes in one order: "weak"
                (quick; also None), "medium", or "strong" (by the leader alone, and not without it).

        Raises:
            InputTypeError: Not an iterable of Passage.
            StoreUnavailableError: The server gave up; with the ids that are in and those that
                are not.
        """
        sync = self._sync(dry_run, strict, on_truncate, on_progress, failures, ordering)
        steps = sync.run(as_passages(passages), prune=prune, sources=sources, spared=spared)
        report = self._run(steps)
        self._warn_of_truncation(report, on_truncate)
        return report

    async def aindex(
        self,
        passages: Iterable[Passage],
        *,
        prune: bool = False,
        dry_run: bool = False,
        strict: bool = False,
        on_truncate: OnTruncate | None = None,
        on_progress: Callable[[IndexReport], None] | None = None,
        sources: Iterable[str] = (),
        spared: Iterable[str] = (),
        failures: list[Failure] | None = None,
        ordering: WriteOrder | None = None,
    ) -> IndexReport:
        """`index` for an event loop."""
        sync = self._sync(dry_run, strict, on_truncate, on_progress, failures, ordering)
        steps = sync.run(as_passages(passages), prune=prune, sources=sources, spared=spared)
        report = await self._arun(steps)
        self._warn_of_truncation(report, on_truncate)
        return report

    def delete(
        self,
        ids: Iterable[str] | None = None,
        *,
        filter: FilterSpec | None = None,
        source: str | None = None,
        ordering: WriteOrder | None = None,
    ) -> int:
        """Delete passages by id, by filter or by source; how many were there.

        Args:
            ids: Any iterable; those that are not there are no error.
            filter: As in `search`.
            source: Of one source, all.
            ordering: As for `index`.

        Raises:
            InputError: None or several of the three are given, or the filter has no condition.
        """
        return self._run(self._deleted(ids, filter, source, ordering))

    async def adelete(
        self,
        ids: Iterable[str] | None = None,
        *,
        filter: FilterSpec | None = None,
        source: str | None = None,
        ordering: WriteOrder | None = None,
    ) -> int:
        """`delete` for an event loop."""
        return await self._arun(self._deleted(ids, filter, source, ordering))

    def delete_all(self, *, ordering: WriteOrder | None = None) -> int:
        """Delete every passage, keeping the collection; how many there were.

        Args:
            ordering: As for `index`.
        """
        return self._run(self._emptied(ordering))

    async def adelete_all(self, *, ordering: WriteOrder | None = None) -> int:
        """`delete_all` for an event loop."""
        return await self._arun(self._emptied(ordering))

    def save_profile(self, profile: Profile) -> None:
        """Keep an operating point with the collection: searches that name none follow it."""
        self._run(self._profile_saved(profile))

    async def asave_profile(self, profile: Profile) -> None:
        """`save_profile` for an event loop."""
        await self._arun(self._profile_saved(profile))

    def make_filterable(self, fields: Mapping[str, str]) -> None:
        """Index more metadata fields for filtering, and remember them with the collection.

        What is there is indexed at once; fields that are indexed already stay as they are.

        Args:
            fields: As `filterable` of `open`: {"lang": "keyword", "year": "integer"}.

        Raises:
            InputError: A field is no path, its kind is unknown or another than the one that it is
                indexed as, or this retriever is bound to a tenant.
            StoreRequestError: The server refuses it, for want of a key perhaps.
        """
        self._run(declare(self._store, fields))

    async def amake_filterable(self, fields: Mapping[str, str]) -> None:
        """`make_filterable` for an event loop."""
        await self._arun(declare(self._store, fields))

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

    # Inside -----------------------------------------------------------------------------

    def _run(self, steps: Steps[T]) -> T:
        return self._store.connection.run(steps)

    async def _arun(self, steps: Steps[T]) -> T:
        return await self._store.connection.arun(steps)

    def _condition(self, spec: FilterSpec | None) -> models.Filter | None:
        return build_filter(spec, metadata_key=self._store.layout.metadata_key)

    def _searched(self, queries: list[str], asked: Query) -> Steps[list[SearchResult]]:
        return searched(self._store, self._encoder, self._second, queries, asked)

    def _answered(self, queries: list[str], asked: Query) -> list[SearchResult]:
        return self._run(self._searched(queries, asked))

    def _joins(self, asked: Query) -> bool:
        """Whether this question gains from being answered with those of other threads."""
        if not (self._store.connection.embedded and self._encoder.joins_callers):
            return False
        profile = self._second.settings(asked)
        return not (profile.reranks or profile.late)

    def _by_vector(self, vector: ArrayLike, asked: Search) -> Steps[list[Hit]]:
        store = self._store.within_time(asked.timeout_s)
        row = query_vector(vector, store=store)
        found = yield from nearest(store, row, self._condition(asked.filter), asked)
        return (yield from grown(store, found, asked))[0]

    def _similar(self, passage_id: str, asked: Search) -> Steps[list[Hit]]:
        store = self._store.within_time(asked.timeout_s)
        vector = yield from store.vector(check_id(passage_id))
        if vector is None:
            raise InputError(f"no passage has the id {passage_id[:80]!r}")
        row = np.asarray(vector, dtype=np.float32)[None]
        itself = models.HasIdCondition(has_id=[store.point_id(passage_id)])
        others = models.Filter(must_not=[itself])
        if (condition := self._condition(asked.filter)) is not None:
            others = models.Filter(must=[condition, others])
        found = yield from nearest(store, row, others, asked)
        return (yield from grown(store, found, asked))[0]

    def _scrolled(
        self, spec: FilterSpec | None, limit: int, offset: str | int | None
    ) -> Steps[tuple[list[Passage], str | int | None]]:
        condition = self._condition(spec)
        page, following = yield from self._store.scroll(
            condition=condition, limit=whole("limit", limit, least=1), offset=offset
        )
        return [passage for passage, _ in page], following

    def _sync(
        self,
        dry_run: bool,
        strict: bool,
        on_truncate: OnTruncate | None,
        on_progress: Callable[[IndexReport], None] | None,
        failures: list[Failure] | None,
        ordering: WriteOrder | None,
    ) -> Sync:
        if on_truncate not in (None, *get_args(OnTruncate)):
            raise InputError(
                f"on_truncate is {on_truncate!r}, expected 'warn', 'error' or 'ignore'"
            )
        return Sync(
            self._store.in_order(ordering),
            self._encoder.encode_passages,
            dry_run=dry_run,
            strict=strict,
            refuse_long=on_truncate == "error",
            on_progress=on_progress,
            failures=failures,
        )

    def _warn_of_truncation(self, report: IndexReport, on_truncate: OnTruncate | None) -> None:
        policy = self._encoder.on_truncate if on_truncate is None else on_truncate
        if report.truncated and policy == "warn":
            warnings.warn(
                f"{report.truncated} of {report.encoded} encoded texts are longer than the model "
                f"reads (the longest: {report.longest} tokens); the rest of each is not searched: "
                "split them first",
                TruncationWarning,
                stacklevel=3,
            )

    def _deleted(
        self,
        ids: Iterable[str] | None,
        spec: FilterSpec | None,
        source: str | None,
        ordering: WriteOrder | None,
    ) -> Steps[int]:
        if sum(value is not None for value in (ids, spec, source)) != 1:
            raise InputError(
                "give one of ids, filter or source (to delete everything: delete_all())"
            )
        if source is not None and not isinstance(source, str):
            raise InputTypeError(f"source is {type(source).__name__}, expected str")
        store = self._store.in_order(ordering)
        if ids is not None:
            deleted = yield from store.delete_ids(_ids(ids))
        else:
            condition = source_is(source) if source is not None else self._condition(spec)
            deleted = yield from store.delete_where(condition or models.Filter())
        yield from store.settle()
        return deleted

    def _emptied(self, ordering: WriteOrder | None) -> Steps[int]:
        deleted = yield from self._store.in_order(ordering).delete_all()
        yield from self._store.settle()
        return deleted

    def _profile_saved(self, profile: Profile) -> Steps[None]:
        if not isinstance(profile, Profile):
            raise InputTypeError(f"profile is {type(profile).__name__}, expected a Profile")
        yield from self._store.save_profile(profile)
        self._second.remember(profile)

    def _info_of(self, facts: CollectionFacts) -> RetrieverInfo:
        identity = facts.contract.model if facts.contract is not None else None
        return RetrieverInfo(
            location=self._store.connection.location,
            collection_name=self._store.collection_name,
            engine=self._store.connection.engine,
            count=facts.count,
            indexed=facts.indexed,
            dim=facts.dim,
            score_kind=facts.score_kind,
            model=identity.name if identity is not None else None,
            identity=identity,
            filterable=facts.filterable,
            sparse=_name(facts.contract),
            quantized=facts.storage.quantization is not None,
            tokens=facts.storage.tokens,
        )


def _name(contract: Contract | None) -> str | None:
    """Of the encoder of a collection's sparse vectors."""
    return contract.sparse.name if contract is not None and contract.sparse is not None else None


def _ids(ids: Iterable[str]) -> list[str]:
    if isinstance(ids, str):
        raise InputTypeError(f"ids is the single string {ids[:80]!r}: put it into a list")
    if not isinstance(ids, Iterable):
        raise InputTypeError(f"ids is {type(ids).__name__}, expected an iterable of str")
    return [check_id(i) for i in ids]
