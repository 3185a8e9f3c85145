"""Is a difference between two systems more than the luck of the queries?

The paired bootstrap over queries (Efron and Tibshirani 1993, chapter 16): queries are drawn with
replacement, and both systems are measured on the same ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sbert_retriever.errors import InputError

# How many draws of query indices are held at a time: 1 MB of int64 a thousand queries.
_AT_ONCE = 128


@dataclass(frozen=True)
class PairedDifference:
    """How much better one system is than another, over the same queries.

    Args:
        mean: Of the differences.
        low: Lower end of the interval.
        high: Upper end of it.
        p: Chance of a mean as far from 0 as this one, were the two systems alike; two-sided.
        queries: How many.
        level: Share of the draws that the interval holds.
    """

    mean: float
    low: float
    high: float
    p: float
    queries: int
    level: float = 0.95

    @property
    def clear(self) -> bool:
        """Whether the interval leaves 0 out."""
        return self.low > 0 or self.high < 0


def paired_bootstrap(
    values: Mapping[str, float],
    baseline: Mapping[str, float],
    *,
    draws: int = 10_000,
    level: float = 0.95,
    seed: int = 0,
) -> PairedDifference:
    """Compare two systems, query by query.

    The interval is made of the percentiles of the drawn means; p counts, among draws of the
    differences shifted to mean 0, those as far from 0 as the mean found, the found one included.

    Args:
        values: {query id: value} of one system.
        baseline: The same of the other.
        draws: How often queries are drawn.
        level: Share of the draws that the interval holds.
        seed: The same seed gives the same result.

    Raises:
        InputError: The two are not of the same queries, or there are none; or draws or level are
            out of range.

    Examples:
        >>> found = paired_bootstrap({"a": 1.0, "b": 0.5}, {"a": 0.5, "b": 0.0})
        >>> found.mean, found.low, found.high
        (0.5, 0.5, 0.5)
    """
    if values.keys() != baseline.keys() or not values:
        odd = sorted(values.keys() ^ baseline.keys())[:3]
        raise InputError(
            f"the two systems were not measured on the same queries ({len(values)} and "
            f"{len(baseline)}; not in both: {', '.join(map(repr, odd)) or 'none'})"
        )
    if draws < 1 or not 0 < level < 1:
        raise InputError(f"draws is {draws} and level {level}: give 1 or more, and 0 < level < 1")
    differences = np.array([values[query] - baseline[query] for query in sorted(values)])
    mean = float(differences.mean())
    means = _drawn_means(differences, draws=draws, seed=seed)
    return from_draws(mean, means, items=len(differences), level=level)


def from_draws(
    found: float, drawn: npt.NDArray[np.float64], *, items: int, level: float = 0.95
) -> PairedDifference:
    """The interval and p out of what the draws gave.

    Args:
        found: The difference between the two systems.
        drawn: The same of each draw with replacement (draws,).
        items: How many the two were measured on.
        level: Share of the draws that the interval holds.
    """
    low, high = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2])
    p = share_as_far(drawn - found, found)
    return PairedDifference(found, float(low), float(high), p, items, level)


def share_as_far(drawn: npt.NDArray[np.float64], found: float) -> float:
    """The share of draws under "no difference" that are as far from 0, the found one included."""
    # A hair's breadth, so that sums taken in another order are not counted as smaller.
    far = int((np.abs(drawn) >= abs(found) - 1e-12).sum())
    return (far + 1) / (len(drawn) + 1)


def _drawn_means(
    differences: npt.NDArray[np.float64], *, draws: int, seed: int
) -> npt.NDArray[np.float64]:
    """The mean of each draw with replacement: (draws,)."""
    rng = np.random.default_rng(seed)
    n = len(differences)
    parts = [
        differences[rng.integers(n, size=(min(_AT_ONCE, draws - start), n))].mean(axis=1)
        for start in range(0, draws, _AT_ONCE)
    ]
    return np.concatenate(parts)
