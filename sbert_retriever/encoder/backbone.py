"""Token ids to hidden states: BERT through our own forward pass, all else through transformers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import torch
from torch import Tensor

from sbert_retriever.encoder.bert import BertBackbone, runs_here
from sbert_retriever.encoder.checkpoint import Checkpoint
from sbert_retriever.encoder.pretrained import read_pretrained
from sbert_retriever.encoder.weights import load_state
from sbert_retriever.errors import ModelFormatError


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
        state = load_state(checkpoint.transformer)
        return BertBackbone(checkpoint.config, state, device=device, dtype=dtype)
    return AutoBackbone(checkpoint, device=device, dtype=dtype)


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
