"""Trained models to folders that sentence-transformers and this project read alike."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from safetensors.torch import save_file

from sbert_retriever.encoder.checkpoint import Checkpoint, DenseSpec
from sbert_retriever.encoder.folders import copy_tokenizer
from sbert_retriever.encoder.head import Dense
from sbert_retriever.encoder.pretrained import without_progress_bars
from sbert_retriever.training.models import Model, PairModel, TextModel, TwoTowers

_SIMILARITIES = {
    "cosine": "cosine",
    "dot": "dot",
    "neg_l2": "euclidean",
    "neg_l1": "manhattan",
}
_SWITCHES = {
    "cls": "pooling_mode_cls_token",
    "max": "pooling_mode_max_tokens",
    "mean": "pooling_mode_mean_tokens",
    "mean_sqrt_len": "pooling_mode_mean_sqrt_len_tokens",
    "weighted_mean": "pooling_mode_weightedmean_tokens",
    "last_token": "pooling_mode_lasttoken",
}
_MODULES = "sentence_transformers.models."


def save_model(model: Model, folder: Path) -> None:
    """Write a model: a bi-encoder's modules, a Router with two of them, or a classifier of pairs.

    Args:
        model: On any device; its weights are written as they are.
        folder: Made where it is absent; what stands there under the same names is replaced.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if isinstance(model, PairModel):
        _save_pair_model(model, folder)
        return
    if isinstance(model, TwoTowers):
        _save_router(model, folder)
    else:
        parts = list(_write_parts(model, folder, prefix=""))
        _write_json(folder / "modules.json", _entries(parts))
    tower = model.query if isinstance(model, TwoTowers) else model
    _write_json(folder / "config_sentence_transformers.json", _whole(tower.checkpoint))


def _save_pair_model(model: PairModel, folder: Path) -> None:
    with without_progress_bars():
        model.transformer.save_pretrained(folder)
    copy_tokenizer(model.checkpoint.transformer, folder)
    if model.checkpoint.lowercase:
        _write_json(folder / "sentence_bert_config.json", _sizes(model.checkpoint))
    _set_length(folder, model.checkpoint.max_length)
    if model.checkpoint.prompts:
        _write_json(folder / "config_sentence_transformers.json", _whole(model.checkpoint))


def _save_router(model: TwoTowers, folder: Path) -> None:
    """Two encoders as sentence-transformers' Router, by the names of its own two tasks."""
    types: dict[str, str] = {}
    structure: dict[str, list[str]] = {}
    for route, tower in (("query", model.query), ("document", model.passage)):
        parts = list(_write_parts(tower, folder, prefix=f"{route}_"))
        structure[route] = [path for path, _ in parts]
        types |= {path: _MODULES + kind for path, kind in parts}
    parameters = {"default_route": "document", "allow_empty_key": True}
    router = {"types": types, "structure": structure, "parameters": parameters}
    _write_json(folder / "router_config.json", router)
    _write_json(folder / "modules.json", _entries([("", "Router")]))


def _write_parts(model: TextModel, folder: Path, *, prefix: str) -> Iterator[tuple[str, str]]:
    """Write an encoder's modules; yields the folder and the kind of each."""
    checkpoint = model.checkpoint
    place = f"{prefix}0_Transformer" if prefix else ""
    _write_transformer(model, folder / place)
    yield place, "Transformer"
    place = f"{prefix}1_Pooling"
    _write_json(folder / place / "config.json", _pooling(model))
    yield place, "Pooling"
    number = 2
    for dense, spec in zip(model.denses, checkpoint.denses, strict=True):
        place = f"{prefix}{number}_Dense"
        _write_dense(dense, spec, folder / place)
        yield place, "Dense"
        number += 1
    if checkpoint.normalize:
        place = f"{prefix}{number}_Normalize"
        (folder / place).mkdir(exist_ok=True)
        yield place, "Normalize"


def _write_transformer(model: TextModel, folder: Path) -> None:
    with without_progress_bars():
        model.transformer.save_pretrained(folder)
    copy_tokenizer(model.checkpoint.transformer, folder)
    _write_json(folder / "sentence_bert_config.json", _sizes(model.checkpoint))
    _set_length(folder, model.checkpoint.max_length)


def _sizes(checkpoint: Checkpoint) -> Mapping[str, Any]:
    return {"max_seq_length": checkpoint.max_length, "do_lower_case": checkpoint.lowercase}


def _set_length(folder: Path, max_length: int | None) -> None:
    """Tell the tokenizer too: a reader of the model alone sees no other limit."""
    path = folder / "tokenizer_config.json"
    if max_length is not None and path.is_file():
        config = json.loads(path.read_text(encoding="utf-8"))
        _write_json(path, {**config, "model_max_length": max_length})


def _pooling(model: TextModel) -> dict[str, Any]:
    checkpoint = model.checkpoint
    switches = {key: mode in checkpoint.pooling for mode, key in _SWITCHES.items()}
    width = int(model.transformer.config.hidden_size)
    return {
        "word_embedding_dimension": width,
        **switches,
        "include_prompt": checkpoint.include_prompt,
    }


def _write_dense(dense: Any, spec: DenseSpec, folder: Path) -> None:
    made: Dense = dense
    config = {
        "in_features": spec.in_features,
        "out_features": spec.out_features,
        "bias": spec.bias,
        "activation_function": f"torch.nn.modules.{_home(spec.activation)}.{spec.activation}",
        **({"use_residual": True} if spec.residual else {}),
    }
    _write_json(folder / "config.json", config)
    state = {name: tensor.detach().cpu() for name, tensor in made.state_dict().items()}
    save_file(state, str(folder / "model.safetensors"), metadata={"format": "pt"})


def _home(activation: str) -> str:
    return "linear" if activation == "Identity" else "activation"


def _entries(parts: Sequence[tuple[str, str]]) -> list[dict[str, Any]]:
    """The entries of modules.json."""
    return [
        {"idx": number, "name": str(number), "path": path, "type": _MODULES + kind}
        for number, (path, kind) in enumerate(parts)
    ]


def _whole(checkpoint: Checkpoint) -> Mapping[str, Any]:
    return {
        "prompts": dict(checkpoint.prompts),
        "default_prompt_name": checkpoint.default_prompt,
        "similarity_fn_name": _SIMILARITIES[checkpoint.similarity],
    }


def _write_json(path: Path, value: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
