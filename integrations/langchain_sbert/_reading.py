"""The half of the vector store that reads: by id, by meaning, and by variety."""

# LangChain's methods take any keyword and drop what they do not know. Ours name each keyword, so
# that a misspelt one is an error, which to mypy is an incompatible override.
# mypy: disable-error-code="override"

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any, TypeAlias, Unpack

from langchain_core.documents import Document
from langchain_core.vectorstores import VectorStore

from langchain_sbert._convert import document, documents, scored
from langchain_sbert._mmr import diverse
from langchain_sbert._relevance import relevance_of, relevance_of_hit
from sbert_retriever import Retriever
from sbert_retriever.search.request import FilterSpec, QueryOptions, SearchOptions, query_text
from sbert_retriever.types import Hit

_PAGE = 500
_Diverse: TypeAlias = tuple[str | Sequence[float], int, int | None, float, SearchOptions]
"""Query, k, fetch_k, lambda_mult, options."""


class ReadingStore(VectorStore):
    """Searches of a vector store, each synchronous and for an event loop.

    A similarity is that of meanings, unless `mode` says otherwise, so that a collection with words
    answers LangChain's own methods as any other does.
    """

    _retriever: Retriever

    def search(self, query: str, search_type: str, **kwargs: Any) -> list[Document]:
        """Documents by a search type: one of LangChain's, or "hybrid"."""
        if search_type == "hybrid":
            return self.similarity_search(query, **{"mode": "hybrid", **kwargs})
        return super().search(query, search_type, **kwargs)

    async def asearch(self, query: str, search_type: str, **kwargs: Any) -> list[Document]:
        """`search` for an event loop."""
        if search_type == "hybrid":
            return await self.asimilarity_search(query, **{"mode": "hybrid", **kwargs})
        return await super().asearch(query, search_type, **kwargs)

    def get_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        """Documents by id, in the order asked for; missing ones are left out."""
        return [document(passage) for passage in self._retriever.get(ids)]

    async def aget_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        """`get_by_ids` for an event loop."""
        return [document(passage) for passage in await self._retriever.aget(ids)]

    def iter_documents(self, *, filter: FilterSpec | None = None) -> Iterator[Document]:
        """All documents, or those that match a filter, page by page and in no order of meaning."""
        offset = None
        while True:
            page, offset = self._retriever.scroll(filter=filter, limit=_PAGE, offset=offset)
            yield from map(document, page)
            if offset is None:
                return

    async def aiter_documents(self, *, filter: FilterSpec | None = None) -> AsyncIterator[Document]:
        """`iter_documents` for an event loop."""
        offset = None
        while True:
            page, offset = await self._retriever.ascroll(filter=filter, limit=_PAGE, offset=offset)
            for passage in page:
                yield document(passage)
            if offset is None:
                return

    def similarity_search(
        self, query: str, k: int = 4, **options: Unpack[QueryOptions]
    ) -> list[Document]:
        """The k documents nearest in meaning to a text, best first."""
        return documents(self._retriever.search(query, k, **_dense(options)))

    async def asimilarity_search(
        self, query: str, k: int = 4, **options: Unpack[QueryOptions]
    ) -> list[Document]:
        """`similarity_search` for an event loop."""
        return documents(await self._retriever.asearch(query, k, **_dense(options)))

    def similarity_search_with_score(
        self, query: str, k: int = 4, **options: Unpack[QueryOptions]
    ) -> list[tuple[Document, float]]:
        """`similarity_search`, with the score of each: bigger is better.

        It is the cosine; in the mode "hybrid" the cosine with what the words add, in the mode
        "sparse" BM25's; after a rerank what the cross-encoder says.
        """
        return scored(self._retriever.search(query, k, **_dense(options)))

    async def asimilarity_search_with_score(
        self, query: str, k: int = 4, **options: Unpack[QueryOptions]
    ) -> list[tuple[Document, float]]:
        """`similarity_search_with_score` for an event loop."""
        return scored(await self._retriever.asearch(query, k, **_dense(options)))

    def similarity_search_by_vector(
        self, embedding: Sequence[float], k: int = 4, **options: Unpack[SearchOptions]
    ) -> list[Document]:
        """The k documents nearest to a vector (dim,), best first."""
        return documents(self._retriever.search_by_vector(embedding, k, **options))

    async def asimilarity_search_by_vector(
        self, embedding: Sequence[float], k: int = 4, **options: Unpack[SearchOptions]
    ) -> list[Document]:
        """`similarity_search_by_vector` for an event loop."""
        return documents(await self._retriever.asearch_by_vector(embedding, k, **options))

    def similarity_search_with_score_by_vector(
        self, embedding: Sequence[float], k: int = 4, **options: Unpack[SearchOptions]
    ) -> list[tuple[Document, float]]:
        """`similarity_search_by_vector`, with the score of each."""
        return scored(self._retriever.search_by_vector(embedding, k, **options))

    async def asimilarity_search_with_score_by_vector(
        self, embedding: Sequence[float], k: int = 4, **options: Unpack[SearchOptions]
    ) -> list[tuple[Document, float]]:
        """`similarity_search_with_score_by_vector` for an event loop."""
        return scored(await self._retriever.asearch_by_vector(embedding, k, **options))

    def similarity_search_with_relevance_scores(
        self, query: str, k: int = 4, **options: Unpack[QueryOptions]
    ) -> list[tuple[Document, float]]:
        """`similarity_search`, with the relevance of each, from 0 to 1.

        That is the cosine, cut to these bounds; after a rerank, the sigmoid of the
        cross-encoder's logit, also where the order joins both stages'.

        The threshold is compared with the cosine itself, as in every other search, so that one
        number keeps the same documents in all of them.

        Raises:
            InputError: The scores have no bounds, and no relevance follows from them.
        """
        self._select_relevance_score_fn()
        return relevant(self._retriever.search(query, k, **_dense(options)))

    async def asimilarity_search_with_relevance_scores(
        self, query: str, k: int = 4, **options: Unpack[QueryOptions]
    ) -> list[tuple[Document, float]]:
        """`similarity_search_with_relevance_scores` for an event loop."""
        self._select_relevance_score_fn()
        return relevant(await self._retriever.asearch(query, k, **_dense(options)))

    def max_marginal_relevance_search(
        self,
        query: str,
        k: int = 4,
        fetch_k: int | None = None,
        lambda_mult: float = 0.5,
        **options: Unpack[SearchOptions],
    ) -> list[Document]:
        """The k documents that are near to a text and unlike one another.

        Args:
            query: A text.
            k: How many.
            fetch_k: Among how many of the nearest they are chosen; None is 20, or k where that is
                more.
            lambda_mult: 1 looks at the nearness only, 0 at the variety only.
            **options: Those of every search.

        Raises:
            InputError: `lambda_mult` is outside 0 to 1, or `fetch_k` below k.
        """
        return self._diverse(query_text(query), k, fetch_k, lambda_mult, options)

    async def amax_marginal_relevance_search(
        self,
        query: str,
        k: int = 4,
        fetch_k: int | None = None,
        lambda_mult: float = 0.5,
        **options: Unpack[SearchOptions],
    ) -> list[Document]:
        """`max_marginal_relevance_search` for an event loop."""
        return await self._adiverse(query_text(query), k, fetch_k, lambda_mult, options)

    def max_marginal_relevance_search_by_vector(
        self,
        embedding: Sequence[float],
        k: int = 4,
        fetch_k: int | None = None,
        lambda_mult: float = 0.5,
        **options: Unpack[SearchOptions],
    ) -> list[Document]:
        """`max_marginal_relevance_search` with a vector (dim,) for the text."""
        return self._diverse(embedding, k, fetch_k, lambda_mult, options)

    async def amax_marginal_relevance_search_by_vector(
        self,
        embedding: Sequence[float],
        k: int = 4,
        fetch_k: int | None = None,
        lambda_mult: float = 0.5,
        **options: Unpack[SearchOptions],
    ) -> list[Document]:
        """`max_marginal_relevance_search_by_vector` for an event loop."""
        return await self._adiverse(embedding, k, fetch_k, lambda_mult, options)

    # Inside -----------------------------------------------------------------------------

    def _diverse(self, *asked: *_Diverse) -> list[Document]:
        return documents(self._retriever.store.connection.run(diverse(self._retriever, *asked)))

    async def _adiverse(self, *asked: *_Diverse) -> list[Document]:
        steps = diverse(self._retriever, *asked)
        return documents(await self._retriever.store.connection.arun(steps))

    def _select_relevance_score_fn(self) -> Callable[[float], float]:
        return relevance_of(self._retriever.store.score_kind)


def _dense(options: QueryOptions) -> QueryOptions:
    """The options, by meaning where neither they nor a profile of theirs say which mode."""
    own = getattr(options.get("profile"), "mode", None)  # a profile by its name says none
    if options.get("mode") is None and own is None:
        return {**options, "mode": "dense"}
    return options


def relevant(hits: Sequence[Hit]) -> list[tuple[Document, float]]:
    """Hits as documents with their relevance, in their order."""
    found = zip(documents(hits), hits, strict=True)
    return [(each, relevance_of_hit(hit)) for each, hit in found]
