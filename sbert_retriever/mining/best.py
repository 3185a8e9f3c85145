"""The best pairs so far, and what may still turn out to be among them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from sbert_retriever.mining.blocks import exact_scores

# Candidates held before they are cut down to the best.
_HELD = 1 << 16


class Best:
    """The k pairs with the greatest exact scores, out of all that are offered.

    Args:
        rows: (n, dim).
        k: How many pairs are kept.
        least: Pairs whose exact score is below this are not.

    Attributes:
        least: What a pair must reach to be among the best; it grows.
    """

    def __init__(self, rows: npt.NDArray[np.float32], k: int, least: float = -np.inf) -> None:
        self.least = least
        self._rows = rows
        self._k = k
        self._held = max(_HELD, 2 * k)
        self._pairs = np.empty((0, 2), dtype=np.int64)
        self._fresh: list[npt.NDArray[np.int64]] = []
        self._count = 0

    def offer(
        self, pairs: npt.NDArray[np.int64], scores: npt.NDArray[np.float32], error: float
    ) -> None:
        """Take pairs (m, 2) with scores (m,) that may be off by `error`.

        A pair whose score lies more than `error` below the k-th best exact one is out.
        """
        if len(scores) > self._k:
            kth = float(np.partition(scores, -self._k)[-self._k])
            # k pairs of this offer alone have exact scores of this or more.
            self.least = max(self.least, kth - error)
        pairs = pairs[scores >= self.least - error]
        for part in _parts(pairs, self._held):
            self._fresh.append(part)
            self._count += len(part)
            if self._count >= self._held:
                self._cut()

    def result(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
        """The best pairs (m, 2) and their exact scores (m,): best first, equal ones by (i, j)."""
        scores = self._cut()
        return self._pairs, scores

    def _cut(self) -> npt.NDArray[np.float64]:
        """Keep the k best of all candidates, by exact score, then by (i, j); their scores."""
        pairs = np.concatenate([self._pairs, *self._fresh])
        scores = exact_scores(self._rows, pairs)
        pairs, scores = pairs[scores >= self.least], scores[scores >= self.least]
        order = np.lexsort((pairs[:, 1], pairs[:, 0], -scores))[: self._k]
        self._pairs, self._fresh, self._count = pairs[order], [], len(order)
        if len(order) == self._k:
            self.least = max(self.least, float(scores[order[-1]]))
        return scores[order]


def _parts(pairs: npt.NDArray[np.int64], size: int) -> Iterator[npt.NDArray[np.int64]]:
    for start in range(0, len(pairs), size):
        yield pairs[start : start + size]
