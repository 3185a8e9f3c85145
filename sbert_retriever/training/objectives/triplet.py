"""Triplets: an anchor is to be nearer to its positive than to its negative, by a margin."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own customary name
from torch import Tensor, nn

from sbert_retriever.errors import InputError
from sbert_retriever.training.kinds import DataKind, ModelKind
from sbert_retriever.training.objectives.distance import DISTANCES, Distance, all_distances
from sbert_retriever.training.objectives.settings import one_of, positive
from sbert_retriever.training.objectives.target import needed

BatchMining: TypeAlias = Literal["all", "hard"]


def triplet(a: Tensor, p: Tensor, n: Tensor, *, distance: Distance, margin: float) -> Tensor:
    """Mean of max(|a - p| - |a - n| + margin, 0) (Sentence-BERT, section 3).

    Args:
        a: Anchors (batch, dim).
        p: Positives (batch, dim).
        n: Negatives (batch, dim).
        distance: What |.| is; the paper's own is Euclidean.
        margin: In units of the distance; the paper's own is 1.

    Examples:
        >>> a, p, n = (torch.tensor([[x]]) for x in (0.0, 2.0, 2.5))
        >>> triplet(a, p, n, distance="euclidean", margin=1.0).item()
        0.5
    """
    apart = DISTANCES[distance]
    return F.relu(apart(a, p) - apart(a, n) + margin).mean()


def batch_all(vectors: Tensor, labels: Tensor, *, distance: Distance, margin: float) -> Tensor:
    """The triplet objective over all triplets of a batch that are not yet far enough apart.

    The mean of max(d(a, p) - d(a, n) + margin, 0) over those (a, p, n) for which it is above 0,
    a and p two examples of one label and n one of another; 0 where there is none (FaceNet,
    section 3.2; Hermans et al. 2017, section 2, "batch all").

    Args:
        vectors: (batch, dim).
        labels: (batch,).
        distance: d.
        margin: In units of the distance.
    """
    apart = all_distances(vectors, distance)
    same, other = _same_and_other(labels)
    losses = F.relu(apart.unsqueeze(2) - apart.unsqueeze(1) + margin)
    losses = losses * (same.unsqueeze(2) & other.unsqueeze(1))
    counted = (losses > 1e-16).sum()
    return losses.sum() / counted.clamp(min=1)


def batch_hard(vectors: Tensor, labels: Tensor, *, distance: Distance, margin: float) -> Tensor:
    """The triplet objective with each example's farthest positive and nearest negative.

    The mean over anchors of max(max_p d(a, p) - min_n d(a, n) + margin, 0) (Hermans et al. 2017,
    section 2, "batch hard"; the hard triplets of FaceNet, section 3.2). An anchor without a
    positive or without a negative in its batch does not count.

    Args:
        vectors: (batch, dim).
        labels: (batch,).
        distance: d.
        margin: In units of the distance.
    """
    apart = all_distances(vectors, distance)
    same, other = _same_and_other(labels)
    far = torch.where(same, apart, -torch.inf).amax(dim=1)
    near = torch.where(other, apart, torch.inf).amin(dim=1)
    whole = same.any(dim=1) & other.any(dim=1)
    losses = F.relu(far[whole] - near[whole] + margin)
    return losses.sum() / whole.sum().clamp(min=1)


def _same_and_other(labels: Tensor) -> tuple[Tensor, Tensor]:
    """Which are another example of the label, and which of another label: bool (batch, batch)."""
    equal = labels.unsqueeze(0) == labels.unsqueeze(1)
    itself = torch.eye(len(labels), dtype=torch.bool, device=labels.device)
    return equal & ~itself, ~equal


_MININGS: dict[str, Callable[..., Tensor]] = {"all": batch_all, "hard": batch_hard}


@dataclass(frozen=True, kw_only=True)
class Triplet:
    """Put an anchor nearer to its positive than to its negative.

    Args:
        distance: "euclidean", "cosine" or "manhattan".
        margin: By how much, in units of the distance.

    Raises:
        InputError: The distance is unknown, or the margin not above 0.
    """

    name: ClassVar[str] = "triplet"
    model: ClassVar[ModelKind] = "bi-encoder"
    data: ClassVar[frozenset[DataKind]] = frozenset({"triplets", "ranking"})

    distance: Distance = "euclidean"
    margin: float = 1.0

    def __post_init__(self) -> None:
        one_of("distance", self.distance, tuple(DISTANCES))
        positive("margin", self.margin)

    def build(self, width: int) -> nn.Module:
        """The objective for vectors of a width."""
        del width
        return TripletModule(self)


class TripletModule(nn.Module):
    """`triplet`, over as many columns of negatives as there are.

    Args:
        settings: Distance and margin.
    """

    def __init__(self, settings: Triplet) -> None:
        super().__init__()
        self.settings = settings

    def forward(self, vectors: Sequence[Tensor], target: Tensor | None) -> Tensor:
        """The loss of columns anchor, positive, negative, ...: (batch, dim) each."""
        del target
        a, p, *negatives = vectors
        how = {"distance": self.settings.distance, "margin": self.settings.margin}
        return torch.stack([triplet(a, p, n, **how) for n in negatives]).mean()  # type: ignore[arg-type]  # one dict


@dataclass(frozen=True, kw_only=True)
class BatchTriplet:
    """Triplets out of labelled texts: those of one label together, of others apart.

    Args:
        mining: "all" triplets of a batch, or for each anchor the "hard" one.
        distance: "euclidean", "cosine" or "manhattan".
        margin: In units of the distance.

    Raises:
        InputError: A value is unknown, or the margin not above 0.
    """

    name: ClassVar[str] = "batch-triplet"
    model: ClassVar[ModelKind] = "bi-encoder"
    data: ClassVar[frozenset[DataKind]] = frozenset({"labelled"})

    mining: BatchMining = "all"
    distance: Distance = "euclidean"
    margin: float = 1.0

    def __post_init__(self) -> None:
        one_of("mining", self.mining, tuple(_MININGS))
        one_of("distance", self.distance, tuple(DISTANCES))
        positive("margin", self.margin)

    def build(self, width: int) -> nn.Module:
        """The objective for vectors of a width."""
        del width
        return BatchTripletModule(self)


class BatchTripletModule(nn.Module):
    """`batch_all` or `batch_hard`.

    Args:
        settings: Which, with distance and margin.
    """

    def __init__(self, settings: BatchTriplet) -> None:
        super().__init__()
        self.settings = settings

    def forward(self, vectors: Sequence[Tensor], target: Tensor | None) -> Tensor:
        """The loss of one column of vectors (batch, dim) and labels (batch,)."""
        if len(vectors) != 1:
            raise InputError(f"batch-triplet takes one text an example, and got {len(vectors)}")
        mine = _MININGS[self.settings.mining]
        return mine(
            vectors[0],
            needed(target),
            distance=self.settings.distance,
            margin=self.settings.margin,
        )
