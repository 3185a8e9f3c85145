"""`SBERTRetriever`: LangChain's retriever over a vector store of ours."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from os import PathLike
from typing import TYPE_CHECKING, Any, ClassVar, Self

from langchain_core.callbacks import (
    AsyncCallbackManagerForRetrieverRun,
    CallbackManagerForRetrieverRun,
)
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import VectorStoreRetriever
from pydantic import ConfigDict, Field, PrivateAttr, model_validator
from qdrant_client import models

from langchain_sbert._opening import open_store
from langchain_sbert.vectorstore import SBERTVectorStore
from sbert_retriever.closing import Closing
from sbert_retriever.errors import InputError, InputTypeError
from sbert_retriever.index.storage import Quantization, Storage
from sbert_retriever.search.request import FilterSpec, QueryOptions, SearchOptions
from sbert_retriever.search.second_stage import LateSpec, RerankerSpec, as_reranker
from sbert_retriever.sparse import SparseSpec
from sbert_retriever.types import Profile, RerankMode

if TYPE_CHECKING:
    from qdrant_client import AsyncQdrantClient, QdrantClient

_RERANK_FIELDS = ("candidates", "rerank_mode", "budget_ms", "profile", "rerank_threshold")
_FIELDS = ("k", "filter", "score_threshold", *_RERANK_FIELDS)
_OPTIONS = {"k", *QueryOptions.__annotations__}
_MMR_OPTIONS = {"k", *SearchOptions.__annotations__, "fetch_k", "lambda_mult"}


class SBERTRetriever(Closing, VectorStoreRetriever):
    """Questions to documents; drops into any chain, and adds documents too.

    `invoke(question, k=1)` and its likes take any argument of the search; what the call says wins
    over what the constructor said, and None says nothing.

    Args:
        vectorstore: Where to search.
        k: How many documents.
        filter: On metadata, as a dict or a `models.Filter`.
        score_threshold: Documents whose cosine is below are left out, in each search type; in
            "hybrid" those whose cosine with what the words add is.
        search_type: "similarity" goes by meaning; "hybrid" by words too, where the store has them;
            "similarity_score_threshold" insists on a threshold; "mmr" chooses what is near to the
            question and unlike one another.
        search_kwargs: More arguments of the search: "expand", "window", "exact", "ef", "mode",
            "fusion", and for "mmr" "fetch_k" and "lambda_mult". What has a field of its own is
            moved there.
        reranker: The second stage: a cross-encoder's name or folder, a `CrossEncoder`, a
            `Reranker`, or any `Scorer`; None is the vector store's own. Documents then carry their
            scores in `metadata["_sbert"]`, and `metadata["relevance_score"]`. Not for "mmr".
        candidates: How many of the first stage's documents it scores.
        rerank_mode: "replace" takes its order, "fuse" joins both orders.
        budget_ms: Milliseconds for a question: it scores as many documents as fit.
        profile: "fast", "balanced", "accurate", or a `Profile`.
        rerank_threshold: Documents that it scores below this are left out.

    Raises:
        ValidationError: A field is unknown, or has an unusable value.
        InputTypeError: `search_kwargs` names what the search does not know.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    allowed_search_types: ClassVar[Collection[str]] = (
        "similarity",
        "hybrid",
        "similarity_score_threshold",
        "mmr",
    )

    vectorstore: SBERTVectorStore
    k: int = Field(default=4, ge=1, strict=True)
    filter: dict[str, Any] | models.Filter | None = None
    score_threshold: float | None = None
    reranker: Any = None
    candidates: int | None = Field(default=None, ge=1, strict=True)
    rerank_mode: RerankMode | None = None
    budget_ms: float | None = Field(default=None, ge=0)
    profile: str | Profile | None = None
    rerank_threshold: float | None = None

    _searching: SBERTVectorStore = PrivateAttr()

    @classmethod
    def open(
        cls,
        location: str | PathLike[str] | None = None,
        *,
        model: str | PathLike[str] | Embeddings | None = None,
        sparse: SparseSpec | None = None,
        k: int = 4,
        filter: FilterSpec | None = None,
        score_threshold: float | None = None,
        search_type: str = "similarity",
        search_kwargs: Mapping[str, Any] | None = None,
        reranker: RerankerSpec | None = None,
        candidates: int | None = None,
        rerank_mode: RerankMode | None = None,
        budget_ms: float | None = None,
        profile: str | Profile | None = None,
        rerank_threshold: float | None = None,
        late_encoder: LateSpec | None = None,
        quantization: Quantization | models.QuantizationConfig | None = None,
        storage: Storage | None = None,
        filterable: Mapping[str, str] | None = None,
        collection_name: str | None = None,
        tenant: str | None = None,
        device: str = "auto",
        dtype: str = "auto",
        api_key: str | None = None,
        client: QdrantClient | None = None,
        async_client: AsyncQdrantClient | None = None,
        timeout_s: int | None = None,
        prefer_grpc: bool = False,
        grpc_port: int | None = None,
    ) -> Self:
        """Open a collection, or create it, and retrieve from it.

        Args:
            location: A folder, ":memory:", or a URL.
            model: A folder, a packaged name, a hub id, or any embeddings. None reopens with the
                model that the collection was built with.
            sparse: "bm25" gives a collection that is made words beside meanings.
            k: How many documents.
            filter: On metadata.
            score_threshold: Documents whose cosine is below are left out; in a "hybrid" search
                those whose cosine with what the words add is.
            search_type: "similarity", "hybrid", "similarity_score_threshold" or "mmr".
            search_kwargs: More arguments of the search.
            reranker: The second stage, on the same device and in the same dtype.
            candidates: How many documents it scores.
            rerank_mode: "replace" or "fuse".
            budget_ms: Milliseconds for a question.
            profile: "fast", "balanced", "accurate", or a `Profile`.
            rerank_threshold: Documents that it scores below this are left out.
            late_encoder: What puts the best documents in order by late interaction, before any
                rerank, as for `SBERTVectorStore`.
            quantization: "int8", "turbo", "product" or "binary": a collection that is made
                searches small copies of its vectors first.
            storage: How a collection that is made keeps its vectors.
            filterable: Metadata fields to index for filtering when the collection is made:
                {"lang": "keyword", "year": "integer"}.
            collection_name: Which collection. None takes "docs", the vector store's own default,
                where it is there, else the only collection there is.
            tenant: Whose documents alone are seen.
            device: For a model given by name.
            dtype: For a model given by name.
            api_key: For a URL; None reads QDRANT_API_KEY.
            client: Any QdrantClient, used instead of a location and left open by `close`.
            async_client: Its asynchronous twin.
            timeout_s: Seconds a request to a server may take.
            prefer_grpc: Talk to a server over gRPC.
            grpc_port: With `prefer_grpc`, the server's port for it; None is 6334.

        Raises:
            CollectionNotFoundError: There is no such collection, and no model to create it with.
            ContractError: It was built with another model.
            InputError: There are several collections, none of them "docs", and none is named.
        """
        store = open_store(
            location,
            model=model,
            late_encoder=late_encoder,
            sparse=sparse,
            quantization=quantization,
            storage=storage,
            filterable=filterable,
            collection_name=collection_name,
            tenant=tenant,
            device=device,
            dtype=dtype,
            api_key=api_key,
            client=client,
            async_client=async_client,
            timeout_s=timeout_s,
            prefer_grpc=prefer_grpc,
            grpc_port=grpc_port,
        )
        try:
            return cls(
                vectorstore=store,
                k=k,
                filter=filter
                if filter is None or isinstance(filter, models.Filter)
                else dict(filter),
                score_threshold=score_threshold,
                search_type=search_type,
                search_kwargs=dict(search_kwargs or {}),
                reranker=None
                if reranker is None
                else as_reranker(reranker, device=device, dtype=dtype),
                candidates=candidates,
                rerank_mode=rerank_mode,
                budget_ms=budget_ms,
                profile=profile,
                rerank_threshold=rerank_threshold,
            )
        except BaseException:
            store.close()
            raise

    @model_validator(mode="before")
    @classmethod
    def validate_search_type(cls, values: Any) -> Any:
        """Check the search type and its arguments, and move those that are fields."""
        if not isinstance(values, dict):
            return values
        search_type = values.get("search_type", "similarity")
        if search_type not in cls.allowed_search_types:
            known = ", ".join(repr(name) for name in cls.allowed_search_types)
            raise InputError(f"search_type is {search_type!r}, expected one of {known}")
        moved = _with_fields(values)
        _check_names(moved.get("search_kwargs", {}), search_type)
        if search_type == "similarity_score_threshold" and moved.get("score_threshold") is None:
            raise InputError(
                "search_type 'similarity_score_threshold' needs a score_threshold: give a number, "
                "or search_type='similarity'"
            )
        return moved

    @model_validator(mode="after")
    def _check_mmr(self) -> Self:
        said = [name for name in ("reranker", *_RERANK_FIELDS) if getattr(self, name) is not None]
        if self.search_type == "mmr" and said:
            raise InputError(
                f"{said[0]} is given and search_type is 'mmr', which chooses by vectors alone: "
                "leave one of them out"
            )
        return self

    def model_post_init(self, context: Any, /) -> None:
        """Find the reranker."""
        super().model_post_init(context)
        self._searching = self.vectorstore
        if self.reranker is not None:
            core = self.vectorstore.retriever.with_reranker(self.reranker)
            self._searching = SBERTVectorStore.from_retriever(core, self.vectorstore.embeddings)

    def close(self) -> None:
        """Close the vector store, whoever opened it."""
        self.vectorstore.close()

    async def aclose(self) -> None:
        """`close` for an event loop."""
        await self.vectorstore.aclose()

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, **options: Any
    ) -> list[Document]:
        return self._searching.search(query, self.search_type, **self._arguments(options))

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, **options: Any
    ) -> list[Document]:
        return await self._searching.asearch(query, self.search_type, **self._arguments(options))

    def _arguments(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """The search's arguments: the call's before the retriever's."""
        said = {name: value for name, value in options.items() if value is not None}
        _check_names(said, self.search_type)
        # A profile that the call names says all of this anew.
        left_out = _RERANK_FIELDS if self.search_type == "mmr" or "profile" in said else ()
        own = {name: getattr(self, name) for name in _FIELDS if name not in left_out}
        return own | self.search_kwargs | said


def _with_fields(values: dict[str, Any]) -> dict[str, Any]:
    """Values with k, filter and score_threshold moved out of `search_kwargs`.

    Raises:
        InputError: One of them is given in both places, differently.
    """
    extra = values.get("search_kwargs")
    if not isinstance(extra, dict):
        return values
    doubled = [n for n in _FIELDS if n in values and n in extra and values[n] != extra[n]]
    if doubled:
        name = doubled[0]
        raise InputError(
            f"{name} is {values[name]!r}, and in search_kwargs {extra[name]!r}: give it once"
        )
    fields = {name: extra[name] for name in _FIELDS if name in extra}
    rest = {name: value for name, value in extra.items() if name not in _FIELDS}
    return {**values, **fields, "search_kwargs": rest}


def _check_names(options: Any, search_type: str) -> None:
    known = _MMR_OPTIONS if search_type == "mmr" else _OPTIONS
    unknown = sorted(set(options) - known)
    if unknown:
        raise InputTypeError(
            f"{unknown[0]!r} is not an argument of a {search_type} search, which takes "
            f"{', '.join(sorted(known))}"
        )
