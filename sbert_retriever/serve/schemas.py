"""What goes in and comes out, as OpenAPI shows it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from sbert_retriever.serve.settings import MOST_BATCH, MOST_K, MOST_TEXT
from sbert_retriever.types import FusionMethod, RerankMode, ScoreKind, SearchMode

Number = Annotated[float, Field(allow_inf_nan=False)]
# The first item that is wrong ends a list: of millions, the errors alone would take a minute.
_BATCH = Field(fail_fast=True, max_length=MOST_BATCH)
Texts = Annotated[list[str], _BATCH]
TokenNumbers = Annotated[list[int], _BATCH]


class OwnRequest(BaseModel):
    """A request of ours: what it does not know it refuses."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _one_unknown(cls, given: Any) -> Any:
        """Leave of the fields that are unknown the first, so that there is one error of them."""
        if not isinstance(given, dict):
            return given
        unknown = next((name for name in given if name not in cls.model_fields), None)
        return {n: value for n, value in given.items() if n in cls.model_fields or n == unknown}


class _Foreign(BaseModel):
    """A request in a vendor's shape: what we have no use for is let pass."""

    model_config = ConfigDict(extra="ignore", allow_inf_nan=False)


class ErrorDetail(BaseModel):
    """What went wrong."""

    message: str = Field(description="What was found, what was expected, and what to do.")
    type: str
    param: str | None = None
    code: str | None = None


class ErrorAnswer(BaseModel):
    """Every error has this shape, which OpenAI's clients read."""

    error: ErrorDetail


class FusionSettings(OwnRequest):
    """How a hybrid search joins words and meanings."""

    method: FusionMethod | None = None
    sparse_weight: float | None = Field(None, ge=0, le=1)
    k: int = Field(60, ge=1, le=1_000_000)
    depth: int = Field(100, ge=1, le=10_000)


class SearchRequest(OwnRequest):
    """A search, with the arguments of `Retriever.search`."""

    query: str = Field(description="A question, or any text.", max_length=MOST_TEXT)
    k: int = Field(10, ge=1, le=MOST_K, description="How many hits.")
    budget_ms: float | None = Field(
        None,
        ge=0,
        le=600_000,
        description="Milliseconds for the search, waiting included: the cross-encoder scores as "
        "many candidates as fit. Without it, the collection's profile holds.",
    )
    filter: dict[str, Any] | None = Field(
        None, description='On metadata: {"lang": "en", "year": {"gte": 2020}}.'
    )
    mode: SearchMode | None = Field(None, description="By meaning, by words, or by both.")
    profile: Literal["fast", "balanced", "accurate"] | None = None
    candidates: int | None = Field(
        None, ge=1, le=1000, description="How many of the first stage's hits are scored again."
    )
    rerank_mode: RerankMode | None = None
    score_threshold: Number | None = Field(
        None, description="Leave out what the first stage scores below this."
    )
    rerank_threshold: Number | None = Field(
        None, description="Leave out what the cross-encoder scores below this."
    )
    group_by: str | None = Field(
        None, min_length=1, max_length=200, description='"source" or a metadata field.'
    )
    group_size: int = Field(
        1, ge=1, le=100, description="Hits of a group; k groups of so many are bounded as k is."
    )
    diversity: float | None = Field(None, ge=0, le=1)
    distinct: Number | None = Field(
        None, description="Leave out a hit that is as near as this to a better one: 0.95."
    )
    expand: Literal["neighbours", "parent"] | None = None
    window: int = Field(1, ge=0, le=20)
    exact: bool | None = None
    ef: int | None = Field(None, ge=1, le=10_000)
    oversampling: float | None = Field(
        None, ge=1, le=100, description="For quantised vectors: how many times as many are read."
    )
    rescore: bool | None = None
    fusion: FusionSettings | None = None

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [{"query": "how do I merge two dicts?", "k": 5, "budget_ms": 200}]
        },
    )


class HitAnswer(BaseModel):
    """A passage that was found."""

    id: str
    text: str
    metadata: dict[str, Any]
    score: float = Field(description="Bigger is better; compares within one score_kind.")
    score_kind: ScoreKind
    first_score: float | None = Field(
        description="The first stage's score, where a later stage replaced it."
    )
    first_score_kind: ScoreKind | None
    rerank_score: float | None = Field(
        description="The cross-encoder's own, also where score joins both orders."
    )
    rerank_score_kind: ScoreKind | None
    source: str | None
    reranked: bool
    cut_short: bool = Field(description="Whether the time ended before this passage's turn.")
    fallback: str | None = Field(description="Why the stage before answered, else null.")
    truncated: bool = Field(
        description="Whether the cross-encoder read no more than its beginning."
    )


class SearchAnswer(BaseModel):
    """Hits, best first, and what each stage took."""

    hits: list[HitAnswer]
    timings_ms: dict[str, float] = Field(
        description="wait, encode, search, rerank and total, in milliseconds."
    )
    candidates: int = Field(description="How many hits a cross-encoder was to score.")
    rescored: int = Field(description="How many it scored.")


class EmbeddingsRequest(_Foreign):
    """OpenAI's request. Token numbers are refused: send texts."""

    model: str | None = Field(None, description="Any: the service has one model.")
    input: str | Texts | TokenNumbers | Annotated[list[TokenNumbers], _BATCH]
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: int | None = Field(
        None, ge=1, le=100_000, description="Keep the first so many numbers of each vector."
    )
    input_type: Literal["query", "passage", "search_query", "search_document"] = Field(
        "passage", description="For models that encode questions and passages differently."
    )
    user: str | None = None


class Embedding(BaseModel):
    """A vector: numbers, or base64 of little-endian float32."""

    object: Literal["embedding"] = "embedding"
    index: int
    embedding: list[float] | str


class Usage(BaseModel):
    """Tokens that were read."""

    prompt_tokens: int
    total_tokens: int


class EmbeddingsAnswer(BaseModel):
    """OpenAI's answer."""

    object: Literal["list"] = "list"
    data: list[Embedding]
    model: str
    usage: Usage


class ModelCard(BaseModel):
    """A model of the service."""

    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: str


class ModelList(BaseModel):
    """The models of the service."""

    object: Literal["list"] = "list"
    data: list[ModelCard]


class DocumentText(_Foreign):
    """A document as an object."""

    text: str


class RerankRequest(_Foreign):
    """The request of Jina's and Cohere's clients."""

    model: str | None = Field(None, description="Any: the service has one cross-encoder.")
    query: str = Field(max_length=MOST_TEXT)
    documents: list[str | DocumentText] = Field(min_length=1, max_length=MOST_BATCH, fail_fast=True)
    top_n: int | None = Field(None, ge=1, description="How many to return; null is all.")
    return_documents: bool = False


class RerankedDocument(BaseModel):
    """A document's place among the others."""

    index: int = Field(description="Its position in the request.")
    relevance_score: float = Field(description="A probability, 0 to 1.")
    document: DocumentText | None = None


class RerankUsage(BaseModel):
    """Tokens that were read."""

    total_tokens: int


class RerankAnswer(BaseModel):
    """Documents, best first."""

    id: str
    object: Literal["list"] = "list"
    model: str
    results: list[RerankedDocument]
    usage: RerankUsage
    meta: dict[str, Any] = Field(default_factory=dict)


class Health(BaseModel):
    """Whether the process answers."""

    status: Literal["ok"] = "ok"


class Readiness(BaseModel):
    """Whether questions can be answered without waiting for models."""

    status: Literal["ready", "starting", "failed"]
    reason: str | None = None


class PageFacts(BaseModel):
    """What the page shows of the collection."""

    collection: str | None
    passages: int | None
    model: str | None
    score_kind: ScoreKind | None
    hybrid: bool
    reranker: str | None
    faq_entries: int | None
    faq_feedback: bool = Field(description="Whether there is a log for POST /faq/feedback.")
    efficiency_known: bool = Field(description="Whether /paper/efficiency answers at once.")
    version: str


class EfficiencyAnswer(BaseModel):
    """What `sbert-retriever paper-efficiency --json` prints, measured on this machine."""

    sentences: int
    pairs: int
    encode_s: float
    compare_s: float
    cross_encoder_s: float
    sampled_pairs: int
    bi_encoder: str
    cross_encoder: str
    machine: str
    paper: dict[str, float]

    model_config = ConfigDict(extra="allow")


class PoolingRequest(OwnRequest):
    """Sentences to compare by mean, max and CLS pooling."""

    sentences: list[Annotated[str, Field(min_length=1, max_length=2000)]] = Field(
        min_length=2, max_length=8, fail_fast=True
    )


class PoolingAnswer(BaseModel):
    """Cosines of each pair of sentences, by pooling: a square matrix each."""

    model: str
    trained_with: str = Field(description="The pooling that the model was trained with.")
    cosines: dict[str, list[list[float]]]
