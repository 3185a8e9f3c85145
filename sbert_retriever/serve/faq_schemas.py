"""What goes in and comes out of /faq, as OpenAPI shows it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from sbert_retriever.serve.schemas import OwnRequest
from sbert_retriever.serve.settings import MOST_TEXT
from sbert_retriever.types import ScoreKind

Id = Annotated[str, Field(min_length=1, max_length=1000)]
ShortText = Annotated[str, Field(min_length=1, max_length=MOST_TEXT)]


class FaqQuestion(OwnRequest):
    """A question to the FAQ."""

    question: str = Field(max_length=MOST_TEXT, pattern=r"\S", description="Not blank.")
    previous: str | None = Field(
        None,
        max_length=MOST_TEXT,
        description="The last question: a short follow-up is looked up with it.",
    )
    budget_ms: float | None = Field(
        None,
        ge=0,
        le=600_000,
        description="Milliseconds, for a service whose cross-encoder looks at the FAQ's entries, "
        "too (--faq-rerank).",
    )
    k: int = Field(3, ge=1, le=50, description="How many candidates at most.")
    filter: dict[str, Any] | None = Field(None, description='On "tags" and "language".')

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"question": "When are you open?"}]}
    )


class FaqEntryBody(OwnRequest):
    """An entry without its id."""

    answer: str = Field(min_length=1, max_length=100_000)
    phrasings: list[ShortText] = Field(
        min_length=1,
        max_length=1000,
        fail_fast=True,
        description="Questions that it answers; the first is shown.",
    )
    tags: list[Annotated[str, Field(max_length=200)]] = Field(
        default=[], max_length=100, fail_fast=True
    )
    language: str | None = Field(None, max_length=50)
    links: list[Annotated[str, Field(max_length=2000)]] = Field(
        default=[], max_length=100, fail_fast=True
    )


class FaqEntryWhole(FaqEntryBody):
    """An entry."""

    id: Id


class FaqEntryAnswer(BaseModel):
    """An entry as it is kept."""

    id: str
    answer: str
    phrasings: list[str]
    tags: list[str]
    language: str | None
    links: list[str]


class FaqEntries(BaseModel):
    """Entries in the order of their ids."""

    entries: list[FaqEntryAnswer]
    count: int = Field(description="How many there are in all.")


class FaqCandidateAnswer(BaseModel):
    """An entry that a question may be about."""

    entry: FaqEntryAnswer
    phrasing: str = Field(description="Its phrasing that matched best.")
    score: float
    score_kind: ScoreKind
    first_score: float | None


class FaqAnswerBody(BaseModel):
    """An answer, a list to choose from, or "I don't know"."""

    outcome: Literal["answer", "choose", "abstain"]
    answer: str | None
    confidence: float | None = Field(
        description="A calibrated probability; null before the FAQ was calibrated."
    )
    candidates: list[FaqCandidateAnswer]
    entry: FaqEntryAnswer | None
    phrasing: str | None
    question: str = Field(description="As it was looked up.")
    exact: bool
    fallback: str | None
    timings_ms: dict[str, float]


class FaqFeedback(OwnRequest):
    """What a user said of an answer."""

    question: str = Field(
        min_length=1,
        max_length=2 * MOST_TEXT + 1,
        description='As it was looked up: the answer\'s "question".',
    )
    entry: Id = Field(description="The id of the entry that was handed out.")
    good: bool


class FaqCalibration(OwnRequest):
    """Learn from the feedback that was kept when to answer."""

    target_precision: float = Field(
        0.95, ge=0, le=1, description="The share of answers that shall be right."
    )
    dry_run: bool = Field(False, description="Report, and keep nothing.")

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"dry_run": True}]})


class FaqCurvePoint(BaseModel):
    """What answering from one confidence on comes to."""

    confidence: float
    precision: float
    coverage: float


class FaqCalibrated(BaseModel):
    """What was learned, cross-validated."""

    kept: bool = Field(description="Whether the FAQ goes by it from now on.")
    questions: int = Field(description="How many were learned from.")
    in_scope: int
    exact: int = Field(description="How many others are phrasings of the FAQ.")
    unclear: int = Field(description="How many others say nothing.")
    scope_unknown: int = Field(description="Of how many only a wrong entry is known.")
    answer_at: float = Field(description="The confidence from which on an answer is given.")
    precision: float
    coverage: float
    accuracy: float
    calibration_error: float
    auroc: dict[str, float]
    curve: list[FaqCurvePoint]


class FaqGap(BaseModel):
    """Questions that no entry answered and that are about the same."""

    question: str = Field(description="The one in their middle.")
    questions: list[str]
    count: int = Field(description="How often they were asked.")
    nearest: str | None = Field(description="The id of the nearest entry.")
    score: float | None


class FaqGaps(BaseModel):
    """Gaps, the most asked first."""

    gaps: list[FaqGap]
    count: int = Field(description="How many there are in all.")


class Deleted(BaseModel):
    """How many entries were deleted."""

    deleted: int


class Kept(BaseModel):
    """Feedback was kept."""

    kept: bool
