"""Token ids to hidden states: BERT through our own forward pass, all else through transformers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from sbert_retriever.encoder.batching import TokenBatch, TokenIds
from sbert_retriever.encoder.bert import BertBackbone, read_weights, runs_here
from sbert_retriever.encoder.checkpoint import Checkpoint
from sbert_retriever.encoder.int8_bert import int8_backbone
from sbert_retriever.encoder.known_tokens import check_token_ids, words_of
from sbert_retriever.encoder.packing import packed
from sbert_retriever.encoder.pretrained import read_pretrained
from sbert_retriever.encoder.weights import load_state
from sbert_retriever.errors import InputError, ModelFormatError


class Backbone(Protocol):
    """What turns token ids into hidden states."""

    def __call__(self, input_ids: Tensor, attention_mask: Tensor | None) -> Tensor:
        """Hidden states (batch, length, width) of token ids (batch, length) int64.

        Args:
            input_ids: Token ids, padded on the right.
            attention_mask: (batch, length) bool, True where a token counts; None where all do.
        """


def load_backbone(checkpoint: Checkpoint, *, device: torch.device, dtype: torch.dtype) -> Backbone:
    """Read the weights of a checkpoint's transformer.

    Raises:
        ModelFormatError: They cannot be read, or are of an architecture unknown here.
    """
    if runs_here(checkpoint.config):
        return load_bert(
            checkpoint.config, load_state(checkpoint.transformer), device=device, dtype=dtype
        )
    check_int8(checkpoint, dtype)
    return AutoBackbone(checkpoint, device=device, dtype=dtype)


def load_bert(
    config: Mapping[str, Any],
    state: Mapping[str, Tensor],
    *,
    device: torch.device,
    dtype: torch.dtype,
) -> BertBackbone:
    """BERT's forward pass, in a floating type or with int8 products.

    Raises:
        ModelFormatError: A tensor is missing or has another shape than the config says.
    """
    rounded = dtype == torch.int8
    floating = torch.float32 if rounded else dtype
    weights = read_weights(config, state, device=device, dtype=floating)
    return int8_backbone(weights) if rounded else BertBackbone(weights)


def check_int8(checkpoint: Checkpoint, dtype: torch.dtype) -> None:
    """Refuse int8 products for an architecture that runs through transformers.

    Raises:
        InputError: They were asked for.
    """
    if dtype == torch.int8:
        kind = checkpoint.config.get("model_type", "of an unnamed type")
        raise InputError(
            f"dtype='int8' runs BERT models, and {checkpoint.transformer} is {kind}: load it with "
            "dtype='auto'"
        )


def check_tokens(backbone: Backbone, batch: TokenBatch) -> None:
    """Refuse tokens that a model has no embedding for, before they go to a device.

    Raises:
        ModelError: The tokenizer is another model's.
    """
    if isinstance(backbone, BertBackbone | AutoBackbone):
        backbone.check(batch.token_ids)


def hidden_states(
    backbone: Backbone, batch: TokenBatch, *, pad_id: int, device: torch.device
) -> tuple[Tensor, Tensor | None]:
    """Hidden states (batch, length, width), and a mask (batch, length) where any are padding.

    Computed without padding where the device has a kernel for that.

    Raises:
        ModelError: The tokenizer is another model's.
    """
    check_tokens(backbone, batch)
    if isinstance(backbone, BertBackbone) and backbone.packs_well:
        texts = packed(batch.token_ids, None, device=device)
        return texts.spread(backbone.packed(texts))
    ids, mask = batch.padded(pad_id, device=device)
    return backbone(ids, mask), mask


class AutoBackbone:
    """Any architecture that transformers knows.

    Args:
        checkpoint: Whose transformer to load.
        device: Where it runs.
        dtype: In which floating type.
    """

    def __init__(self, checkpoint: Checkpoint, *, device: torch.device, dtype: torch.dtype) -> None:
        from transformers import AutoModel

        if checkpoint.config.get("is_encoder_decoder"):
            raise ModelFormatError(
                f"{checkpoint.transformer} is an encoder-decoder model, expected an encoder alone "
                "(BERT, RoBERTa, MPNet and the like)"
            )
        model, missing = read_pretrained(AutoModel, checkpoint.transformer, dtype)
        _check_complete(missing, checkpoint)
        self._model = model.to(device).eval()
        self._known = words_of(model)

    def check(self, token_ids: Sequence[TokenIds]) -> None:
        """Refuse tokens that the model has no embedding for, before they go to a device.

        Raises:
            ModelError: A text has one.
        """
        check_token_ids(token_ids, known=self._known)

    def __call__(self, input_ids: Tensor, attention_mask: Tensor | None) -> Tensor:
        """Hidden states (batch, length, width)."""
        mask = torch.ones_like(input_ids) if attention_mask is None else attention_mask.long()
        hidden: Tensor = self._model(input_ids=input_ids, attention_mask=mask).last_hidden_state
        return hidden


def _check_complete(missing: Iterable[str], checkpoint: Checkpoint) -> None:
    """Refuse weights that transformers filled up with random ones; a pooler is not used.

    Raises:
        ModelFormatError: Some are missing.
    """
    names = sorted(name for name in missing if "pooler" not in name.split("."))
    if names:
        raise ModelFormatError(
            f"the weights of {checkpoint.transformer} hold no {names[0]}, and {len(names)} tensors "
            "in all are missing that its config.json asks for: get the whole model again"
        )
