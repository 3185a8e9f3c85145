"""A transformer with weights that can be trained, from any folder that the encoders read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import nn

from sbert_retriever.encoder.checkpoint import Checkpoint
from sbert_retriever.encoder.onnx_weights import load_onnx_bert
from sbert_retriever.encoder.pretrained import read_pretrained
from sbert_retriever.encoder.weights import weight_files
from sbert_retriever.errors import ModelFormatError
from sbert_retriever.training.kinds import Weights


def load_transformer(checkpoint: Checkpoint, *, weights: Weights, dropout: float | None) -> Any:
    """The body of a bi-encoder, as transformers' AutoModel makes it.

    Args:
        checkpoint: Whose.
        weights: Those of the checkpoint, or random ones.
        dropout: While training; None is the model's own.

    Raises:
        ModelFormatError: The weights cannot be read, or some are missing.
    """
    from transformers import AutoModel

    return _load(AutoModel, checkpoint, labels=None, weights=weights, dropout=dropout)


def load_pair_transformer(
    checkpoint: Checkpoint, *, labels: tuple[str, ...], weights: Weights, dropout: float | None
) -> Any:
    """A cross-encoder, as transformers' AutoModelForSequenceClassification makes it.

    A classifier of as many labels is kept, its rows in the order of their names where those are
    the same; else one is made anew.

    Args:
        checkpoint: Whose; a bi-encoder's will do.
        labels: Their names.
        weights: Those of the checkpoint, or random ones.
        dropout: While training; None is the model's own.

    Raises:
        ModelFormatError: The weights cannot be read, or some of the body's are missing.
    """
    from transformers import AutoModelForSequenceClassification

    kind = AutoModelForSequenceClassification
    return _load(kind, checkpoint, labels=labels, weights=weights, dropout=dropout)


def _load(
    kind: Any,
    checkpoint: Checkpoint,
    *,
    labels: tuple[str, ...] | None,
    weights: Weights,
    dropout: float | None,
) -> Any:
    config = _configuration(checkpoint)
    before = [config.id2label[number] for number in sorted(config.id2label)]
    if labels is not None:
        config.id2label = dict(enumerate(labels))
        config.label2id = {name: number for number, name in enumerate(labels)}
    missing: list[str] = []
    if weights == "random":
        model = kind.from_config(config)
    elif weight_files(checkpoint.transformer)[0].suffix == ".onnx":
        model, missing = _from_onnx(kind, checkpoint, config)
    else:
        model, missing = read_pretrained(kind, checkpoint.transformer, torch.float32, config=config)
    _check_complete(missing, checkpoint, model, labels)
    if labels is not None and weights != "random":
        _reorder(model, before, labels)
    if dropout is not None:
        _set_dropout(model, dropout)
    return model


def _reorder(model: Any, before: Sequence[str], labels: Sequence[str]) -> None:
    """Put the classifier's rows into the labels' order, where it has the same ones in another."""
    places = {name.casefold(): number for number, name in enumerate(before)}
    order = [places.get(name.casefold(), -1) for name in labels]
    if sorted(order) != list(range(len(before))) or order == sorted(order):
        return
    heads = [
        m for m in model.modules() if isinstance(m, nn.Linear) and m.out_features == len(order)
    ]
    with torch.no_grad():
        for tensor in heads[-1].parameters():
            tensor.copy_(tensor[order].clone())


def _configuration(checkpoint: Checkpoint) -> Any:
    from transformers import AutoConfig

    part = checkpoint.transformer
    if (part / "config.json").is_file():
        try:
            config = AutoConfig.from_pretrained(
                part, trust_remote_code=False, local_files_only=True
            )
        except (OSError, ValueError, KeyError) as error:
            reason = str(error).strip().partition("\n")[0]
            raise ModelFormatError(f"transformers cannot load {part}: {reason}") from error
    else:
        known = {k: v for k, v in checkpoint.config.items() if k != "id2label"}
        config = AutoConfig.for_model(known.pop("model_type"), **known)
    return config


def _from_onnx(kind: Any, checkpoint: Checkpoint, config: Any) -> tuple[Any, list[str]]:
    """The weights of an ONNX export of BERT, dequantised."""
    _, state, _ = load_onnx_bert(checkpoint.transformer)
    model = kind.from_config(config)
    own = model.state_dict()
    bare = {name.removeprefix("bert."): tensor for name, tensor in state.items()}
    fitting = {
        name: bare[short]
        for name, tensor in own.items()
        if (short := name.removeprefix("bert.")) in bare and bare[short].shape == tensor.shape
    }
    result = model.load_state_dict(fitting, strict=False)
    return model, sorted(set(result.missing_keys))


def _check_complete(
    missing: Iterable[str], checkpoint: Checkpoint, model: Any, labels: tuple[str, ...] | None
) -> None:
    """Refuse a body with weights that were made up; a head may be new.

    Raises:
        ModelFormatError: Some are missing.
    """
    body = f"{model.base_model_prefix}."
    names = [
        name
        for name in missing
        if "pooler" not in name.split(".") and (labels is None or name.startswith(body))
    ]
    if names:
        raise ModelFormatError(
            f"the weights of {checkpoint.transformer} hold no {names[0]}, and {len(names)} tensors "
            "in all are missing that its config.json asks for: get the whole model again"
        )


def _set_dropout(model: nn.Module, share: float) -> None:
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = share
        if isinstance(getattr(module, "attention_dropout", None), float):
            module.attention_dropout = share  # type: ignore[assignment]  # a plain number there
