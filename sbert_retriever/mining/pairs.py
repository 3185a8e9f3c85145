"""The most similar pairs among many vectors: the paper's own example (section 1).

n vectors have n(n-1)/2 pairs. They are compared by blocked matrix products in float32; what could
be among the best, or about the threshold, is computed again in float64, so that the answer is that
of exact arithmetic.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from sbert_retriever.errors import InputError
from sbert_retriever.mining.best import Best
from sbert_retriever.mining.blocks import BLOCK, Block, OnShare, blocks, checked, exact_scores
from sbert_retriever.mining.links import Links

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


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


class PairsFound(NamedTuple):
    """The pairs that reach a threshold.

    Args:
        pairs: The best of them, best first.
        found: How many there are.
        groups: Rows that are linked by pairs, directly or through others, the largest group first.
    """

    pairs: list[SimilarPair]
    found: int
    groups: list[list[int]]


def most_similar_pairs(vectors: ArrayLike, k: int = 1, *, block: int = BLOCK) -> list[SimilarPair]:
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
    if k < 1 or block < 1:
        raise InputError(f"k is {k} and block {block}, expected 1 or more")
    rows = checked(vectors)
    best = Best(rows, k)
    for part in blocks(rows, block):
        best.offer(*part.at_least(best.least), part.error)
    return _similar(best)


def pairs_at_least(
    vectors: ArrayLike,
    threshold: float,
    *,
    limit: int = 1000,
    block: int = BLOCK,
    on_share: OnShare | None = None,
) -> PairsFound:
    """Every pair of different rows whose inner product is `threshold` or more.

    Exact in the sense of `most_similar_pairs`. All pairs are counted and put into groups; only the
    best `limit` are kept, so that memory beyond the vectors stays that of some blocks.

    Args:
        vectors: (n, dim); for cosine, of length 1.
        threshold: The least inner product.
        limit: How many pairs are kept.
        block: Rows a block.
        on_share: Called with the share that is done, from 0 to 1.

    Raises:
        InputError: Not a matrix, or a value is not finite, the threshold is NaN, or limit or block
            is below 1.

    Examples:
        >>> found = pairs_at_least([[1.0, 0.0], [0.0, 1.0], [0.8, 0.6], [0.6, 0.8]], 0.9)
        >>> found.found, found.groups
        (1, [[2, 3]])
    """
    if limit < 1 or block < 1:
        raise InputError(f"limit is {limit} and block {block}, expected 1 or more")
    if np.isnan(threshold):
        raise InputError("the threshold is NaN, expected a number")
    rows = checked(vectors)
    best, links, found = Best(rows, limit, threshold), Links(), 0
    for part in blocks(rows, block, on_share=on_share):
        pairs, scores = _reaching(rows, part, threshold)
        best.offer(pairs, scores, part.error)
        links.join(pairs)
        found += len(pairs)
    return PairsFound(_similar(best), found, [group.tolist() for group in links.groups()])


def _reaching(
    rows: npt.NDArray[np.float32], part: Block, threshold: float
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
    """Pairs (m, 2) of a block whose exact scores reach the threshold, and their float32 scores."""
    pairs, scores = part.at_least(threshold)
    reaching = scores >= threshold + part.error
    doubtful = np.flatnonzero(~reaching)
    reaching[doubtful] = exact_scores(rows, pairs[doubtful]) >= threshold
    return pairs[reaching], scores[reaching]


def _similar(best: Best) -> list[SimilarPair]:
    pairs, scores = best.result()
    return [SimilarPair(i, j, s) for (i, j), s in zip(pairs.tolist(), scores.tolist(), strict=True)]
