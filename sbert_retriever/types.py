"""The nouns that pass between rooms.

Stdlib only; numpy is imported for type checking alone, so that
`import sbert_retriever` stays cheap.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, get_args, runtime_checkable

from sbert_retriever.errors import InputError, InputTypeError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Vectors: TypeAlias = npt.NDArray[np.float32]
    """A float32 array (n, dim), one row a text; no texts give (0, dim)."""

ScoreKind: TypeAlias = Literal[
    "cosine",
    "dot",
    "neg_l2",
    "neg_l1",
    "rrf",
    "dbsf",
    "bm25",
    "maxsim",
    "logit",
    "probability",
    "fused",
]
"""The scale of a score. Bigger is better on each; scores compare only within one kind."""

Role: TypeAlias = Literal["query", "passage"]
OnTruncate: TypeAlias = Literal["warn", "error", "ignore"]
RerankMode: TypeAlias = Literal["replace", "fuse"]


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
        _expect(self.id, str, "Passage.id")
        _expect(self.text, str, f"Passage.text (id {self.id[:80]!r})")
        _expect(self.metadata, Mapping, f"Passage.metadata (id {self.id[:80]!r})")
        if self.source is not None:
            _expect(self.source, str, f"Passage.source (id {self.id[:80]!r})")
        if not self.id:
            raise InputError("Passage.id is empty: give any non-empty string")
        object.__setattr__(self, "metadata", dict(self.metadata))


def _expect(value: object, kind: type, name: str) -> None:
    if not isinstance(value, kind):
        raise InputTypeError(f"{name} is {type(value).__name__}, expected {kind.__name__}")


@dataclass(frozen=True)
class Hit:
    """A passage found, with its score; the order of the list is the rank.

    Args:
        passage: What was found.
        score: Bigger is better, always.
        score_kind: The scale of `score`.
        first_score: The first stage's score, where a later stage replaced it.
        first_score_kind: The scale of `first_score`.
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


@dataclass(frozen=True)
class Failure:
    """One thing that could not be indexed, and why.

    Args:
        id: The passage id, or the path of a file.
        reason: One sentence.
    """

    id: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class IndexReport:
    """What one `index` call did. Counts are passages.

    Args:
        added: New ids.
        updated: Known ids whose text, metadata or source changed.
        unchanged: Known ids left alone.
        deleted: Passages removed by `prune`.
        failed: Passages or files that did not go in; `failures` says why.
        encoded: Texts that went through the encoder (duplicates once).
        truncated: Encoded texts that were longer than the model reads.
        longest: Tokens of the longest of those; 0 where none was.
        failures: One entry each for what did not go in.
        dry_run: Whether nothing was written.
        seconds: Wall time.
    """

    added: int = 0
    updated: int = 0
    unchanged: int = 0
    deleted: int = 0
    failed: int = 0
    encoded: int = 0
    truncated: int = 0
    longest: int = 0
    failures: tuple[Failure, ...] = ()
    dry_run: bool = False
    seconds: float = 0.0

    def __str__(self) -> str:
        counts = ", ".join(
            f"{getattr(self, name)} {name}"
            for name in ("added", "updated", "unchanged", "deleted", "failed")
        )
        return f"{'dry run: ' if self.dry_run else ''}{counts} ({self.seconds:.1f} s)"


@dataclass(frozen=True, kw_only=True)
class ModelIdentity:
    """What makes two encoders the same for a collection. None means unknown.

    Args:
        name: As asked for: a packaged name, a hub id, a path; or a class for a foreign encoder.
        dim: Width of the vectors.
        similarity: Which score the vectors are made for.
        max_length: Tokens the model reads.
        pooling: How token vectors become one ("mean", "cls", ...).
        normalize: Whether vectors leave with length 1.
        query_prompt: Put before each query.
        passage_prompt: Put before each passage.
        weights: Short hash of the weights and of every module after them.
        precision: How the stored weights were kept, e.g. "float32", "dequantised int8".
    """

    name: str | None
    dim: int
    similarity: Literal["cosine", "dot", "neg_l2", "neg_l1"] = "cosine"
    max_length: int | None = None
    pooling: str | None = None
    normalize: bool | None = None
    query_prompt: str | None = None
    passage_prompt: str | None = None
    weights: str | None = None
    precision: str | None = None

    def differences(self, other: ModelIdentity) -> dict[str, tuple[Any, Any]]:
        """Fields known on both sides whose values differ: {field: (ours, theirs)}.

        The name and the precision never count where both weights are known: the same weights
        under another name are the same model.
        """
        skip = {"name", "precision"} if self.weights and other.weights else {"precision"}
        pairs = {
            f.name: (getattr(self, f.name), getattr(other, f.name))
            for f in fields(self)
            if f.name not in skip
        }
        return {
            name: (ours, theirs)
            for name, (ours, theirs) in pairs.items()
            if ours is not None and theirs is not None and ours != theirs
        }


@runtime_checkable
class Encoder(Protocol):
    """Texts to vectors. `BiEncoder` is one; so is any object of this shape."""

    @property
    def dim(self) -> int:
        """Width of the vectors."""

    @property
    def identity(self) -> ModelIdentity:
        """What the collection remembers of this encoder."""

    def encode_queries(self, texts: Iterable[str]) -> Vectors:
        """Encode questions: float32 (n, dim)."""

    def encode_passages(self, texts: Iterable[str]) -> Vectors:
        """Encode passages: float32 (n, dim)."""


@dataclass(frozen=True, kw_only=True)
class ScorerIdentity:
    """What makes two scorers the same for a measurement. None means unknown.

    Args:
        name: As asked for: a packaged name, a hub id, a path; or a class for a foreign scorer.
        score_kind: The scale of its scores.
        label: The label that is scored.
        max_length: Tokens of a pair that the model reads.
        weights: Short hash of the weights.
        precision: How the stored weights were kept, e.g. "float32", "dequantised int8".
        dtype: The floating type it computes in.
    """

    name: str | None
    score_kind: ScoreKind = "logit"
    label: str | None = None
    max_length: int | None = None
    weights: str | None = None
    precision: str | None = None
    dtype: str | None = None


@runtime_checkable
class Scorer(Protocol):
    """Pairs to scores. `CrossEncoder` is one; so is any object of this shape.

    Its attribute `score_kind`, where it has one, names the scale; without it that is "logit".
    """

    def score(self, pairs: Iterable[tuple[str, str]]) -> npt.NDArray[np.float32]:
        """Score (query, passage) pairs: float32 (n,), bigger is better."""


@dataclass(frozen=True, kw_only=True)
class RetrieverInfo:
    """What is known of an open collection.

    Args:
        location: A folder, ":memory:" or a URL.
        collection_name: Which collection.
        engine: "embedded", "local" or "server".
        count: Passages.
        indexed: Vectors in the HNSW graph; the rest is searched exactly.
        dim: Width of the vectors.
        score_kind: The scale of its scores.
        model: Name of the model that made the vectors; None where unknown.
        identity: All that is known of that model.
        filterable: Payload fields with an index.
    """

    location: str
    collection_name: str
    engine: str
    count: int
    indexed: int
    dim: int
    score_kind: ScoreKind
    model: str | None
    identity: ModelIdentity | None
    filterable: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Profile:
    """An operating point: how a query is answered, from fast to accurate. None is unset.

    Args:
        name: As tables and plots write it.
        candidates: Hits that the first stage finds.
        rerank_depth: How many of them the cross-encoder may score; 0 none, None all of them.
        rerank_mode: Whether its order replaces the first stage's or is fused with it.
        fuse_weight: Its share in a weighted sum; None fuses ranks.
        pair_length: Tokens of a pair that it reads; None is its own limit.
        budget_ms: Milliseconds for a query; as many candidates as fit are scored.
        late: How many candidates late interaction puts in order before it; 0 none.
        early_margin: Candidates whose score lies more than this below the k-th's are not scored.
        early_batches: Stop when the first k stayed the same over so many batches.
        exact: Whether the first stage compares with every vector.
        ef: Width of its walk through the graph; None is the engine's own.
        truncate_dim: Dimensions of the vectors that are used; None is all.
        reranker: The cross-encoder that it was measured with, loaded where a retriever was opened
            without one; None names none.

    Raises:
        InputError: A value is out of range.
        InputTypeError: A value has the wrong type.

    Examples:
        >>> print(Profile.named("fast"))
        fast: candidates=20, rerank_depth=0, rerank_mode='replace'
    """

    name: str = "custom"
    candidates: int = 50
    rerank_depth: int | None = None
    rerank_mode: RerankMode = "replace"
    fuse_weight: float | None = None
    pair_length: int | None = None
    budget_ms: float | None = None
    late: int = 0
    early_margin: float | None = None
    early_batches: int | None = None
    exact: bool = False
    ef: int | None = None
    truncate_dim: int | None = None
    reranker: str | None = None

    def __post_init__(self) -> None:
        _expect(self.name, str, "Profile.name")
        if self.reranker is not None:
            _expect(self.reranker, str, "Profile.reranker")
        _expect(self.exact, bool, "Profile.exact")
        _in_range("candidates", self.candidates, least=1)
        _in_range("late", self.late, least=0)
        for name, least in _PROFILE_WHOLE.items():
            if getattr(self, name) is not None:
                _in_range(name, getattr(self, name), least=least)
        for name, most in _PROFILE_NUMBERS.items():
            if getattr(self, name) is not None:
                _in_range(name, getattr(self, name), least=0, most=most, whole=False)
        if self.rerank_mode not in get_args(RerankMode):
            raise InputError(
                f"Profile.rerank_mode is {self.rerank_mode!r}, expected 'replace' or 'fuse'"
            )
        if self.fuse_weight is not None and self.rerank_mode == "replace":
            raise InputError("Profile.fuse_weight is set and rerank_mode is 'replace': use 'fuse'")

    def __str__(self) -> str:
        shown = [
            f"{f.name}={getattr(self, f.name)!r}"
            for f in fields(self)
            if f.name in _PROFILE_SHOWN or getattr(self, f.name) != f.default
        ]
        return f"{self.name}: {', '.join(x for x in shown if not x.startswith('name='))}"

    @property
    def reranks(self) -> bool:
        """Whether a cross-encoder takes part."""
        return self.rerank_depth != 0

    @classmethod
    def named(cls, name: str) -> Profile:
        """One of the points that come with the package: "fast", "balanced", "accurate".

        Raises:
            InputError: There is none of that name.
        """
        if name not in _PROFILES:
            raise InputError(f"no profile {name!r}, expected one of {', '.join(_PROFILES)}")
        return cls(name=name, **_PROFILES[name])

    def save(self, path: str | Path) -> None:
        """Write it as JSON."""
        text = json.dumps(asdict(self), indent=2)
        Path(path).write_text(f"{text}\n", encoding="utf-8")

    @classmethod
    def load(cls, path: str | Path) -> Profile:
        """Read it from JSON; a field that is absent has its default.

        Raises:
            InputError: The file cannot be read, or holds something else.
            InputTypeError: A value has the wrong type.
        """
        try:
            value = json.loads(Path(path).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise InputError(f"{path} cannot be read as a profile: {error}") from error
        known = {f.name for f in fields(cls)}
        if not isinstance(value, dict) or set(value) - known:
            wrong = sorted(set(value) - known) if isinstance(value, dict) else type(value).__name__
            raise InputError(f"{path} holds {wrong}, expected a JSON object of {sorted(known)}")
        return cls(**value)


_PROFILES: dict[str, dict[str, Any]] = {
    "fast": {"candidates": 20, "rerank_depth": 0},
    "balanced": {"candidates": 50, "rerank_depth": 20, "rerank_mode": "fuse"},
    "accurate": {"candidates": 100, "rerank_depth": 100, "rerank_mode": "fuse", "exact": True},
}
_PROFILE_SHOWN = ("candidates", "rerank_depth", "rerank_mode")
_PROFILE_WHOLE = {"rerank_depth": 0, "pair_length": 16, "early_batches": 1, "ef": 1} | {
    "truncate_dim": 1
}
_PROFILE_NUMBERS = {"fuse_weight": 1.0, "budget_ms": math.inf, "early_margin": math.inf}


def _in_range(
    name: str, value: object, *, least: float, most: float = math.inf, whole: bool = True
) -> None:
    kinds = int if whole else int | float
    if isinstance(value, bool) or not isinstance(value, kinds):
        raise InputTypeError(
            f"Profile.{name} is {value!r}, expected a {'whole ' if whole else ''}number"
        )
    if not (math.isfinite(value) and least <= value <= most):
        limit = "or more" if most == math.inf else f"to {most:g}"
        raise InputError(f"Profile.{name} is {value}, expected {least:g} {limit}")
