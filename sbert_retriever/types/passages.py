"""A text to be found, and a text found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sbert_retriever.errors import InputError
from sbert_retriever.types.checks import expect
from sbert_retriever.types.kinds import ScoreKind


@dataclass(frozen=True)
class Passage:
    """A text to be found, with an identity.

    Args:
        id: Any non-empty string; it comes back unchanged.
        text: What is encoded and returned.
        metadata: JSON-like values to filter on and to show. Nothing is ever added to it.
        source: Where the text comes from (a path, a URL); `index(prune=True)` and
            `delete(source=...)` work by it.

    Raises:
        InputTypeError: A field has the wrong type.
        InputError: The id is empty.

    Examples:
        >>> Passage("doc-1", "Cats purr.", {"lang": "en"}).metadata["lang"]
        'en'
    """

    id: str
    text: str
    metadata: Mapping[str, Any] = field(default_factory=dict)
    source: str | None = None

    def __post_init__(self) -> None:
        expect(self.id, str, "Passage.id")
        expect(self.text, str, f"Passage.text (id {self.id[:80]!r})")
        expect(self.metadata, Mapping, f"Passage.metadata (id {self.id[:80]!r})")
        if self.source is not None:
            expect(self.source, str, f"Passage.source (id {self.id[:80]!r})")
        if not self.id:
            raise InputError("Passage.id is empty: give any non-empty string")
        object.__setattr__(self, "metadata", dict(self.metadata))


@dataclass(frozen=True)
class Hit:
    """A passage found, with its score; the order of the list is the rank.

    Args:
        passage: What was found.
        score: Bigger is better, always.
        score_kind: The scale of `score`.
        first_score: The first stage's score, where a later stage replaced it.
        first_score_kind: The scale of `first_score`.
        rerank_score: The cross-encoder's own score, also where `score` joins both orders.
        rerank_score_kind: The scale of `rerank_score`.
        reranked: Whether a cross-encoder scored this passage.
        cut_short: Whether the time budget ended before this passage's turn.
        fallback: Why the stage before answered, where a stage failed or had no time; else None.
        truncated: Whether the pair was cut to fit the cross-encoder.
    """

    passage: Passage
    score: float
    score_kind: ScoreKind = "cosine"
    first_score: float | None = None
    first_score_kind: ScoreKind | None = None
    rerank_score: float | None = None
    rerank_score_kind: ScoreKind | None = None
    reranked: bool = False
    cut_short: bool = False
    fallback: str | None = None
    truncated: bool = False

    @property
    def id(self) -> str:
        """The passage's id."""
        return self.passage.id

    @property
    def text(self) -> str:
        """The passage's text."""
        return self.passage.text

    @property
    def metadata(self) -> Mapping[str, Any]:
        """The passage's metadata."""
        return self.passage.metadata

    @property
    def source(self) -> str | None:
        """The passage's source."""
        return self.passage.source


@dataclass(frozen=True)
class SearchResult:
    """Hits and the price of each stage.

    Args:
        hits: Best first.
        timings_ms: Milliseconds by stage: "encode", "search", "rerank", "total". Queries of one
            batch share them.
        candidates: How many hits of the first stage a cross-encoder was to score.
        rescored: How many it scored.
    """

    hits: list[Hit]
    timings_ms: Mapping[str, float]
    candidates: int = 0
    rescored: int = 0
