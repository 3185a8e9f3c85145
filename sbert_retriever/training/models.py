"""The models that are trained: one text to a vector, a pair of encoders, a pair to its logits."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import torch.nn.functional as F  # noqa: N812 - torch's own customary name
from torch import Tensor, nn

from sbert_retriever.encoder.adjust import Adjustments, adjusted, output_width
from sbert_retriever.encoder.checkpoint import (
    Checkpoint,
    has_routes,
    read_checkpoint,
    read_routes,
)
from sbert_retriever.encoder.head import load_dense
from sbert_retriever.encoder.pooling import pool
from sbert_retriever.encoder.resolve import locate
from sbert_retriever.encoder.tokenizer import TextTokenizer, load_tokenizer
from sbert_retriever.errors import InputError
from sbert_retriever.training.config import TrainConfig
from sbert_retriever.training.kinds import Weights
from sbert_retriever.training.objectives.distillation import DistilMargins
from sbert_retriever.training.objectives.in_batch import InBatch
from sbert_retriever.training.objectives.registry import Objective
from sbert_retriever.training.transformer import load_pair_transformer, load_transformer

# The order in which sentence-transformers concatenates several poolings.
_POOLING_ORDER = ("cls", "max", "mean", "mean_sqrt_len", "weighted_mean", "last_token")


_IDENTITY = "torch.nn.modules.linear.Identity"
_ACTIVATIONS = {
    "pair-regression": _IDENTITY,
    "pair-distillation": _IDENTITY,
    "pair-classification": _IDENTITY,
    "pair-binary": "torch.nn.modules.activation.Sigmoid",
}
"""What turns the logits of each objective into what it was trained for."""
_COLD = 0.5


class Tokenised(NamedTuple):
    """A column of a batch.

    Args:
        ids: Token ids (batch, length) int64, padded on the right.
        mask: (batch, length) bool, True where a token counts.
        types: Type ids (batch, length) int64, for pairs.
        skipped: Tokens at the start that pooling leaves out.
    """

    ids: Tensor
    mask: Tensor
    types: Tensor | None = None
    skipped: int = 0


class TextModel(nn.Module):
    """A bi-encoder whose weights can be trained: transformer, pooling, Dense layers, length 1.

    Args:
        transformer: Of transformers.
        checkpoint: What it was made from, and how its vectors are made.
        tokenizer: Its own.
    """

    def __init__(self, transformer: Any, checkpoint: Checkpoint, tokenizer: TextTokenizer) -> None:
        super().__init__()
        self.transformer = transformer
        self.denses = nn.ModuleList(
            load_dense(spec).train().requires_grad_(True) for spec in checkpoint.denses
        )
        self.checkpoint = checkpoint
        self.tokenizer = tokenizer
        _freeze_pooler(transformer)

    @property
    def width(self) -> int:
        """Of its vectors."""
        return output_width(self.checkpoint)

    def forward(self, column: Tokenised) -> Tensor:
        """Vectors (batch, width) float32 of a column of texts."""
        mask = column.mask
        output = self.transformer(input_ids=column.ids, attention_mask=mask.long())
        if column.skipped:
            mask = mask.clone()
            mask[:, : column.skipped] = False
        vectors = pool(output.last_hidden_state, mask, self.checkpoint.pooling)
        for dense in self.denses:
            vectors = dense(vectors).float()
        return F.normalize(vectors, dim=1) if self.checkpoint.normalize else vectors


class TwoTowers(nn.Module):
    """An encoder for queries and one for passages (DPR).

    Args:
        query: For the first column.
        passage: For all others.
    """

    def __init__(self, query: TextModel, passage: TextModel) -> None:
        super().__init__()
        self.query = query
        self.passage = passage

    @property
    def width(self) -> int:
        """Of their vectors."""
        return self.query.width


class PairModel(nn.Module):
    """A cross-encoder whose weights can be trained.

    Args:
        transformer: Of transformers, with a classifier.
        checkpoint: What it was made from.
        tokenizer: Its own.
        labels: The names of its logits.
    """

    def __init__(
        self,
        transformer: Any,
        checkpoint: Checkpoint,
        tokenizer: TextTokenizer,
        labels: tuple[str, ...],
    ) -> None:
        super().__init__()
        self.transformer = transformer
        self.checkpoint = checkpoint
        self.tokenizer = tokenizer
        self.labels = labels

    @property
    def width(self) -> int:
        """How many logits a pair gets."""
        return len(self.labels)

    def forward(self, column: Tokenised) -> Tensor:
        """Logits (batch, labels) float32 of a column of pairs."""
        typed = {} if column.types is None else {"token_type_ids": column.types}
        output = self.transformer(input_ids=column.ids, attention_mask=column.mask.long(), **typed)
        logits: Tensor = output.logits
        return logits.float()


Model: TypeAlias = TextModel | TwoTowers | PairModel


def load_model(
    config: TrainConfig, *, labels: tuple[str, ...] = (), saved: Path | None = None
) -> Model:
    """The model that a run, or one of its later steps, starts from.

    Args:
        config: Of the run.
        labels: Of a cross-encoder.
        saved: The folder of the step before; None is the configuration's own model.

    Raises:
        ModelError: It cannot be found, read or used.
        InputError: The configuration asks for what the model cannot do.
    """
    found = locate(saved or config.model)
    weights: Weights = config.weights if saved is None else "pretrained"
    if config.kind == "two-encoders" and has_routes(found.folder):
        routes = read_routes(found.folder)
        towers = (_text_model(routes[role], config, weights) for role in ("query", "passage"))
        return TwoTowers(*towers)
    checkpoint = read_checkpoint(found.folder, found.packaged)
    if config.kind == "cross-encoder":
        return _pair_model(checkpoint, config, weights, labels)
    model = _text_model(checkpoint, config, weights)
    return TwoTowers(model, copy.deepcopy(model)) if config.kind == "two-encoders" else model


def _text_model(read: Checkpoint, config: TrainConfig, weights: Weights) -> TextModel:
    checkpoint = _compared(_as_wanted(read, config), config)
    modes = sorted(checkpoint.pooling, key=_POOLING_ORDER.index)
    checkpoint = replace(checkpoint, pooling=tuple(modes))
    output_width(checkpoint)
    body = load_transformer(checkpoint, weights=weights, dropout=config.dropout)
    return TextModel(body, checkpoint, _tokenizer(checkpoint))


def _pair_model(
    read: Checkpoint, config: TrainConfig, weights: Weights, labels: tuple[str, ...]
) -> PairModel:
    checkpoint = _as_wanted(read, config)
    body = load_pair_transformer(checkpoint, labels=labels, weights=weights, dropout=config.dropout)
    tokenizer = _tokenizer(checkpoint)
    body.config.pad_token_id = tokenizer.pad_id
    _say_scale(body.config, config.steps[-1].objective.name)
    return PairModel(body, checkpoint, tokenizer, labels)


def _say_scale(settings: Any, objective: str) -> None:
    """Write what makes a score of a logit: sentence-transformers takes a sigmoid else."""
    known = getattr(settings, "sentence_transformers", None) or {}
    settings.sentence_transformers = {**known, "activation_fn": _ACTIVATIONS[objective]}


def _as_wanted(read: Checkpoint, config: TrainConfig) -> Checkpoint:
    wanted = Adjustments(
        max_length=config.max_length, pooling=config.pooling, normalize=config.normalize
    )
    return adjusted(read, wanted)


def _compared(checkpoint: Checkpoint, config: TrainConfig) -> Checkpoint:
    """What was trained by dot products is compared by them: its lengths say something."""
    trained = getattr(config.steps[-1].objective, "similarity", None)
    if trained != "dot" or checkpoint.normalize:
        return checkpoint
    return replace(checkpoint, similarity="dot")


def _tokenizer(checkpoint: Checkpoint) -> TextTokenizer:
    return load_tokenizer(
        checkpoint.transformer,
        checkpoint.config,
        max_length=checkpoint.max_length,
        lowercase=checkpoint.lowercase,
    )


def _freeze_pooler(transformer: Any) -> None:
    """A pooler takes no part in a vector: it is kept as it is."""
    pooler = getattr(transformer, "pooler", None)
    if isinstance(pooler, nn.Module):
        pooler.requires_grad_(False)


def check_widths(widths: Sequence[int], model: Model) -> None:
    """Refuse Matryoshka widths that a model's vectors do not have.

    Raises:
        InputError: One is too large.
    """
    if isinstance(model, PairModel):
        return
    if too_large := [width for width in widths if width >= model.width]:
        raise InputError(
            f"matryoshka has the width {too_large[0]}, expected less than {model.width}, the "
            "model's own"
        )


def check_products(objective: Objective, model: Model) -> None:
    """Refuse dot products that vectors of length 1 cannot have.

    Raises:
        InputError: The model's vectors have length 1, and the objective asks for more.
    """
    tower = model.query if isinstance(model, TwoTowers) else model
    if isinstance(tower, PairModel) or not tower.checkpoint.normalize:
        return
    if isinstance(objective, DistilMargins):
        raise InputError(
            "distil-margins learns a cross-encoder's margins, of several logits, and the model's "
            "vectors have length 1, whose dot products differ by 2 at most: give normalize = false"
        )
    if (
        isinstance(objective, InBatch)
        and objective.similarity == "dot"
        and objective.temperature > _COLD
    ):
        raise InputError(
            f"in-batch by dot products at temperature {objective.temperature:g}, and the model's "
            "vectors have length 1, so that all candidates are nearly alike: give "
            "normalize = false, or a temperature such as 0.05"
        )
