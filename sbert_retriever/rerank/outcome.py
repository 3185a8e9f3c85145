"""Scores to hits: pure functions that leave what they are given as it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from sbert_retriever.rerank.fusion import (
    Scores,
    best_first,
    reciprocal_rank_fusion,
    weighted_sum,
)
from sbert_retriever.rerank.options import Ended, RerankOptions, RerankResult
from sbert_retriever.types import Hit, RerankMode, ScoreKind


@dataclass(frozen=True)
class Ordering:
    """What the second stage's scores do to the first stage's order.

    Args:
        mode: Replace it, or fuse with it.
        weight: For "fuse": the second stage's share; None fuses ranks.
        rrf_k: The constant of reciprocal rank fusion.
        kind: The scale of the second stage's scores.
    """

    mode: RerankMode
    weight: float | None
    rrf_k: int
    kind: ScoreKind

    @property
    def score_kind(self) -> ScoreKind:
        """The scale of the scores that hits leave with."""
        if self.mode == "replace":
            return self.kind
        return "rrf" if self.weight is None else "fused"

    def scores(self, hits: Sequence[Hit], second: npt.NDArray[np.float32]) -> Scores:
        """The scores (n,) that order the hits."""
        if self.mode == "replace":
            return second.astype(np.float64)
        if self.weight is None:
            return reciprocal_rank_fusion(second, k=self.rrf_k)
        return weighted_sum([hit.score for hit in hits], second, weight=self.weight)

    def order(self, hits: Sequence[Hit], second: npt.NDArray[np.float32]) -> list[int]:
        """The positions of the hits, best first; ties keep the first stage's order."""
        return best_first(self.scores(hits, second))


def rescored(
    hits: Sequence[Hit],
    second: npt.NDArray[np.float32],
    truncated: npt.NDArray[np.bool_],
    ordering: Ordering,
    min_score: float | None,
) -> list[Hit]:
    """The hits with their new scores, best first, without those below `min_score`.

    Args:
        hits: In the first stage's order.
        second: What the scorer gave them: (n,).
        truncated: Which pairs were cut: (n,).
        ordering: What the scores do.
        min_score: Compared with `second`; None keeps all.
    """
    scores = ordering.scores(hits, second)
    return [
        _rescored(hits[i], float(scores[i]), ordering.score_kind, truncated=bool(truncated[i]))
        for i in best_first(scores)
        if min_score is None or second[i] >= min_score
    ]


def _rescored(hit: Hit, score: float, kind: ScoreKind, *, truncated: bool) -> Hit:
    first = hit.first_score is None
    return replace(
        hit,
        score=score,
        score_kind=kind,
        first_score=hit.score if first else hit.first_score,
        first_score_kind=hit.score_kind if first else hit.first_score_kind,
        reranked=True,
        cut_short=False,
        fallback=None,
        truncated=truncated,
    )


def left_over(hits: Sequence[Hit], *, cut_short: bool) -> list[Hit]:
    """The hits that were not rescored, in their order."""
    return [replace(hit, cut_short=cut_short) for hit in hits]


def first_stage_order(
    hits: list[Hit], head: list[Hit], asked: RerankOptions, reason: str, ended: Ended
) -> RerankResult:
    """The first stage's order, with the reason."""
    if asked.min_score is not None:
        reason = f"{reason}; min_score was not applied"
    late = left_over(head, cut_short=ended == "no time") + hits[len(head) :]
    found = [replace(hit, fallback=reason) for hit in late[: asked.k]]
    return RerankResult(hits=found, candidates=len(head), rescored=0, ended=ended, reason=reason)
