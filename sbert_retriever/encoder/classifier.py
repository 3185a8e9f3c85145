"""Token ids of pairs to logits. The head runs in float32 whatever the body runs in.

In bfloat16 a logit near 8 has steps of 1/32: the head alone would tie and swap results.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from sbert_retriever.encoder.bert import BertBackbone, TensorReader, runs_here
from sbert_retriever.encoder.checkpoint import Checkpoint
from sbert_retriever.encoder.weights import load_state
from sbert_retriever.errors import ModelFormatError


class Classifier(Protocol):
    """What turns the token ids of pairs into logits."""

    def __call__(
        self, input_ids: Tensor, attention_mask: Tensor | None, type_ids: Tensor | None
    ) -> Tensor:
        """Logits (batch, labels) float32 of token ids (batch, length) int64.

        Args:
            input_ids: Token ids, padded on the right.
            attention_mask: (batch, length) bool, True where a token counts; None where all do.
            type_ids: (batch, length) int64; None where all tokens are of type 0.
        """


def load_classifier(
    checkpoint: Checkpoint, *, labels: int, device: torch.device, dtype: torch.dtype
) -> Classifier:
    """Read the weights of a checkpoint's transformer and of its classifier.

    Raises:
        ModelFormatError: They cannot be read, or hold no classifier of that many labels.
    """
    if runs_here(checkpoint.config):
        state = load_state(checkpoint.transformer)
        model = BertClassifier(checkpoint.config, state, device=device, dtype=dtype)
        if model.labels != labels:
            raise ModelFormatError(
                f"{checkpoint.transformer} has a classifier of {model.labels} labels, and its "
                f"config.json speaks of {labels}: save the model again"
            )
        return model
    return AutoClassifier(checkpoint, device=device, dtype=dtype)


class BertClassifier:
    """As transformers' BertForSequenceClassification.

    Args:
        config: BERT's config.json.
        state: Its state dict.
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
        device: torch.device,
        dtype: torch.dtype,
    ) -> None:
        self._backbone = BertBackbone(config, state, device=device, dtype=dtype)
        read = TensorReader(state, device=device, dtype=torch.float32)
        self._pooler = read.linear("pooler.dense")
        self._classifier = read.linear("classifier")

    @property
    def labels(self) -> int:
        """How many logits a pair gets."""
        return len(self._classifier.bias)

    def __call__(
        self, input_ids: Tensor, attention_mask: Tensor | None, type_ids: Tensor | None
    ) -> Tensor:
        """Logits (batch, labels) float32."""
        first = self._backbone.first_token(input_ids, attention_mask, type_ids)
        return self._classifier(torch.tanh(self._pooler(first.float())))


class AutoClassifier:
    """Any architecture that transformers knows.

    Args:
        checkpoint: Whose transformer to load.
        device: Where it runs.
        dtype: In which floating type the body runs.

    Raises:
        ModelFormatError: transformers cannot load it, or weights of it are missing.
    """

    def __init__(self, checkpoint: Checkpoint, *, device: torch.device, dtype: torch.dtype) -> None:
        model = _load(checkpoint, dtype)
        if model.config.pad_token_id is None:
            model.config.pad_token_id = 0
        _run_head_in_float32(model)
        self._model = model.to(device).eval()
        self._typed = "token_type_ids" in inspect.signature(model.forward).parameters

    def __call__(
        self, input_ids: Tensor, attention_mask: Tensor | None, type_ids: Tensor | None
    ) -> Tensor:
        """Logits (batch, labels) float32."""
        mask = torch.ones_like(input_ids) if attention_mask is None else attention_mask.long()
        types = {"token_type_ids": type_ids} if self._typed and type_ids is not None else {}
        logits: Tensor = self._model(input_ids=input_ids, attention_mask=mask, **types).logits
        return logits.float()


def _load(checkpoint: Checkpoint, dtype: torch.dtype) -> Any:
    from transformers import AutoModelForSequenceClassification

    folder = checkpoint.transformer
    try:
        model, report = AutoModelForSequenceClassification.from_pretrained(
            folder,
            dtype=dtype,
            trust_remote_code=False,
            local_files_only=True,
            output_loading_info=True,
        )
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise ModelFormatError(f"transformers cannot load {folder}: {reason}") from error
    if report["missing_keys"]:
        missing = ", ".join(sorted(report["missing_keys"])[:3])
        raise ModelFormatError(
            f"the weights in {folder} hold no {missing}, which a sequence classifier has: train "
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
