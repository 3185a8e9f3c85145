"""Regression: the cosine of two vectors is their score."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch.nn.functional as F  # noqa: N812 - torch's own customary name
from torch import Tensor, nn

from sbert_retriever.training.kinds import DataKind, ModelKind
from sbert_retriever.training.objectives.target import needed


def cosine_regression(u: Tensor, v: Tensor, scores: Tensor) -> Tensor:
    """Mean of (cos(u, v) - score)^2 (Sentence-BERT, section 3).

    Args:
        u: (batch, dim).
        v: (batch, dim).
        scores: (batch,), 0 to 1.

    Examples:
        >>> import torch
        >>> u, v = torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 2.0]])
        >>> cosine_regression(u, v, torch.tensor([0.5])).item()
        0.25
    """
    return F.mse_loss(F.cosine_similarity(u, v), scores.to(u.dtype))


@dataclass(frozen=True, kw_only=True)
class Regression:
    """Make the cosine of a pair its score, which the data scales to 0 to 1."""

    name: ClassVar[str] = "regression"
    model: ClassVar[ModelKind] = "bi-encoder"
    data: ClassVar[frozenset[DataKind]] = frozenset({"sts"})

    def build(self, width: int) -> nn.Module:
        """The objective for vectors of a width."""
        del width
        return RegressionModule()


class RegressionModule(nn.Module):
    """`cosine_regression`."""

    def forward(self, vectors: Sequence[Tensor], target: Tensor | None) -> Tensor:
        """The loss of two columns of vectors (batch, dim) and scores (batch,)."""
        u, v = vectors
        return cosine_regression(u, v, needed(target))
