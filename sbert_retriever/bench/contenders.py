"""Who is measured: this library, and what stands beside it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from sbert_retriever.types import Passage

Pairs: TypeAlias = Sequence[tuple[str, str]]
OURS = "sbert-retriever"


@dataclass(frozen=True, kw_only=True)
class Models:
    """Which models every contender runs.

    Args:
        bi_encoder: A folder, a packaged name or a hub id.
        cross_encoder: The same, or None where nothing is rescored.
        device: "auto", "cpu", "cuda", "cuda:1", "mps".
        dtype: Of this library; the others run with their defaults.
    """

    bi_encoder: str
    cross_encoder: str | None
    device: str = "auto"
    dtype: str = "auto"


@dataclass(frozen=True)
class Filled:
    """A collection that was filled.

    Args:
        ask: Asks it one question.
        close: Lets go of it.
    """

    ask: Callable[[str], object]
    close: Callable[[], object]


@dataclass(frozen=True, kw_only=True)
class Contender:
    """What one library can do; None where it has nothing for it.

    Args:
        name: As asked for.
        encode: Passages to vectors.
        encode_queries: Questions to vectors.
        rerank: Pairs to scores.
        index: Passages into a new collection in a folder.
        device: Where it runs, where it says so.
        dtype: In which floating type, where it says so.
    """

    name: str
    encode: Callable[[list[str]], object] | None = None
    encode_queries: Callable[[list[str]], object] | None = None
    rerank: Callable[[Pairs], object] | None = None
    index: Callable[[list[str], Path], Filled] | None = None
    device: str | None = None
    dtype: str | None = None


def ours(models: Models) -> Contender:
    """This library."""
    from sbert_retriever.encoder.bi_encoder import BiEncoder
    from sbert_retriever.encoder.cross_encoder import CrossEncoder
    from sbert_retriever.retriever import Retriever

    device, dtype = models.device, models.dtype
    encoder = BiEncoder.load(models.bi_encoder, device=device, dtype=dtype, on_truncate="ignore")
    scorer = None
    if models.cross_encoder is not None:
        scorer = CrossEncoder.load(
            models.cross_encoder, device=device, dtype=dtype, on_truncate="ignore"
        )

    def index(texts: list[str], folder: Path) -> Filled:
        retriever = Retriever.open(folder, model=encoder)
        retriever.index(Passage(str(n), text) for n, text in enumerate(texts))
        return Filled(retriever.search, retriever.close)

    return Contender(
        name=OURS,
        encode=encoder.encode_passages,
        encode_queries=encoder.encode_queries,
        rerank=None if scorer is None else scorer.score,
        index=index,
        device=encoder.device,
        dtype=encoder.dtype,
    )
