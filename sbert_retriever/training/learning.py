"""A model and its objective as one module: columns of token ids in, a loss out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own customary name
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint as computed_again

from sbert_retriever.training.config import TrainStep
from sbert_retriever.training.models import Model, PairModel, TextModel, Tokenised, TwoTowers
from sbert_retriever.training.objectives.matryoshka import MatryoshkaModule

# One pass over two columns takes an eighth less time than two over as many tokens of short texts.
_PADDED_MORE = 1.1


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
        vectors = [v for encode, own in self._by_encoder(columns) for v in self._all(encode, own)]
        with torch.autocast(vectors[0].device.type, enabled=False):
            loss: Tensor = self.objective([x.float() for x in vectors], target)
        return loss

    def _by_encoder(
        self, columns: Sequence[Tokenised]
    ) -> list[tuple[TextModel | PairModel, Sequence[Tokenised]]]:
        if isinstance(self.model, TwoTowers):
            return [(self.model.query, columns[:1]), (self.model.passage, columns[1:])]
        return [(self.model, columns)]

    def _all(self, encode: TextModel | PairModel, columns: Sequence[Tokenised]) -> Sequence[Tensor]:
        """Vectors of each column, by one pass over all of them where that pads little more."""
        joined = None
        if self.chunk_size is None and isinstance(encode, TextModel):
            joined = _joined(columns, encode.tokenizer.pad_id)
        if joined is None:
            return [self._vectors(encode, column) for column in columns]
        vectors: Tensor = encode(joined)
        return torch.split(vectors, [len(column.ids) for column in columns])

    def _vectors(self, encode: TextModel | PairModel, column: Tokenised) -> Tensor:
        if self.chunk_size is None or len(column.ids) <= self.chunk_size:
            return cast(Tensor, encode(column))
        parts = [
            computed_again(_run, encode, *part, use_reentrant=False)
            for part in _chunks(column, self.chunk_size)
        ]
        return torch.cat(parts)


def _joined(columns: Sequence[Tokenised], pad_id: int) -> Tokenised | None:
    """The columns under each other; None where that is no gain, or where they are pooled unlike."""
    if len(columns) < 2 or len({column.skipped for column in columns}) > 1:
        return None
    cells = sum(column.ids.numel() for column in columns)
    length = max(column.ids.shape[1] for column in columns)
    rows = sum(len(column.ids) for column in columns)
    if rows * length > _PADDED_MORE * cells:
        return None
    return Tokenised(
        ids=torch.cat([_widened(column.ids, length, pad_id) for column in columns]),
        mask=torch.cat([_widened(column.mask, length, False) for column in columns]),
        skipped=columns[0].skipped,
    )


def _widened(grid: Tensor, length: int, filled: int | bool) -> Tensor:
    return F.pad(grid, (0, length - grid.shape[1]), value=filled)


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
