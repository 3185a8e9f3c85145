"""Distillation: a student's vectors, or their differences, become a teacher's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own customary name
from torch import Tensor, nn

from sbert_retriever.training.kinds import DataKind, ModelKind
from sbert_retriever.training.objectives.target import needed


def vector_distillation(columns: Sequence[Tensor], teacher: Tensor) -> Tensor:
    """Mean over columns and dimensions of (student(x) - teacher(source))^2.

    With the columns of a source sentence and of its translation it is the multilingual extension:
    (M(s) - M'(s))^2 + (M(s) - M'(t))^2 (Reimers and Gurevych 2020, equation 1), over the number
    of columns.

    Args:
        columns: Vectors of the student, each (batch, dim).
        teacher: Vectors of the teacher (batch, dim).
    """
    return torch.stack([F.mse_loss(x, teacher.to(x.dtype)) for x in columns]).mean()


def margin_mse(q: Tensor, p: Tensor, negatives: Sequence[Tensor], margins: Tensor) -> Tensor:
    """Mean of ((q . p - q . n) - margin)^2 (Hofstätter et al. 2020, equation 8).

    Args:
        q: Queries (batch, dim).
        p: Positives (batch, dim).
        negatives: Each (batch, dim).
        margins: The teacher's score of (q, p) less that of (q, n): (batch, len(negatives)).
    """
    right = (q * p).sum(dim=1)
    ours = torch.stack([right - (q * n).sum(dim=1) for n in negatives], dim=1)
    return F.mse_loss(ours, margins.to(ours.dtype).view_as(ours))


@dataclass(frozen=True, kw_only=True)
class DistilVectors:
    """Give a text, and its translation, the teacher's vector of it."""

    name: ClassVar[str] = "distil-vectors"
    model: ClassVar[ModelKind] = "bi-encoder"
    data: ClassVar[frozenset[DataKind]] = frozenset({"parallel", "texts"})

    def build(self, width: int) -> nn.Module:
        """The objective for vectors of a width."""
        del width
        return DistilVectorsModule()


class DistilVectorsModule(nn.Module):
    """`vector_distillation`."""

    def forward(self, vectors: Sequence[Tensor], target: Tensor | None) -> Tensor:
        """The loss of columns of vectors (batch, dim) and the teacher's (batch, dim)."""
        return vector_distillation(vectors, needed(target))


@dataclass(frozen=True, kw_only=True)
class DistilMargins:
    """Learn a cross-encoder's margin between a positive and a negative."""

    name: ClassVar[str] = "distil-margins"
    model: ClassVar[ModelKind] = "bi-encoder"
    data: ClassVar[frozenset[DataKind]] = frozenset({"margins", "triplets", "ranking"})
    similarity: ClassVar[str] = "dot"

    def build(self, width: int) -> nn.Module:
        """The objective for vectors of a width."""
        del width
        return DistilMarginsModule()


class DistilMarginsModule(nn.Module):
    """`margin_mse`."""

    def forward(self, vectors: Sequence[Tensor], target: Tensor | None) -> Tensor:
        """The loss of columns query, positive, negative, ... and margins (batch, negatives)."""
        q, p, *negatives = vectors
        return margin_mse(q, p, negatives, needed(target))
