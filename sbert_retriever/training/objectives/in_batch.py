"""In-batch negatives: among a batch's passages, find the one that belongs to the query."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own customary name
from torch import Tensor, nn

from sbert_retriever.training.kinds import DataKind, ModelKind
from sbert_retriever.training.objectives.settings import one_of, positive, switch

BatchSimilarity: TypeAlias = Literal["cosine", "dot"]


def info_nce(
    queries: Tensor,
    positives: Tensor,
    negatives: Sequence[Tensor] = (),
    *,
    temperature: float = 0.05,
    similarity: BatchSimilarity = "cosine",
    symmetric: bool = False,
    repeated: Tensor | None = None,
) -> Tensor:
    """Mean of -log(exp(s(q_i, p_i) / t) / sum_j exp(s(q_i, c_j) / t)).

    The candidates c are all positives of the batch, then all its hard negatives (InfoNCE, van den
    Oord et al. 2018, equation 4). With s the dot product and t = 1 it is the loss of DPR
    (Karpukhin et al. 2020, equation 2); with a text and itself, two crops of a text or a text
    under two draws of dropout as the pair, that of Contriever (Izacard et al. 2022, equation 1)
    and SimCSE (Gao et al. 2021, equation 4).

    Args:
        queries: (batch, dim).
        positives: (batch, dim).
        negatives: Hard negatives, each (batch, dim).
        temperature: t.
        similarity: s: "cosine" or "dot".
        symmetric: Whether each positive must also find its query among the batch's queries; the
            mean of the two directions.
        repeated: (batch, negatives) bool, True where a hard negative is one of its own row's
            passages again: it is no candidate, or it would weigh double.

    Examples:
        >>> eye = torch.eye(2)
        >>> round(info_nce(eye, eye, temperature=1.0).item(), 4)  # -log(e / (e + 1))
        0.3133
    """
    candidates = torch.cat([positives, *negatives])
    if repeated is not None:
        again = torch.cat([repeated.new_zeros(len(positives)), repeated.T.flatten()])
        candidates = candidates[~again]
    if similarity == "cosine":
        queries, candidates = F.normalize(queries, dim=1), F.normalize(candidates, dim=1)
    logits = queries @ candidates.T / temperature
    right = torch.arange(len(queries), device=queries.device)
    loss = F.cross_entropy(logits, right)
    if symmetric:
        loss = (loss + F.cross_entropy(logits[:, : len(queries)].T, right)) / 2
    return loss


@dataclass(frozen=True, kw_only=True)
class InBatch:
    """Find the passage of a query among those of its batch. Batches hold no text twice.

    With a view, `texts` are enough: "crops" makes two crops of each text its pair (Contriever),
    "twice" the text itself under two draws of dropout (SimCSE).

    Args:
        temperature: Similarities are divided by it; 1 with similarity "dot" is DPR.
        similarity: "cosine" or "dot".
        symmetric: Whether passages must find their queries too.

    Raises:
        InputError: A value is unknown, or the temperature not above 0.
    """

    name: ClassVar[str] = "in-batch"
    model: ClassVar[ModelKind] = "bi-encoder"
    data: ClassVar[frozenset[DataKind]] = frozenset({"pairs", "triplets", "ranking", "texts"})

    temperature: float = 0.05
    similarity: BatchSimilarity = "cosine"
    symmetric: bool = False

    def __post_init__(self) -> None:
        positive("temperature", self.temperature)
        one_of("similarity", self.similarity, ("cosine", "dot"))
        switch("symmetric", self.symmetric)

    def build(self, width: int) -> nn.Module:
        """The objective for vectors of a width."""
        del width
        return InBatchModule(self)


class InBatchModule(nn.Module):
    """`info_nce`.

    Args:
        settings: Temperature and so on.
    """

    def __init__(self, settings: InBatch) -> None:
        super().__init__()
        self.settings = settings

    def forward(self, vectors: Sequence[Tensor], target: Tensor | None) -> Tensor:
        """The loss of columns query, positive, negative, ...: (batch, dim) each.

        The target is `repeated`.
        """
        queries, positives, *negatives = vectors
        return info_nce(
            queries,
            positives,
            negatives,
            temperature=self.settings.temperature,
            similarity=self.settings.similarity,
            symmetric=self.settings.symmetric,
            repeated=target,
        )
