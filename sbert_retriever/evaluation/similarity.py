"""How alike two vectors are, by four measures, and how well that agrees with people.

Each similarity takes two float32 arrays (n, dim) and gives float64 (n,); bigger is more alike.
The paper's section 4: cosine, and negative Euclidean and Manhattan distances, rank pairs alike.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from sbert_retriever.errors import InputError, MissingExtraError

if TYPE_CHECKING:
    from sbert_retriever.types import Encoder, Vectors

Numbers = npt.NDArray[np.float64]


def cosine(left: Vectors, right: Vectors) -> Numbers:
    """The cosine of the angle; 0 where a vector is all zero."""
    lengths = np.linalg.norm(_full(left), axis=1) * np.linalg.norm(_full(right), axis=1)
    angles: Numbers = np.divide(
        dot(left, right), lengths, out=np.zeros(len(lengths)), where=lengths > 0
    )
    return angles


def dot(left: Vectors, right: Vectors) -> Numbers:
    """The inner product."""
    products: Numbers = np.einsum("nd,nd->n", _full(left), _full(right))
    return products


def euclidean(left: Vectors, right: Vectors) -> Numbers:
    """The Euclidean distance, negated."""
    distances: Numbers = -np.linalg.norm(_full(left) - _full(right), axis=1)
    return distances


def manhattan(left: Vectors, right: Vectors) -> Numbers:
    """The Manhattan distance, negated."""
    distances: Numbers = -np.abs(_full(left) - _full(right)).sum(axis=1)
    return distances


SIMILARITIES: dict[str, Callable[[Vectors, Vectors], Numbers]] = {
    "cosine": cosine,
    "dot": dot,
    "euclidean": euclidean,
    "manhattan": manhattan,
}


def _full(vectors: Vectors) -> Numbers:
    return np.asarray(vectors, dtype=np.float64)


def correlations(gold: Sequence[float] | Numbers, scores: Numbers) -> dict[str, float]:
    """Spearman's and Pearson's correlation, each times 100.

    Args:
        gold: What people said (n,).
        scores: What a model said (n,).

    Raises:
        InputError: One of the two is the same number throughout, so that there is none.
        MissingExtraError: scipy is not installed.

    Examples:
        >>> found = correlations([1, 2, 3], np.array([1.0, 4.0, 9.0]))
        >>> round(found["spearman"], 6), round(found["pearson"], 2)
        (100.0, 98.97)
    """
    wanted = np.asarray(gold, dtype=np.float64)
    for name, values in (("gold", wanted), ("model's", scores)):
        if len(values) < 2 or np.ptp(values) == 0:
            raise InputError(
                f"the {name} scores of {len(values)} pairs are all the same, so that they have no "
                "correlation with anything"
            )
    return {
        "spearman": 100 * _pearson(ranks(wanted), ranks(scores)),
        "pearson": 100 * _pearson(wanted, scores),
    }


def ranks(values: Numbers) -> Numbers:
    """The rank of each value along the last axis, 1 the smallest; ties share their mean rank.

    Raises:
        MissingExtraError: scipy is not installed.
    """
    try:
        from scipy.stats import rankdata
    except ImportError as error:
        raise MissingExtraError("scipy", extra="eval", purpose="rank values") from error
    found: Numbers = rankdata(values, axis=-1)
    return found


def _pearson(left: Numbers, right: Numbers) -> float:
    a, b = left - left.mean(), right - right.mean()
    return float(a @ b / np.sqrt((a @ a) * (b @ b)))


def encode_unique(encoder: Encoder, *texts: Sequence[str]) -> list[Vectors]:
    """The vectors of several lists of texts; a text that comes twice is encoded once.

    Args:
        encoder: Reads the texts as passages.
        texts: Lists of any lengths.

    Returns:
        For each list float32 (n, dim).
    """
    rows: dict[str, int] = {}
    places = [[rows.setdefault(text, len(rows)) for text in part] for part in texts]
    vectors = encoder.encode_passages(list(rows))
    return [vectors[place] for place in places]
