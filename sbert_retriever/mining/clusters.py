"""The passages of a collection in clusters, each with the passage in its middle."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from sbert_retriever.errors import InputError
from sbert_retriever.mining.blocks import part_of
from sbert_retriever.mining.community import communities
from sbert_retriever.mining.partition import agglomerative, k_means
from sbert_retriever.mining.plane import principal_plane
from sbert_retriever.mining.reading import ROUNDING, checked_cosine, read_all
from sbert_retriever.search.request import whole
from sbert_retriever.types import Passage, checks

if TYPE_CHECKING:
    from sbert_retriever.mining.blocks import OnShare
    from sbert_retriever.retriever import Retriever
    from sbert_retriever.search.request import FilterSpec
    from sbert_retriever.types import Vectors

Method: TypeAlias = Literal["communities", "kmeans", "agglomerative"]

DEFAULT_THRESHOLD = 0.75
_LARGEST_SEED = 2**32 - 1
_MIN_SIZE: dict[str, int] = {"communities": 3, "kmeans": 1, "agglomerative": 1}
# Of the work, reading the vectors counts as this share.
_READING = 0.2


@dataclass(frozen=True)
class Cluster:
    """Passages that are about the same.

    Args:
        central: The passage nearest to the mean of the cluster's vectors.
        ids: All its passages, the nearest to that mean first.
        cohesion: Mean cosine of the passages to that mean; 1 where all are equal.
    """

    central: Passage
    ids: tuple[str, ...]
    cohesion: float

    @property
    def size(self) -> int:
        """How many passages."""
        return len(self.ids)


@dataclass(frozen=True, kw_only=True, eq=False)
class Clusters:
    """What `find_clusters` found.

    Args:
        clusters: The largest first.
        ids: Every passage that was looked at.
        labels: int64 (n,): for each of `ids`, the place of its cluster in `clusters`, or -1.
        positions: float32 (n, 2): where each of `ids` lies on a map (principal components).
        shown: Share of the vectors' variance that the map keeps.
        method: How they were found.
        left_out: Passages that have no usable vector.
    """

    clusters: list[Cluster]
    ids: list[str]
    labels: npt.NDArray[np.int64]
    positions: npt.NDArray[np.float32]
    shown: float
    method: Method
    left_out: int = 0

    @property
    def unassigned(self) -> int:
        """How many passages are in no cluster."""
        return int((self.labels < 0).sum())


def find_clusters(
    retriever: Retriever,
    *,
    threshold: float | None = None,
    k: int | None = None,
    min_size: int | None = None,
    method: Method | None = None,
    filter: FilterSpec | None = None,
    seed: int = 0,
    on_share: OnShare | None = None,
) -> Clusters:
    """Put the passages of a collection into clusters, by the cosine of their vectors.

    "communities" (the way without k) takes the passage with the most passages around it, and those;
    then the same with what is left, until too few are around any. "kmeans" (the way with k) gives k
    clusters, "agglomerative" k clusters or those that a threshold keeps apart; both are
    scikit-learn's, of the extra `eval`, and leave nobody out unless min_size does. All vectors are
    held in memory. No model is loaded.

    Args:
        retriever: Over the collection.
        threshold: The least cosine to the passage in the middle, for communities (0.75); the least
            mean cosine at which two clusters are joined, for agglomerative.
        k: How many clusters, for kmeans and agglomerative. Fewer come out where fewer vectors
            differ.
        min_size: Smaller clusters are dissolved. None is 3 for communities and 1 otherwise.
        method: None is kmeans with k, and communities without.
        filter: On metadata, as in `Retriever.search`.
        seed: Of kmeans, from 0 to 2**32 - 1.
        on_share: Called with the share of the work that is done, from 0 to 1.

    Raises:
        InputError: An unknown method, what it has no use for or lacks, a threshold or a seed out of
            range, k or min_size below 1, k larger than the collection, too many passages for
            agglomerative, or a collection with tenants and a retriever that is bound to none.
        InputTypeError: threshold, k, min_size or seed is no number.
        MissingExtraError: scikit-learn is not installed.

    Warns:
        UnknownFieldWarning: The filter names a field that no passage has.
    """
    asked = _Asked.checked(method, threshold=threshold, k=k, min_size=min_size)
    seed = _checked_seed(seed)
    page = read_all(retriever, filter, on_share=part_of(on_share, 0.0, _READING))
    clustering = part_of(on_share, _READING, 1.0)
    members = _members(page.vectors, asked, seed, clustering) if page.ids else []
    ordered = [_by_closeness(page.vectors, rows) for rows in members if len(rows) >= asked.min_size]
    ordered.sort(key=lambda found: (-len(found[0]), page.ids[int(found[0][0])]))
    labels = np.full(len(page.ids), -1, dtype=np.int64)
    for label, (rows, _) in enumerate(ordered):
        labels[rows] = label
    plane = principal_plane(page.vectors)
    return Clusters(
        clusters=_with_passages(retriever, page.ids, ordered),
        ids=page.ids,
        labels=labels,
        positions=plane.positions,
        shown=plane.shown,
        method=asked.method,
        left_out=page.left_out,
    )


@dataclass(frozen=True)
class _Asked:
    method: Method
    threshold: float | None
    k: int | None
    min_size: int

    @classmethod
    def checked(
        cls,
        method: Method | None,
        *,
        threshold: float | None,
        k: int | None,
        min_size: int | None,
    ) -> _Asked:
        method = method or ("communities" if k is None else "kmeans")
        if method not in get_args(Method):
            raise InputError(
                f"method is {method!r}, expected {', '.join(map(repr, get_args(Method)))} or None"
            )
        if threshold is not None:
            threshold = checked_cosine(threshold)
        if k is not None:
            k = whole("k", k, least=1)
        if method == "communities":
            if k is not None:
                raise InputError("communities have no k: leave it out, or use kmeans")
            threshold = DEFAULT_THRESHOLD if threshold is None else threshold
        elif method == "kmeans" and (k is None or threshold is not None):
            raise InputError("kmeans takes k and no threshold: give k alone")
        elif method == "agglomerative" and (k is None) == (threshold is None):
            raise InputError("agglomerative takes either k or a threshold: give one of them")
        least = _MIN_SIZE[method] if min_size is None else whole("min_size", min_size, least=1)
        return cls(method, threshold, k, least)


def _checked_seed(seed: int) -> int:
    seed = checks.whole("seed", seed, least=0)
    if seed > _LARGEST_SEED:
        raise InputError(f"seed is {seed}, expected {_LARGEST_SEED} or less")
    return seed


def _members(
    rows: Vectors, asked: _Asked, seed: int, on_share: OnShare | None
) -> list[npt.NDArray[np.int64]]:
    """The rows of each cluster."""
    if asked.method == "communities" and asked.threshold is not None:
        found = communities(
            rows, asked.threshold - ROUNDING, min_size=asked.min_size, on_share=on_share
        )
        return [np.array(community, dtype=np.int64) for community in found]
    if asked.method == "kmeans" and asked.k is not None:
        labels = k_means(rows, asked.k, seed=seed)
    else:
        labels = agglomerative(rows, k=asked.k, threshold=asked.threshold)
    return [np.flatnonzero(labels == label) for label in np.unique(labels)]


def _by_closeness(
    rows: Vectors, members: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], float]:
    """Members in the order of their cosine to the mean of all, and the mean of those cosines."""
    members = np.sort(members)
    own = rows[members].astype(np.float64)
    mean = own.mean(axis=0)
    length = float(np.linalg.norm(mean))
    # Opposite vectors have no mean direction but that of rounding, and none is nearer to it.
    cosines = own @ mean / length if length > ROUNDING else np.zeros(len(own))
    return members[np.argsort(-cosines, kind="stable")], min(float(cosines.mean()), 1.0)


def _with_passages(
    retriever: Retriever, ids: list[str], ordered: list[tuple[npt.NDArray[np.int64], float]]
) -> list[Cluster]:
    listed = [(tuple(ids[row] for row in rows.tolist()), cohesion) for rows, cohesion in ordered]
    central = {passage.id: passage for passage in retriever.get([found[0] for found, _ in listed])}
    return [
        # Without its text where it was deleted meanwhile.
        Cluster(central.get(found[0]) or Passage(found[0], ""), found, cohesion)
        for found, cohesion in listed
    ]
