"""The half of the retriever that is asked questions: by text, by vector, by a passage."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Unpack

import numpy as np
from qdrant_client import models

from sbert_retriever.errors import InputError
from sbert_retriever.index.points import check_id
from sbert_retriever.index.steps import Steps
from sbert_retriever.index.store import PassageStore
from sbert_retriever.ingest.expand import Expand
from sbert_retriever.lazy_encoder import LazyEncoder
from sbert_retriever.retriever.held import Held
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
)
from sbert_retriever.search.second_stage import SecondStage
from sbert_retriever.types import Fusion, Hit, Profile, RerankMode, SearchMode, SearchResult

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


class Searching(Held):
    """Searches of a retriever, each synchronous and for an event loop."""

    def __init__(
        self, store: PassageStore, encoder: LazyEncoder, second: SecondStage | None = None
    ) -> None:
        super().__init__(store, encoder, second)
        self._joined = JoinedSearches(self._answered)

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
                left out, and so are those that it was not asked about, unless it scored none at
                all: then the first stage's order comes, and `Hit.fallback` says so.

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

    # Inside -----------------------------------------------------------------------------

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
