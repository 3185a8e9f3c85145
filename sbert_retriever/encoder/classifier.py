"""Token ids of pairs to logits. The head runs in float32 whatever the body runs in.

In bfloat16 a logit near 8 has steps of 1/32: the head alone would tie and swap results.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from sbert_retriever.encoder.backbone import check_int8, load_bert
from sbert_retriever.encoder.batching import TokenBatch, TokenIds
from sbert_retriever.encoder.bert import TensorReader, runs_here
from sbert_retriever.encoder.checkpoint import Checkpoint
from sbert_retriever.encoder.known_tokens import (
    check_token_ids,
    check_type_ids,
    types_of,
    words_of,
)
from sbert_retriever.encoder.packing import packed
from sbert_retriever.encoder.pretrained import read_pretrained
from sbert_retriever.encoder.weights import load_state
from sbert_retriever.errors import ModelFormatError


class Classifier(Protocol):
    """What turns the token ids of pairs into logits."""

    def __call__(
        self, token_ids: Sequence[TokenIds], type_ids: Sequence[TokenIds] | None
    ) -> Tensor:
        """Logits (n, labels) float32.

        Args:
            token_ids: One array a pair, longest first.
            type_ids: As `token_ids`; None where all tokens are of type 0.
        """


def load_classifier(
    checkpoint: Checkpoint, *, labels: int, pad_id: int, device: torch.device, dtype: torch.dtype
) -> Classifier:
    """Read the weights of a checkpoint's transformer and of its classifier.

    Args:
        checkpoint: What to run.
        labels: How many logits a pair is to get.
        pad_id: The id that padding gets.
        device: Where it runs.
        dtype: In which floating type the body runs.

    Raises:
        ModelFormatError: They cannot be read, or hold no classifier of that many labels.
    """
    if runs_here(checkpoint.config):
        state = load_state(checkpoint.transformer)
        model = BertClassifier(checkpoint.config, state, pad_id=pad_id, device=device, dtype=dtype)
        if model.labels != labels:
            raise ModelFormatError(
                f"{checkpoint.transformer} has a classifier of {model.labels} labels, and its "
                f"config.json speaks of {labels}: save the model again"
            )
        return model
    check_int8(checkpoint, dtype)
    return AutoClassifier(checkpoint, pad_id=pad_id, device=device, dtype=dtype)


class BertClassifier:
    """As transformers' BertForSequenceClassification.

    Args:
        config: BERT's config.json.
        state: Its state dict.
        pad_id: The id that padding gets.
        device: Where it runs.
        dtype: In which floating type the body runs.

    Raises:
        ModelFormatError: A tensor is missing or has another shape than the config says.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        state: Mapping[str, Tensor],
        *,
        pad_id: int,
        device: torch.device,
        dtype: torch.dtype,
    ) -> None:
        self._pad_id, self._device = pad_id, device
        self._backbone = load_bert(config, state, device=device, dtype=dtype)
        read = TensorReader(state, device=device, dtype=torch.float32)
        self._pooler = read.linear("pooler.dense")
        self._classifier = read.linear("classifier")

    @property
    def labels(self) -> int:
        """How many logits a pair gets."""
        return len(self._classifier.bias)

    def __call__(
        self, token_ids: Sequence[TokenIds], type_ids: Sequence[TokenIds] | None
    ) -> Tensor:
        """Logits (n, labels) float32."""
        self._backbone.check(token_ids, type_ids)
        # On a CPU texts one by one in the attention cost less than padding them to one length.
        packs = self._device.type == "cpu" or self._backbone.packs_well
        first = self._packed if packs else self._padded
        hidden = first(token_ids, type_ids).float()
        return self._classifier(torch.tanh(self._pooler(hidden)))

    def _packed(self, token_ids: Sequence[TokenIds], type_ids: Sequence[TokenIds] | None) -> Tensor:
        texts = packed(token_ids, type_ids, device=self._device)
        return self._backbone.packed(texts, first_only=True)

    def _padded(self, token_ids: Sequence[TokenIds], type_ids: Sequence[TokenIds] | None) -> Tensor:
        ids, mask, types = _grid(token_ids, type_ids, self._pad_id, self._device)
        return self._backbone(ids, mask, types)[:, 0]


def _grid(
    token_ids: Sequence[TokenIds],
    type_ids: Sequence[TokenIds] | None,
    pad_id: int,
    device: torch.device,
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """Token ids, mask and type ids, each (batch, length)."""
    rows = tuple(range(len(token_ids)))
    ids, mask = TokenBatch(tuple(token_ids), rows).padded(pad_id, device=device)
    if type_ids is None:
        return ids, mask, None
    return ids, mask, TokenBatch(tuple(type_ids), rows).padded(0, device=device)[0]


class AutoClassifier:
    """Any architecture that transformers knows.

    Args:
        checkpoint: Whose transformer to load.
        pad_id: The id that padding gets.
        device: Where it runs.
        dtype: In which floating type the body runs.

    Raises:
        ModelFormatError: transformers cannot load it, or weights of it are missing.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        *,
        pad_id: int,
        device: torch.device,
        dtype: torch.dtype,
    ) -> None:
        model = _load(checkpoint, dtype)
        # A decoder looks for its last token by this id.
        model.config.pad_token_id = pad_id
        _run_head_in_float32(model)
        self._pad_id, self._device = pad_id, device
        self._model = model.to(device).eval()
        self._known, self._types = words_of(model), types_of(model)
        self._typed = "token_type_ids" in inspect.signature(model.forward).parameters

    def __call__(
        self, token_ids: Sequence[TokenIds], type_ids: Sequence[TokenIds] | None
    ) -> Tensor:
        """Logits (n, labels) float32."""
        check_token_ids(token_ids, known=self._known)
        if self._typed:
            check_type_ids(type_ids, known=self._types)
        ids, mask, types = _grid(token_ids, type_ids, self._pad_id, self._device)
        seen = torch.ones_like(ids) if mask is None else mask.long()
        typed = {"token_type_ids": types} if self._typed and types is not None else {}
        logits: Tensor = self._model(input_ids=ids, attention_mask=seen, **typed).logits
        return logits.float()


def _load(checkpoint: Checkpoint, dtype: torch.dtype) -> Any:
    from transformers import AutoModelForSequenceClassification

    folder = checkpoint.transformer
    model, missing = read_pretrained(AutoModelForSequenceClassification, folder, dtype)
    if missing:
        named = ", ".join(missing[:3])
        raise ModelFormatError(
            f"the weights in {folder} hold no {named}, which a sequence classifier has: train "
            "it as a cross-encoder first"
        )
    return model


def _run_head_in_float32(model: nn.Module) -> None:
    """Put what comes after the body, and a pooler inside it, in float32."""
    body = getattr(model, str(model.base_model_prefix), None)
    heads = [module for module in model.children() if module is not body]
    pooler = getattr(body, "pooler", None)
    for head in (*heads, pooler):
        if isinstance(head, nn.Module):
            head.float().register_forward_pre_hook(_in_float32)


def _in_float32(module: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    del module
    return tuple(
        x.float() if isinstance(x, Tensor) and x.is_floating_point() else x for x in inputs
    )
