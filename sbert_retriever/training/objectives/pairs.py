"""What a cross-encoder learns: the logits of a pair."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch.nn.functional as F  # noqa: N812 - torch's own customary name
from torch import Tensor, nn

from sbert_retriever.training.kinds import DataKind, ModelKind
from sbert_retriever.training.objectives.classification import NLI_LABELS, check_labels
from sbert_retriever.training.objectives.target import needed


def pair_regression(logits: Tensor, scores: Tensor) -> Tensor:
    """Mean of (logit - score)^2: the regression head of BERT on STS (Devlin et al. 2019).

    Args:
        logits: (batch, 1).
        scores: (batch,), 0 to 1.
    """
    return F.mse_loss(logits[:, 0], scores.to(logits.dtype))


def pair_binary(logits: Tensor, targets: Tensor) -> Tensor:
    """Mean of -t log sigmoid(z) - (1 - t) log(1 - sigmoid(z)).

    Args:
        logits: z, (batch, 1).
        targets: t, (batch,): 0 or 1, or anything between.
    """
    return F.binary_cross_entropy_with_logits(logits[:, 0], targets.to(logits.dtype))


def pair_classification(logits: Tensor, labels: Tensor) -> Tensor:
    """Mean of -log softmax(z)_label.

    Args:
        logits: z, (batch, labels).
        labels: int64 (batch,).
    """
    return F.cross_entropy(logits, labels)


def pair_distillation(logits: Tensor, teacher: Tensor) -> Tensor:
    """Mean of (z - z')^2 over pairs and labels, z' the teacher's logits (Ba and Caruana 2014).

    Args:
        logits: z, (batch, labels).
        teacher: z', (batch, labels).
    """
    return F.mse_loss(logits, teacher.to(logits.dtype).view_as(logits))


@dataclass(frozen=True, kw_only=True)
class PairRegression:
    """The logit of a pair is its score, which the data scales to 0 to 1."""

    name: ClassVar[str] = "pair-regression"
    model: ClassVar[ModelKind] = "cross-encoder"
    data: ClassVar[frozenset[DataKind]] = frozenset({"sts"})

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of the model's labels."""
        return ("score",)

    def build(self, width: int) -> nn.Module:
        """The objective."""
        del width
        return PairModule(pair_regression)


@dataclass(frozen=True, kw_only=True)
class PairBinary:
    """The sigmoid of a pair's logit is how well the two belong together.

    From `sts` data the score is the target; from triplets and rankings a query's positives are 1
    and its negatives 0.
    """

    name: ClassVar[str] = "pair-binary"
    model: ClassVar[ModelKind] = "cross-encoder"
    data: ClassVar[frozenset[DataKind]] = frozenset({"sts", "triplets", "ranking"})

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of the model's labels."""
        return ("relevance",)

    def build(self, width: int) -> nn.Module:
        """The objective."""
        del width
        return PairModule(pair_binary)


@dataclass(frozen=True, kw_only=True)
class PairClassification:
    """Tell a pair's label.

    Args:
        labels: Their names; letter case does not count.

    Raises:
        InputError: Fewer than two labels, or one twice.
    """

    name: ClassVar[str] = "pair-classification"
    model: ClassVar[ModelKind] = "cross-encoder"
    data: ClassVar[frozenset[DataKind]] = frozenset({"nli"})

    labels: tuple[str, ...] = NLI_LABELS

    def __post_init__(self) -> None:
        check_labels(self.labels)

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of the model's labels."""
        return self.labels

    def build(self, width: int) -> nn.Module:
        """The objective."""
        del width
        return PairModule(pair_classification)


@dataclass(frozen=True, kw_only=True)
class PairDistillation:
    """Learn the logit of a larger cross-encoder, for pairs that need no labels."""

    name: ClassVar[str] = "pair-distillation"
    model: ClassVar[ModelKind] = "cross-encoder"
    data: ClassVar[frozenset[DataKind]] = frozenset({"pairs", "triplets", "ranking", "parallel"})

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of the model's labels."""
        return ("relevance",)

    def build(self, width: int) -> nn.Module:
        """The objective."""
        del width
        return PairModule(pair_distillation)


class PairModule(nn.Module):
    """A function of logits and targets.

    Args:
        loss: The function.
    """

    def __init__(self, loss: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.loss = loss

    def forward(self, vectors: Sequence[Tensor], target: Tensor | None) -> Tensor:
        """The loss of one column, the logits (batch, labels), and the targets."""
        (logits,) = vectors
        return self.loss(logits, needed(target))
