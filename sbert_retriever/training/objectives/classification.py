"""Classification of sentence pairs: softmax over a concatenation of their vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own customary name
from torch import Tensor, nn

from sbert_retriever.errors import InputError
from sbert_retriever.training.kinds import DataKind, ModelKind
from sbert_retriever.training.objectives.target import needed

PARTS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "u": lambda u, v: u,
    "v": lambda u, v: v,
    "|u-v|": lambda u, v: (u - v).abs(),
    "u*v": lambda u, v: u * v,
}
"""What a concatenation may hold, by the paper's notation."""

NLI_LABELS = ("contradiction", "entailment", "neutral")


def concatenated(u: Tensor, v: Tensor, parts: Sequence[str]) -> Tensor:
    """The parts of two vectors side by side.

    Args:
        u: (batch, dim).
        v: (batch, dim).
        parts: Names of `PARTS`.

    Returns:
        (batch, dim * len(parts)).

    Examples:
        >>> u, v = torch.tensor([[1.0]]), torch.tensor([[3.0]])
        >>> concatenated(u, v, ("u", "v", "|u-v|", "u*v")).tolist()
        [[1.0, 3.0, 2.0, 3.0]]
    """
    return torch.cat([PARTS[part](u, v) for part in parts], dim=1)


def softmax_classification(
    u: Tensor, v: Tensor, labels: Tensor, *, weight: Tensor, parts: Sequence[str]
) -> Tensor:
    """Cross-entropy of o = softmax(W [u; v; |u - v|]) (Sentence-BERT, section 3).

    Args:
        u: (batch, dim).
        v: (batch, dim).
        labels: int64 (batch,).
        weight: W, (labels, dim * len(parts)).
        parts: What is concatenated; the paper's own choice is u, v and |u-v|.

    Returns:
        The mean over the batch.
    """
    return F.cross_entropy(F.linear(concatenated(u, v, parts), weight), labels)


@dataclass(frozen=True, kw_only=True)
class Classification:
    """Tell the label of a pair from its two vectors.

    Args:
        labels: Their names; letter case does not count.
        concatenation: What the classifier sees: u, v, |u-v|, u*v.

    Raises:
        InputError: Fewer than two labels, one twice, or an unknown part.
    """

    name: ClassVar[str] = "classification"
    model: ClassVar[ModelKind] = "bi-encoder"
    data: ClassVar[frozenset[DataKind]] = frozenset({"nli"})

    labels: tuple[str, ...] = NLI_LABELS
    concatenation: tuple[str, ...] = ("u", "v", "|u-v|")

    def __post_init__(self) -> None:
        check_labels(self.labels)
        unknown = [part for part in self.concatenation if part not in PARTS]
        repeated = len(set(self.concatenation)) < len(self.concatenation)
        if unknown or repeated or not self.concatenation:
            raise InputError(
                f"concatenation is {list(self.concatenation)}, expected one or more of "
                f"{', '.join(PARTS)}, each once"
            )

    def build(self, width: int) -> nn.Module:
        """The objective for vectors of a width."""
        return ClassificationModule(width, len(self.labels), self.concatenation)


def check_labels(labels: Sequence[str]) -> None:
    """Refuse names that do not tell two or more labels apart.

    Raises:
        InputError: They do not, or are no texts.
    """
    if strange := [label for label in labels if not isinstance(label, str)]:
        raise InputError(
            f"labels are {list(labels)}, expected texts: write {str(strange[0])!r}, which is also "
            "how a number in the data is read"
        )
    if len({label.casefold() for label in labels}) < max(2, len(labels)):
        raise InputError(f"labels are {list(labels)}, expected two or more, each once")


class ClassificationModule(nn.Module):
    """`softmax_classification` with a W of its own, which is thrown away after training.

    Args:
        width: Of the vectors.
        labels: How many.
        parts: What is concatenated.
    """

    def __init__(self, width: int, labels: int, parts: Sequence[str]) -> None:
        super().__init__()
        self.parts = tuple(parts)
        self.classifier = nn.Linear(width * len(self.parts), labels, bias=False)

    def forward(self, vectors: Sequence[Tensor], target: Tensor | None) -> Tensor:
        """The loss of two columns of vectors (batch, dim) and labels (batch,)."""
        u, v = vectors
        return softmax_classification(
            u, v, needed(target), weight=self.classifier.weight, parts=self.parts
        )
