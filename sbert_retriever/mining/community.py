"""Communities of similar vectors by a threshold: fast clustering without a number of clusters."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from sbert_retriever.errors import InputError
from sbert_retriever.mining.blocks import BLOCK, OnShare, blocks, checked, part_of

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


def communities(
    vectors: ArrayLike,
    threshold: float,
    *,
    min_size: int = 3,
    block: int = BLOCK,
    on_share: OnShare | None = None,
) -> list[list[int]]:
    """The row with the most rows around it and those rows, then the same with what is left.

    A row is around another where their inner product is `threshold` or more, in float32. Of equally
    many, the first row comes first. No row is in two communities, and a row in none is around too
    few. Time is that of comparing every pair about twice; memory beyond the vectors that of one
    copy of them and some blocks.

    Args:
        vectors: (n, dim); for cosine, of length 1.
        threshold: The least inner product.
        min_size: The least number of rows.
        block: Rows a block.
        on_share: Called with the share that is done, from 0 to 1.

    Returns:
        Row numbers of each community, the one in its middle first; the largest community first.

    Raises:
        InputError: Not a matrix, or a value is not finite, the threshold is NaN, or min_size or
            block is below 1.

    Examples:
        >>> communities([[1.0, 0.0], [0.96, 0.28], [0.0, 1.0]], 0.9, min_size=2)
        [[0, 1]]
    """
    if min_size < 1 or block < 1:
        raise InputError(f"min_size is {min_size} and block {block}, expected 1 or more")
    if np.isnan(threshold):
        raise InputError("the threshold is NaN, expected a number")
    rows = checked(vectors)
    around = _around(rows, threshold, block, part_of(on_share, 0.0, 0.5))
    left = _Left(rows, around, threshold, block, max(min_size, 2))
    found = []
    while (community := left.take()) is not None:
        found.append(community)
        if on_share is not None:
            on_share(0.5 + 0.5 * (1 - left.share))
    if min_size == 1:
        taken = {row for community in found for row in community}
        found += [[row] for row in range(len(rows)) if row not in taken]
    return found


def _around(
    rows: npt.NDArray[np.float32], threshold: float, block: int, on_share: OnShare | None
) -> npt.NDArray[np.int64]:
    """How many rows are around each, itself among them: (n,)."""
    around = np.ones(len(rows), dtype=np.int64)
    for part in blocks(rows, block, on_share=on_share):
        near = part.scores >= threshold
        if part.left == part.right:
            near = np.triu(near, k=1)
        across, down = near.sum(axis=1), near.sum(axis=0)
        around[part.left : part.left + len(across)] += across
        around[part.right : part.right + len(down)] += down
    return around


class _Left:
    """The rows that no community has taken, and how many of them are around each."""

    def __init__(
        self,
        rows: npt.NDArray[np.float32],
        around: npt.NDArray[np.int64],
        threshold: float,
        block: int,
        least: int,
    ) -> None:
        self._threshold = threshold
        self._block = block
        self._least = least
        self._began = max(len(rows), 1)
        self._rows = rows
        self._around = around
        self._places = np.arange(len(rows))
        self._shrink()

    @property
    def share(self) -> float:
        """The share of the rows that may still be taken."""
        return float(np.count_nonzero(self._around)) / self._began

    def take(self) -> list[int] | None:
        """The largest community that is left, taken out; None where none is large enough."""
        while len(self._around) and self._around.max() >= self._least:
            middle = int(self._around.argmax())
            scores = self._rows @ self._rows[middle]
            scores[middle] = np.inf
            members = np.flatnonzero((scores >= self._threshold) & (self._around > 0))
            if len(members) < self._least:
                # Two products may round the same score to either side of the threshold.
                self._around[middle] = len(members)
                continue
            community = [int(self._places[middle])]
            community += [int(self._places[m]) for m in members if m != middle]
            self._remove(members)
            return community
        return None

    def _remove(self, members: npt.NDArray[np.int64]) -> None:
        gone = self._rows[members]
        free = self._around > 0
        free[members] = False
        for start in range(0, len(self._rows), self._block):
            part = slice(start, start + self._block)
            for first in range(0, len(gone), self._block):
                scores = self._rows[part] @ gone[first : first + self._block].T
                self._around[part] -= (scores >= self._threshold).sum(axis=1)
        # 0 is for what was taken. What is left has itself around it at least.
        self._around = np.where(free, np.maximum(self._around, 1), 0)
        if np.count_nonzero(self._around > 1) < len(self._around) // 2:
            self._shrink()

    def _shrink(self) -> None:
        """Let go of rows that were taken, and of those that are alone."""
        kept = self._around > 1
        self._rows, self._around = self._rows[kept], self._around[kept]
        self._places = self._places[kept]
