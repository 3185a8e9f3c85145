"""Distances between vectors, each row with its own or each with every other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own customary name
from torch import Tensor

Distance: TypeAlias = Literal["euclidean", "cosine", "manhattan"]


def _euclidean(a: Tensor, b: Tensor) -> Tensor:
    length: Tensor = torch.linalg.vector_norm(a - b, dim=-1)
    return length


def _manhattan(a: Tensor, b: Tensor) -> Tensor:
    return (a - b).abs().sum(dim=-1)


def _cosine(a: Tensor, b: Tensor) -> Tensor:
    return 1 - F.cosine_similarity(a, b, dim=-1)


DISTANCES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "euclidean": _euclidean,
    "cosine": _cosine,
    "manhattan": _manhattan,
}


def all_distances(vectors: Tensor, distance: Distance) -> Tensor:
    """Of each vector to each: (batch, batch) of (batch, dim).

    Examples:
        >>> all_distances(torch.tensor([[0.0, 0.0], [3.0, 4.0]]), "euclidean").tolist()
        [[0.0, 5.0], [5.0, 0.0]]
    """
    if distance == "cosine":
        unit = F.normalize(vectors, dim=1)
        return 1 - unit @ unit.T
    # The product form of cdist loses the small distances to rounding.
    exact = "donot_use_mm_for_euclid_dist"
    return torch.cdist(vectors, vectors, p=_POWERS[distance], compute_mode=exact)


_POWERS = {"euclidean": 2.0, "manhattan": 1.0}
