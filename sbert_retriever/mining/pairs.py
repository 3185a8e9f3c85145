"""The most similar pairs among many vectors: the paper's own example (section 1).

n vectors have n(n-1)/2 pairs. They are compared by blocked matrix products in float32; what could
be among the best is computed again in float64, so that the answer is that of exact arithmetic.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from sbert_retriever.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

# Candidates held before they are cut down to the best.
_HELD = 1 << 16
_RESCORED_AT_ONCE = 4096
_UNIT_ROUNDOFF = 2.0**-24


class SimilarPair(NamedTuple):
    """Two rows and their inner product, which is the cosine where both have length 1.

    Args:
        i: The first row.
        j: The second row, i < j.
        score: Bigger is more similar.
    """

    i: int
    j: int
    score: float


def most_similar_pairs(vectors: ArrayLike, k: int = 1, *, block: int = 1024) -> list[SimilarPair]:
    """The k pairs of different rows with the greatest inner products, best first.

    The result is exact: that of inner products in float64 of the float32 rows. Equal scores are
    ordered by (i, j); rows that are equal make pairs like any others. Fewer than k come back where
    there are fewer pairs. Memory beyond the vectors is that of some blocks.

    Args:
        vectors: (n, dim); for cosine, of length 1.
        k: How many pairs.
        block: Rows a block: block * block inner products are held at a time.

    Raises:
        InputError: Not a matrix, or a value is not finite, or k or block is below 1.

    Examples:
        >>> most_similar_pairs([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]], k=2)
        [SimilarPair(i=0, j=2, score=0.5), SimilarPair(i=1, j=2, score=0.5)]
    """
    rows = _checked(vectors, k, block)
    best = _Best(rows, k)
    lengths = np.linalg.norm(rows, axis=1)
    for left in range(0, len(rows), block):
        for right in range(left, len(rows), block):
            ends = slice(left, left + block), slice(right, right + block)
            error = _error_bound(rows.shape[1], lengths[ends[0]], lengths[ends[1]])
            best.offer(rows[ends[0]] @ rows[ends[1]].T, left, right, error)
    return best.result()


def _checked(vectors: ArrayLike, k: int, block: int) -> npt.NDArray[np.float32]:
    rows = np.asarray(vectors, dtype=np.float32)
    if rows.ndim != 2:
        raise InputError(f"the vectors have shape {rows.shape}, expected (n, dim)")
    if k < 1 or block < 1:
        raise InputError(f"k is {k} and block {block}, expected 1 or more")
    if not np.isfinite(rows).all():
        row = int(np.flatnonzero(~np.isfinite(rows).all(axis=1))[0])
        raise InputError(f"vector {row} holds NaN or infinity: it is similar to nothing")
    return np.ascontiguousarray(rows)


def _error_bound(dim: int, left: npt.NDArray[np.float32], right: npt.NDArray[np.float32]) -> float:
    """How far a float32 inner product may be off, whatever the order of its sum (Higham 2002)."""
    return float(1.01 * (dim + 1) * _UNIT_ROUNDOFF * left.max() * right.max())


class _Best:
    """The best pairs so far, and what may still turn out to be among them."""

    def __init__(self, rows: npt.NDArray[np.float32], k: int) -> None:
        self._rows = rows
        self._k = k
        self._held = max(_HELD, 2 * k)
        self._least = -np.inf
        self._pairs = np.empty((0, 2), dtype=np.int64)
        self._fresh: list[npt.NDArray[np.int64]] = []
        self._count = 0

    def offer(self, scores: npt.NDArray[np.float32], left: int, right: int, error: float) -> None:
        """Take a block of inner products, (a, b), whose rows begin at `left` and `right`.

        A pair whose float32 score lies more than `error` below the k-th best exact one is out.
        """
        if left == right:
            scores = np.where(_above_diagonal(len(scores)), scores, -np.inf)
        if scores.max(initial=-np.inf) < self._least - error:
            return
        if scores.size > self._k:
            kth = float(np.partition(scores, -self._k, axis=None)[-self._k])
            # k pairs of this block alone have exact scores of this or more.
            self._least = max(self._least, kth - error)
        i, j = np.nonzero((scores >= self._least - error) & (scores > -np.inf))
        for part in _parts(np.stack([i + left, j + right], axis=1), self._held):
            self._fresh.append(part)
            self._count += len(part)
            if self._count >= self._held:
                self._cut()

    def result(self) -> list[SimilarPair]:
        """The best, exactly."""
        scores = self._cut()
        return [
            SimilarPair(int(i), int(j), float(s))
            for (i, j), s in zip(self._pairs, scores, strict=True)
        ]

    def _cut(self) -> npt.NDArray[np.float64]:
        """Keep the k best of all candidates, by exact score, then by (i, j); their scores."""
        pairs = np.concatenate([self._pairs, *self._fresh])
        scores = np.concatenate([np.empty(0), *map(self._exact, _parts(pairs, _RESCORED_AT_ONCE))])
        order = np.lexsort((pairs[:, 1], pairs[:, 0], -scores))[: self._k]
        self._pairs, self._fresh, self._count = pairs[order], [], len(order)
        if len(order) == self._k:
            self._least = max(self._least, float(scores[order[-1]]))
        return scores[order]

    def _exact(self, pairs: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """Inner products in float64: (n,). Summed row by row, so that equal rows tie exactly."""
        left, right = (self._rows[pairs[:, side]].astype(np.float64) for side in (0, 1))
        exact: npt.NDArray[np.float64] = (left * right).sum(axis=1)
        return exact


def _above_diagonal(n: int) -> npt.NDArray[np.bool_]:
    return np.triu(np.ones((n, n), dtype=bool), k=1)


def _parts(pairs: npt.NDArray[np.int64], size: int) -> Iterator[npt.NDArray[np.int64]]:
    for start in range(0, len(pairs), size):
        yield pairs[start : start + size]
