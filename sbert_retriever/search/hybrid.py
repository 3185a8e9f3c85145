"""Dense and sparse search made one: pure functions on the rankings of both legs."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from sbert_retriever.index.legs import Legs, Ranking
from sbert_retriever.types import Fusion, FusionMethod, ScoreKind

SCORE_KINDS: dict[FusionMethod, ScoreKind] = {
    "boost": "fused",
    "weighted": "fused",
    "rrf": "rrf",
    "dbsf": "dbsf",
}
_DEVIATIONS = 3.0
_Values = npt.NDArray[np.float64]


def fused(legs: Legs, fusion: Fusion) -> Ranking:
    """One ranking of both legs, best first; ties keep the dense leg's order.

    Args:
        legs: What both found.
        fusion: With its method and its weight settled.

    Examples:
        >>> legs = Legs([("a", 0.9), ("b", 0.5)], [("b", 12.0), ("c", 3.0)])
        >>> fused(legs, Fusion(method="boost", sparse_weight=0.2))
        [('a', 0.9), ('b', 0.7), ('c', 0.55)]
        >>> fused(legs, Fusion(method="weighted", sparse_weight=0.4))
        [('a', 0.6), ('b', 0.4), ('c', 0.0)]
    """
    weight = fusion.sparse_weight or 0.0
    if fusion.method == "boost":
        scores = _boosted(legs, weight)
    else:
        shares = [_shares(ranking, fusion) for ranking in legs]
        scores = {}
        for ranking, values, part in zip(legs, shares, (1 - weight, weight), strict=True):
            for (point, _), value in zip(ranking, values.tolist(), strict=True):
                scores[point] = scores.get(point, 0.0) + part * value
    return sorted(scores.items(), key=lambda pair: -pair[1])


def _boosted(legs: Legs, weight: float) -> dict[Any, float]:
    """Cosines with a share of the sparse scores added.

    A passage that the dense leg did not reach has at most the cosine of the last that it did.
    """
    scores = dict(legs.dense)
    last = min(scores.values(), default=0.0)
    best = max((score for _, score in legs.sparse), default=0.0)
    for point, score in legs.sparse:
        share = score / best if best > 0 else 0.0
        scores[point] = scores.get(point, last) + weight * share
    return scores


def _shares(ranking: Ranking, fusion: Fusion) -> _Values:
    """What each passage of a leg gets for its score or its rank: (n,)."""
    values = np.array([score for _, score in ranking], dtype=np.float64)
    if not len(values):
        return values
    if fusion.method == "rrf":
        return 1 / (fusion.k + np.arange(1, len(values) + 1))
    return _by_distribution(values) if fusion.method == "dbsf" else _spread(values)


def _spread(values: _Values) -> _Values:
    """Scores set to 0 (the lowest that the leg found) .. 1 (the highest)."""
    low, high = values.min(), values.max()
    spread: _Values = (values - low) / (high - low) if high > low else np.ones(len(values))
    return spread


def _by_distribution(values: _Values) -> _Values:
    """Scores set so that three deviations below the mean are 0, and three above it 1."""
    deviation = values.std(ddof=1) if len(values) > 1 else 0.0
    if deviation == 0:
        return np.full(len(values), 0.5)
    low = values.mean() - _DEVIATIONS * deviation
    shares: _Values = ((values - low) / (2 * _DEVIATIONS * deviation)).clip(0, 1)
    return shares
