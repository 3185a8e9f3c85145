"""What was done, and what is known of a collection."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sbert_retriever.types.encoders import ModelIdentity
from sbert_retriever.types.kinds import ScoreKind


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
        pruned: The sources that `prune` removed passages of.
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
    pruned: tuple[str, ...] = ()

    def __str__(self) -> str:
        counts = ", ".join(
            f"{getattr(self, name)} {name}"
            for name in ("added", "updated", "unchanged", "deleted", "failed")
        )
        return f"{'dry run: ' if self.dry_run else ''}{counts} ({self.seconds:.1f} s)"


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
        sparse: The encoder of its sparse vectors; None where it has none.
        quantized: Whether searches look at small copies of its vectors first.
        tokens: Whether it keeps the vectors of each passage's tokens.
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
    sparse: str | None = None
    quantized: bool = False
    tokens: bool = False
