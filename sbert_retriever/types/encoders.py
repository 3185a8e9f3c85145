"""What turns texts into numbers, and what a collection remembers of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeAlias, runtime_checkable

from sbert_retriever.types.kinds import ScoreKind

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Vectors: TypeAlias = npt.NDArray[np.float32]
    """A float32 array (n, dim), one row a text; no texts give (0, dim)."""


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


class SparseVector(NamedTuple):
    """The numbers of a vector that are not 0.

    Args:
        indices: Which, each once.
        values: Their values, in the same order.
    """

    indices: list[int]
    values: list[float]


@dataclass(frozen=True, kw_only=True)
class SparseIdentity:
    """What makes two sparse encoders the same for a collection.

    Args:
        name: "bm25", or a model's name.
        score_kind: The scale of the inner products: "bm25" or "dot".
        idf: Whether the engine weighs terms by how few passages have them.
        settings: All else that it was made with.
        weights: Short hash of a model's weights; None for one that has none.
    """

    name: str
    score_kind: ScoreKind = "bm25"
    idf: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)
    weights: str | None = None


@runtime_checkable
class SparseEncoder(Protocol):
    """Texts to sparse vectors. `Bm25` and `Splade` are; so is any object of this shape."""

    @property
    def identity(self) -> SparseIdentity:
        """What the collection remembers of this encoder."""

    def encode_queries(self, texts: Iterable[str]) -> list[SparseVector]:
        """A vector for each question."""

    def encode_passages(self, texts: Iterable[str]) -> list[SparseVector]:
        """A vector for each passage."""


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
