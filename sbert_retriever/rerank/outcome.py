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
from sbert_retriever.rerank.scoring import Prepared
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


@dataclass(frozen=True)
class SecondStage:
    """What the scorer said.

    Args:
        positions: Of the hits that it scored, in the first stage's order: (n,), ascending.
        scores: (n,).
        truncated: Which of the pairs were cut: (n,).
    """

    positions: Sequence[int]
    scores: npt.NDArray[np.float32]
    truncated: npt.NDArray[np.bool_]

    @classmethod
    def of(
        cls, turns: Sequence[int], scores: npt.NDArray[np.float32], pairs: Prepared
    ) -> SecondStage:
        """Scores (n,) in the order in which the hits had their turn, put in the hits' order."""
        positions = sorted(turns[: len(scores)])
        by_position = dict(zip(turns, scores.tolist(), strict=False))
        ordered = np.array([by_position[position] for position in positions], dtype=np.float32)
        return cls(positions, ordered, pairs.truncated[positions])


def rescored(
    head: Sequence[Hit], second: SecondStage, ordering: Ordering, min_score: float | None
) -> list[Hit]:
    """The hits that were scored, best first, without those below `min_score`.

    Args:
        head: The candidates, in the first stage's order.
        second: What the scorer said.
        ordering: What its scores do.
        min_score: Compared with the scorer's scores; None keeps all.
    """
    hits = [head[position] for position in second.positions]
    scores = ordering.scores(hits, second.scores)
    return [
        replace(
            _after(hits[i]),
            score=float(scores[i]),
            score_kind=ordering.score_kind,
            rerank_score=float(second.scores[i]),
            rerank_score_kind=ordering.kind,
            truncated=bool(second.truncated[i]),
        )
        for i in best_first(scores)
        if min_score is None or second.scores[i] >= min_score
    ]


def _after(hit: Hit) -> Hit:
    """A hit that was scored again, its first stage's score kept."""
    first = hit.first_score is None
    return replace(
        hit,
        first_score=hit.score if first else hit.first_score,
        first_score_kind=hit.score_kind if first else hit.first_score_kind,
        reranked=True,
        cut_short=False,
        fallback=None,
    )


def left_over(hits: Sequence[Hit], *, cut_short: bool) -> list[Hit]:
    """The hits that were not rescored, in their order."""
    return [replace(hit, cut_short=cut_short) for hit in hits]


def first_stage_order(
    hits: list[Hit], head: list[Hit], asked: RerankOptions, reason: str, ended: Ended
) -> RerankResult:
    """The first stage's order, with the reason."""
    if asked.min_score is not None:
        reason = f"{reason}; the threshold on its scores was not applied"
    late = left_over(head, cut_short=ended == "no time") + hits[len(head) :]
    found = [replace(hit, fallback=reason) for hit in late[: asked.k]]
    return RerankResult(hits=found, candidates=len(head), rescored=0, ended=ended, reason=reason)
