"""What an FAQ holds, and what it answers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from sbert_retriever.errors import InputError, InputTypeError
from sbert_retriever.types import ScoreKind
from sbert_retriever.types.checks import expect

Outcome: TypeAlias = Literal["answer", "choose", "abstain"]
"""What `Faq.ask` came to: an answer, a short list to choose from, or "I don't know"."""


@dataclass(frozen=True, kw_only=True)
class FaqEntry:
    """One answer, and the ways in which people ask for it.

    Args:
        id: Any non-empty string; it comes back unchanged.
        answer: What is handed out.
        phrasings: Questions that this answers, at least one; the first is the entry's title.
        tags: Words to filter by.
        language: Such as "en"; None where it is not said.
        links: Addresses that go with the answer.

    Raises:
        InputTypeError: A field has the wrong type.
        InputError: The id, the answer or a phrasing is empty, or there is no phrasing.

    Examples:
        >>> entry = FaqEntry(id="hours", answer="9 to 5.", phrasings=["When are you open?"])
        >>> entry.title
        'When are you open?'
    """

    id: str
    answer: str
    phrasings: tuple[str, ...]
    tags: tuple[str, ...] = ()
    language: str | None = None
    links: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        expect(self.id, str, "FaqEntry.id")
        name = f"FaqEntry (id {self.id[:80]!r})"
        expect(self.answer, str, f"{name}.answer")
        for field_name in ("phrasings", "tags", "links"):
            kept = _texts(getattr(self, field_name), f"{name}.{field_name}")
            object.__setattr__(self, field_name, kept)
        if self.language is not None:
            expect(self.language, str, f"{name}.language")
        if not self.id:
            raise InputError("FaqEntry.id is empty: give any non-empty string")
        if not self.answer.strip():
            raise InputError(f"{name} has an empty answer: write what is to be answered")
        if not self.phrasings:
            raise InputError(f"{name} has no phrasing: give at least one question that it answers")

    @property
    def title(self) -> str:
        """The first phrasing."""
        return self.phrasings[0]


@dataclass(frozen=True, kw_only=True)
class FaqCandidate:
    """An entry that a question may be about.

    Args:
        entry: The entry.
        phrasing: Its phrasing that matched best.
        score: How well: the first stage's score, or the cross-encoder's where it looked, whose
            order weighs both.
        score_kind: The scale of `score`.
        first_score: The first stage's score, where a cross-encoder gave `score`.
    """

    entry: FaqEntry
    phrasing: str
    score: float
    score_kind: ScoreKind = "cosine"
    first_score: float | None = None


@dataclass(frozen=True, kw_only=True)
class FaqAnswer:
    """What `Faq.ask` found.

    Args:
        question: As it was looked up; with the last question before it, where it was a follow-up.
        outcome: "answer", "choose" (the candidates are a list to choose from) or "abstain".
        answer: The text; None unless the outcome is "answer".
        confidence: The calibrated probability that the first candidate is what the question is
            about; None before `Faq.calibrate`, and where no entry is near.
        entry: The entry that answers; None unless the outcome is "answer".
        phrasing: Its phrasing that matched best; None unless the outcome is "answer".
        candidates: The nearest entries, best first, each once; where the outcome is "abstain" they
            are not good enough to be shown.
        exact: Whether the question is one of the entry's phrasings, but for case and punctuation.
        timings_ms: Milliseconds by stage: "exact", "encode", "search", "rerank", "total".
        fallback: Why a stage before answered, where the reranker failed or had no time.
    """

    question: str
    outcome: Outcome
    answer: str | None = None
    confidence: float | None = None
    entry: FaqEntry | None = None
    phrasing: str | None = None
    candidates: tuple[FaqCandidate, ...] = ()
    exact: bool = False
    timings_ms: Mapping[str, float] = field(default_factory=dict)
    fallback: str | None = None

    @property
    def choices(self) -> tuple[str, ...]:
        """The candidates as they are shown to choose from: each by its phrasing that matched best.

        By their titles, where the question is a phrasing of all of them.
        """
        return tuple(c.entry.title if self.exact else c.phrasing for c in self.candidates)


@dataclass(frozen=True, kw_only=True)
class Labelled:
    """A question and the entry that answers it, to calibrate with.

    Args:
        question: As a user asks it.
        entry: The id of the entry that answers it; None where none does (out of scope).
    """

    question: str
    entry: str | None = None

    def __post_init__(self) -> None:
        expect(self.question, str, "Labelled.question")
        if self.entry is not None:
            expect(self.entry, str, f"Labelled.entry (question {self.question[:60]!r})")


@dataclass(frozen=True, kw_only=True)
class Feedback:
    """What a user said of an answer.

    Args:
        question: As it was asked.
        entry: The id of the entry that was handed out.
        good: Whether it was the right one.
        at: When, in ISO 8601, UTC.
    """

    question: str
    entry: str
    good: bool
    at: str


@dataclass(frozen=True, kw_only=True)
class Gap:
    """Questions that no entry answered and that are about the same.

    Args:
        question: The one in their middle.
        questions: All of them, the nearest to the middle first; a question that was asked several
            times is there once.
        count: How often they were asked.
        nearest: The id of the entry nearest to the middle; None where the FAQ is empty.
        score: How near that entry is, by the first stage.
    """

    question: str
    questions: tuple[str, ...]
    count: int
    nearest: str | None = None
    score: float | None = None


def _texts(value: object, name: str) -> tuple[str, ...]:
    """Texts without those that are blank or come twice, in their order."""
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        raise InputTypeError(f"{name} is {type(value).__name__}, expected a list of str")
    kept: dict[str, None] = {}
    for text in value:
        expect(text, str, f"{name}: an item")
        if text.strip():
            kept[text] = None
    return tuple(kept)
