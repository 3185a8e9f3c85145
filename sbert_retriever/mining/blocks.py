"""All pairs of many rows, a block of inner products at a time, and the exact score of a few."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from sbert_retriever.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

OnShare = Callable[[float], None]
"""Called with the share of the work that is done, from 0 to 1."""

BLOCK = 1024
_RESCORED_AT_ONCE = 4096
_UNIT_ROUNDOFF = 2.0**-24


class Block(NamedTuple):
    """Inner products of some rows with others, in float32.

    Args:
        scores: (a, b).
        left: The row that the first row of `scores` belongs to.
        right: The row that the first column belongs to; `left` or after it.
        error: How far a score may be off.
    """

    scores: npt.NDArray[np.float32]
    left: int
    right: int
    error: float

    def at_least(self, least: float) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
        """Pairs (m, 2), i < j, whose exact score may be `least` or more, and what they have."""
        bound = least - self.error
        if self.scores.max(initial=-np.inf) < bound:
            return np.empty((0, 2), dtype=np.int64), np.empty(0, dtype=np.float32)
        chosen = self.scores >= bound
        if self.left == self.right:
            chosen &= _above_diagonal(len(chosen))
        i, j = np.nonzero(chosen)
        return np.stack([i + self.left, j + self.right], axis=1), self.scores[i, j]


def checked(vectors: ArrayLike) -> npt.NDArray[np.float32]:
    """Vectors as a float32 matrix (n, dim).

    Raises:
        InputError: Not a matrix, or a value is not finite.
    """
    rows = np.asarray(vectors, dtype=np.float32)
    if rows.ndim != 2:
        raise InputError(f"the vectors have shape {rows.shape}, expected (n, dim)")
    finite = np.isfinite(rows).all(axis=1)
    if not finite.all():
        row = int(np.flatnonzero(~finite)[0])
        raise InputError(f"vector {row} holds NaN or infinity: it is similar to nothing")
    return np.ascontiguousarray(rows)


def blocks(
    rows: npt.NDArray[np.float32], block: int = BLOCK, *, on_share: OnShare | None = None
) -> Iterator[Block]:
    """Every pair of rows (n, dim) in one block of `block` by `block` or fewer inner products."""
    n = len(rows)
    lengths = np.linalg.norm(rows, axis=1)
    for left in range(0, n, block):
        for right in range(left, n, block):
            ends = slice(left, left + block), slice(right, right + block)
            error = _error_bound(rows.shape[1], lengths[ends[0]], lengths[ends[1]])
            yield Block(rows[ends[0]] @ rows[ends[1]].T, left, right, error)
        if on_share is not None:
            rest = max(0, n - left - block)
            on_share(1 - (rest / n) ** 2)


def exact_scores(
    rows: npt.NDArray[np.float32], pairs: npt.NDArray[np.int64]
) -> npt.NDArray[np.float64]:
    """Inner products of pairs of rows (m, 2) in float64: (m,).

    They are summed row by row, so that equal rows have equal scores to the last bit.
    """
    found = np.empty(len(pairs))
    for start in range(0, len(pairs), _RESCORED_AT_ONCE):
        part = slice(start, start + _RESCORED_AT_ONCE)
        left, right = (rows[pairs[part, side]].astype(np.float64) for side in (0, 1))
        found[part] = (left * right).sum(axis=1)
    return found


def part_of(on_share: OnShare | None, begin: float, end: float) -> OnShare | None:
    """The shares of a part of the work, as shares of the whole."""
    if on_share is None:
        return None
    return lambda share: on_share(begin + (end - begin) * share)


def _error_bound(dim: int, left: npt.NDArray[np.float32], right: npt.NDArray[np.float32]) -> float:
    """How far a float32 inner product may be off, whatever the order of its sum (Higham 2002)."""
    return float(1.01 * (dim + 1) * _UNIT_ROUNDOFF * left.max() * right.max())


@lru_cache(maxsize=2)
def _above_diagonal(n: int) -> npt.NDArray[np.bool_]:
    return np.triu(np.ones((n, n), dtype=bool), k=1)
