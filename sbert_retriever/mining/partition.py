"""K-means and agglomerative clustering, both scikit-learn's."""

from __future__ import annotations

import warnings

import numpy as np
import numpy.typing as npt

from sbert_retriever.errors import InputError, MissingExtraError
from sbert_retriever.mining.reading import ROUNDING

LARGEST_TREE = 10_000
"""Passages up to which all distances are held at once, in 400 MB."""


def k_means(rows: npt.NDArray[np.float32], k: int, *, seed: int = 0) -> npt.NDArray[np.int64]:
    """The number of the cluster (n,) of each row (n, dim), from 0 to k - 1 or less.

    Raises:
        InputError: There are fewer rows than k.
        MissingExtraError: scikit-learn is not installed.
    """
    _check_k(k, len(rows))
    try:
        from sklearn.cluster import KMeans
        from sklearn.exceptions import ConvergenceWarning
    except ImportError as error:
        raise _missing("k-means") from error
    with warnings.catch_warnings():
        # Fewer different rows than k: it makes fewer clusters, and so do we.
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = KMeans(n_clusters=k, random_state=seed, n_init="auto")
        return np.asarray(model.fit_predict(rows), dtype=np.int64)


def agglomerative(
    rows: npt.NDArray[np.float32], *, k: int | None = None, threshold: float | None = None
) -> npt.NDArray[np.int64]:
    """The number of the cluster (n,) of each row (n, dim), of length 1.

    The two clusters with the greatest mean cosine between their rows are joined, again and again.

    Args:
        rows: (n, dim).
        k: How many clusters to leave.
        threshold: In the place of k: join while that mean is this or more.

    Raises:
        InputError: There are fewer rows than k, or more than `LARGEST_TREE`.
        MissingExtraError: scikit-learn is not installed.
    """
    if k is not None:
        _check_k(k, len(rows))
    if len(rows) > LARGEST_TREE:
        raise InputError(
            f"there are {len(rows):,} passages, and agglomerative clustering holds the distances "
            f"of {LARGEST_TREE:,} at most: narrow them with a filter, or use communities or kmeans"
        )
    try:
        from sklearn.cluster import AgglomerativeClustering
    except ImportError as error:
        raise _missing("agglomerative clustering") from error
    if len(rows) == 1:
        return np.zeros(1, dtype=np.int64)  # scikit-learn wants two
    # Those at the distance itself are kept apart, exact copies too where it is 0.
    distance = None if threshold is None else 1 - threshold + ROUNDING
    model = AgglomerativeClustering(
        n_clusters=k, distance_threshold=distance, metric="cosine", linkage="average"
    )
    return np.asarray(model.fit_predict(rows), dtype=np.int64)


def _check_k(k: int, n: int) -> None:
    if k > n:
        raise InputError(f"k is {k} and there are {n} passages: give {n} or less")


def _missing(what: str) -> MissingExtraError:
    return MissingExtraError("scikit-learn", extra="eval", purpose=f"cluster by {what}")
