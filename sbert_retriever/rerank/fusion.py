"""Two orders of the same passages made one: pure functions on arrays.

Position 0 is the passage that the first stage put first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from sbert_retriever.errors import InputError

Scores: TypeAlias = npt.NDArray[np.float64]

_WEIGHTS = tuple(step / 20 for step in range(21))


def best_first(scores: npt.ArrayLike) -> list[int]:
    """Positions by falling score; ties keep their order.

    Examples:
        >>> best_first([1.0, 3.0, 1.0])
        [1, 0, 2]
    """
    order: list[int] = np.argsort(-np.asarray(scores, dtype=np.float64), kind="stable").tolist()
    return order


def reciprocal_rank_fusion(second: npt.ArrayLike, *, k: int = 60) -> Scores:
    """1 / (k + rank) in the first stage's order, plus the same in the order of `second`.

    Cormack, Clarke and Buettcher 2009. Ranks begin at 1.

    Args:
        second: The second stage's scores (n,), in the first stage's order.
        k: The larger, the less the first ranks stand out.

    Returns:
        float64 (n,).

    Examples:
        >>> [round(x, 4) for x in reciprocal_rank_fusion([1.0, 5.0, 3.0], k=1).tolist()]
        [0.75, 0.8333, 0.5833]
    """
    order = best_first(second)
    ranks = np.empty(len(order))
    ranks[order] = np.arange(1, len(order) + 1)
    fused: Scores = 1 / (k + np.arange(1, len(order) + 1)) + 1 / (k + ranks)
    return fused


def weighted_sum(first: npt.ArrayLike, second: npt.ArrayLike, *, weight: float) -> Scores:
    """`weight` of the second stage's scores and the rest of the first's, each set to 0 .. 1.

    Args:
        first: Scores (n,); the lowest becomes 0 and the highest 1, equal ones all 0.5.
        second: Scores (n,), likewise.
        weight: In 0 to 1.

    Returns:
        float64 (n,).

    Examples:
        >>> weighted_sum([3.0, 2.0, 1.0], [-4.0, 4.0, 0.0], weight=0.5).tolist()
        [0.5, 0.75, 0.25]
    """
    fused: Scores = weight * _spread(second) + (1 - weight) * _spread(first)
    return fused


def _spread(scores: npt.ArrayLike) -> Scores:
    values = np.asarray(scores, dtype=np.float64)
    if not len(values):
        return values
    low, high = values.min(), values.max()
    spread: Scores = (values - low) / (high - low) if high > low else np.full(len(values), 0.5)
    return spread


def fit_weight(
    queries: Iterable[tuple[npt.ArrayLike, npt.ArrayLike, npt.ArrayLike]],
    *,
    k: int = 10,
    weights: Sequence[float] = _WEIGHTS,
) -> float:
    """The weight of `weighted_sum` with the best mean nDCG@k; fit it on a development split.

    Args:
        queries: For each query the first stage's scores, the second's, and the gains, (n,) each.
        k: How many passages count.
        weights: Which are tried; of equally good ones the middle is taken.

    Raises:
        InputError: There is no query with a passage of any gain.
    """
    known = [tuple(np.asarray(x, np.float64) for x in query) for query in queries]
    judged = [query for query in known if len(query[2]) and query[2].max() > 0]
    if not judged:
        raise InputError("no query has a relevant passage among its candidates: nothing to fit on")
    means = [
        np.mean([_ndcg(weighted_sum(a, b, weight=w), gains, k) for a, b, gains in judged])
        for w in weights
    ]
    best = np.flatnonzero(np.isclose(means, max(means), rtol=0, atol=1e-12))
    return float(weights[best[len(best) // 2]])


def _ndcg(scores: Scores, gains: Scores, k: int) -> float:
    """nDCG@k against the best order of the same passages (Jarvelin and Kekalainen 2002)."""
    discounts = 1 / np.log2(np.arange(2, k + 2))
    found = gains[best_first(scores)][:k]
    ideal = np.sort(gains)[::-1][:k]
    return float(found @ discounts[: len(found)] / (ideal @ discounts[: len(ideal)]))
