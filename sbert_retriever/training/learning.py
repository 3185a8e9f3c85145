"""A model and its objective as one module: columns of token ids in, a loss out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint as computed_again

from sbert_retriever.training.config import TrainStep
from sbert_retriever.training.models import Model, PairModel, TextModel, Tokenised, TwoTowers
from sbert_retriever.training.objectives.matryoshka import MatryoshkaModule


class Learning(nn.Module):
    """What is trained in a step.

    With a chunk size it is GradCache (Gao et al. 2021): the loss sees the vectors of the whole
    batch, and the activations of a chunk are let go and computed again, under the same dropout,
    when its gradient is due. Here each chunk is a checkpointed function; the gradient is that of
    the whole batch.

    Args:
        model: The model.
        objective: From columns of vectors and a target to a loss.
        chunk_size: Examples whose activations are kept at a time; None keeps all.
    """

    def __init__(self, model: Model, objective: nn.Module, *, chunk_size: int | None) -> None:
        super().__init__()
        self.model = model
        self.objective = objective
        self.chunk_size = chunk_size

    def forward(self, columns: Sequence[Tokenised], target: Tensor | None = None) -> Tensor:
        """The loss of a batch, computed in float32 whatever the model runs in."""
        vectors = [self._vectors(number, column) for number, column in enumerate(columns)]
        with torch.autocast(vectors[0].device.type, enabled=False):
            loss: Tensor = self.objective([x.float() for x in vectors], target)
        return loss

    def _vectors(self, number: int, column: Tokenised) -> Tensor:
        encode = self._encoder(number)
        if self.chunk_size is None or len(column.ids) <= self.chunk_size:
            return cast(Tensor, encode(column))
        parts = [
            computed_again(_run, encode, *part, use_reentrant=False)
            for part in _chunks(column, self.chunk_size)
        ]
        return torch.cat(parts)

    def _encoder(self, number: int) -> TextModel | PairModel:
        if isinstance(self.model, TwoTowers):
            return self.model.passage if number else self.model.query
        return self.model


def _run(encode: nn.Module, *parts: Any) -> Tensor:
    return cast(Tensor, encode(Tokenised(*parts)))


def _chunks(column: Tokenised, size: int) -> list[Tokenised]:
    return [
        column._replace(
            ids=column.ids[start : start + size],
            mask=column.mask[start : start + size],
            types=None if column.types is None else column.types[start : start + size],
        )
        for start in range(0, len(column.ids), size)
    ]


def learning_of(step: TrainStep, model: Model) -> Learning:
    """The module of a step; what an objective learns itself is drawn anew."""
    return Learning(model, _objective(step, model), chunk_size=step.chunk_size)


def _objective(step: TrainStep, model: Model) -> nn.Module:
    if not step.matryoshka or isinstance(model, PairModel):
        return step.objective.build(model.width)
    dims = (*step.matryoshka, model.width)
    tower = model.query if isinstance(model, TwoTowers) else model
    return MatryoshkaModule(
        [step.objective.build(dim) for dim in dims],
        dims=dims,
        weights=step.matryoshka_weights or (1.0,) * len(dims),
        normalize=tower.checkpoint.normalize,
    )
