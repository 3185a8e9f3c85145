"""A cross-encoder as LangChain's document compressor and as its cross-encoder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from langchain_core.callbacks import Callbacks
from langchain_core.cross_encoders import BaseCrossEncoder
from langchain_core.documents import Document
from langchain_core.documents.compressor import BaseDocumentCompressor
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr

from langchain_sbert._convert import RANK_KIND, hits_of_documents, with_scores
from sbert_retriever.rerank import Reranker, RerankOptions
from sbert_retriever.search.second_stage import as_reranker
from sbert_retriever.types import DEFAULT_RERANKER, Hit, Scorer

if TYPE_CHECKING:
    from sbert_retriever.encoder.cross_encoder import CrossEncoder

_CONFIG = ConfigDict(
    arbitrary_types_allowed=True,
    extra="forbid",
    populate_by_name=True,
    protected_namespaces=(),
)


class SBERTReranker(BaseDocumentCompressor):
    """Puts documents in the order of a cross-encoder; drops into `ContextualCompressionRetriever`.

    Documents come back as copies, each with its scores in `metadata["_sbert"]` ("score",
    "score_kind", "reranked", ...) and, where the scale has one, the relevance from 0 to 1 in
    `metadata["relevance_score"]`. Those given are not changed.

    Args:
        model_name: (or `model`) A cross-encoder's folder, packaged name or hub id.
        reranker: A `CrossEncoder`, `Reranker` or `Scorer` in the place of a name.
        top_n: How many documents to return; None is all.
        candidates: How many, from the front, are scored; None is all.
        budget_ms: Milliseconds for a call: as many documents as fit are scored, the first first.
        min_score: Drop documents that the cross-encoder scores below this, on its own scale.
        on_failure: "fallback" keeps the order that came in when the model fails, and says so in
            the metadata; "raise" raises. A `Reranker` that is given has its own.
        device: For a name.
        dtype: For a name.

    Raises:
        ModelNotFoundError: Nothing holds a model of that name.
        ValidationError: A field is unknown, or has an unusable value.
    """

    model_config = _CONFIG

    model_name: str | Path = Field(default=DEFAULT_RERANKER, alias="model")
    reranker: Any = None
    top_n: int | None = Field(default=5, ge=0, strict=True)
    candidates: int | None = Field(default=None, ge=0, strict=True)
    budget_ms: float | None = Field(default=None, ge=0)
    min_score: float | None = None
    on_failure: Literal["fallback", "raise"] = "fallback"
    device: str = "auto"
    dtype: str = "auto"

    _core: Reranker = PrivateAttr()

    def model_post_init(self, context: Any, /) -> None:
        """Find the model now; its weights are read at the first text."""
        super().model_post_init(context)
        given = self.model_name if self.reranker is None else self.reranker
        if isinstance(given, str | Path):
            self._core = Reranker.load(
                given, device=self.device, dtype=self.dtype, on_failure=self.on_failure
            )
        elif isinstance(given, Scorer) and not isinstance(given, type | Reranker):
            self._core = Reranker(given, on_failure=self.on_failure)
        else:
            self._core = as_reranker(given)

    def compress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Callbacks | None = None
    ) -> list[Document]:
        """The first `top_n` documents, best first.

        Raises:
            InputTypeError: The query is no str, or something among the documents is no Document.
        """
        hits = hits_of_documents(documents)
        found = self._core.rerank_detailed(query, hits, self._options())
        return [_document(documents, hit) for hit in found.hits]

    async def acompress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Callbacks | None = None
    ) -> list[Document]:
        """`compress_documents` for an event loop: the model works in a thread."""
        hits = hits_of_documents(documents)
        found = await self._core.arerank(query, hits, self._options())
        return [_document(documents, hit) for hit in found.hits]

    def _options(self) -> RerankOptions:
        return RerankOptions(
            k=self.top_n,
            candidates=self.candidates,
            budget_ms=self.budget_ms,
            min_score=self.min_score,
        )


def _document(documents: Sequence[Document], hit: Hit) -> Document:
    """The document behind a hit, with its scores, but for those made of its rank."""
    return with_scores(documents[int(hit.id)], hit, hidden=RANK_KIND)


class SBERTCrossEncoder(BaseModel, BaseCrossEncoder):
    """Pairs of texts to scores, for what takes LangChain's cross-encoder.

    Args:
        model_name: (or `model`) A cross-encoder's folder, packaged name or hub id.
        device: "auto", "cpu", "cuda", "cuda:1", "mps".
        dtype: "auto", "float32", "bfloat16", "float16", "int8" (quick, on a CPU).
        max_length: Tokens a pair may have; None is the model's own limit.
        label: For a model with several labels: the one that is scored.
        scale: "logit" as the model gives it, or "probability".

    Raises:
        ModelNotFoundError: Nothing holds a model of that name.
    """

    model_config = _CONFIG

    model_name: str | Path = Field(default=DEFAULT_RERANKER, alias="model")
    device: str = "auto"
    dtype: str = "auto"
    max_length: int | None = None
    label: int | str | None = None
    scale: Literal["logit", "probability"] = "logit"

    _core: CrossEncoder = PrivateAttr()

    def model_post_init(self, context: Any, /) -> None:
        """Find the model now; its weights are read at the first text."""
        from sbert_retriever.encoder.cross_encoder import CrossEncoder

        super().model_post_init(context)
        self._core = CrossEncoder.load(
            self.model_name,
            device=self.device,
            dtype=self.dtype,
            max_length=self.max_length,
            label=self.label,
            scale=self.scale,
        )

    @property
    def cross_encoder(self) -> CrossEncoder:
        """The model itself."""
        return self._core

    def score(self, text_pairs: list[tuple[str, str]]) -> list[float]:
        """A score for each (query, text), bigger is better."""
        scores: list[float] = self._core.score(text_pairs).tolist()
        return scores
