"""BERT weights out of an ONNX export, int8 or fp32, as a state dict for torch.

An int8 export keeps a matrix as X_quantized, X_scale and X_zero_point: W = (q - z) * s. Matrices
that the exporter left without a name are named after the node that uses them.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from sbert_retriever.encoder.json_files import read_json
from sbert_retriever.errors import MissingExtraError, ModelFormatError

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto

Array = npt.NDArray[Any]

_PARTS = ("_quantized", "_scale", "_zero_point")
# Multiplied from the right in ONNX, (in, out), and from the left in torch, (out, in).
_TRANSPOSED = ("pooler.dense.weight", "classifier.weight")


def onnx_file(folder: Path) -> Path | None:
    """The ONNX file of a model's folder, if it has one."""
    candidates = (folder / "model.onnx", folder / "onnx" / "model.onnx")
    return next((path for path in candidates if path.is_file()), None)


def load_onnx_bert(folder: Path) -> tuple[dict[str, Any], dict[str, Tensor], int]:
    """Read a BERT out of the ONNX export in a folder.

    Returns:
        The configuration (config.json where there is one, what the shapes say where not), the
        state dict in float32 under Hugging Face's names, and the number of labels of the
        classifier, 0 where there is none.

    Raises:
        MissingExtraError: onnx is not installed.
        ModelFormatError: There is no ONNX file, or it is no BERT, or a tensor has no use.
    """
    path = onnx_file(folder)
    if path is None:
        raise ModelFormatError(f"{folder} has no model.onnx: give a folder with an ONNX export")
    model = _read(path)
    tensors = _dequantised(_initializers(model), path)
    state = _named(tensors, _matmul_names(model.graph.node), path)
    config = {**_config_of(state, path), **read_json(folder / "config.json")}
    classifier = state.get("classifier.weight")
    return config, state, 0 if classifier is None else len(classifier)


def _read(path: Path) -> ModelProto:
    try:
        import onnx
    except ImportError as error:
        raise MissingExtraError("onnx", extra="offline", purpose="read ONNX weights") from error
    try:
        return onnx.load(str(path))
    except Exception as error:  # protobuf's DecodeError has no stable home
        raise ModelFormatError(f"{path} cannot be read as ONNX: {error}") from error


def _initializers(model: ModelProto) -> dict[str, Array]:
    from onnx import numpy_helper

    return {x.name: np.array(numpy_helper.to_array(x)) for x in model.graph.initializer}


def _dequantised(tensors: Mapping[str, Array], path: Path) -> dict[str, Array]:
    """Put the three parts of each quantised tensor together; the others pass."""
    plain = {n: x for n, x in tensors.items() if not n.endswith(_PARTS)}
    for name in (n for n in tensors if n.endswith("_quantized")):
        base = name.removesuffix("_quantized")
        try:
            scale, zero = tensors[f"{base}_scale"], tensors[f"{base}_zero_point"]
        except KeyError as error:
            raise ModelFormatError(f"{path} has {name} without {error}") from error
        integers = tensors[name].astype(np.int32) - zero.astype(np.int32)
        plain[base] = integers.astype(np.float32) * scale.astype(np.float32)
    return plain


def _matmul_names(nodes: list[NodeProto]) -> dict[str, str]:
    """The weight that each matrix product uses, named after its place in the network."""
    names = {}
    for node in nodes:
        if node.op_type in {"MatMul", "MatMulInteger"} and len(node.input) > 1:
            place = node.name.strip("/").rpartition("/")[0].replace("/", ".")
            names[node.input[1].removesuffix("_quantized")] = f"{place}.weight"
    return names


def _named(tensors: Mapping[str, Array], names: Mapping[str, str], path: Path) -> dict[str, Tensor]:
    """The state dict: every floating tensor of a layer, under its Hugging Face name."""
    state = {}
    unused = []
    for key, value in tensors.items():
        name = names.get(key, key)
        if not name.endswith((".weight", ".bias")) or value.dtype.kind != "f":
            unused += [key] if value.size > 1 and value.dtype.kind == "f" else []
            continue
        turn = key in names or name.endswith(_TRANSPOSED)
        array = np.ascontiguousarray(value.T if turn and value.ndim == 2 else value, np.float32)
        state[name] = torch.from_numpy(array)
    if unused:
        raise ModelFormatError(f"{path} has tensors that belong to no BERT layer: {unused[:5]}")
    return state


def _config_of(state: Mapping[str, Tensor], path: Path) -> dict[str, Any]:
    """What the shapes say; a head is 32 wide in small models and 64 in others."""
    prefix = "bert." if any(name.startswith("bert.") for name in state) else ""
    try:
        vocab, hidden = state[f"{prefix}embeddings.word_embeddings.weight"].shape
        positions = len(state[f"{prefix}embeddings.position_embeddings.weight"])
        types = len(state[f"{prefix}embeddings.token_type_embeddings.weight"])
        inner = len(state[f"{prefix}encoder.layer.0.intermediate.dense.weight"])
    except KeyError as error:
        raise ModelFormatError(f"{path} is not a BERT model: it has no {error}") from error
    layers = sum(name.endswith(".intermediate.dense.weight") for name in state)
    labels = len(state.get("classifier.weight", ()))
    return {
        "model_type": "bert",
        "architectures": ["BertForSequenceClassification" if labels else "BertModel"],
        "vocab_size": vocab,
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": 12 if hidden == 384 else max(1, hidden // 64),
        "intermediate_size": inner,
        "max_position_embeddings": positions,
        "type_vocab_size": types,
        "layer_norm_eps": 1e-12,
        "hidden_act": "gelu",
        "pad_token_id": 0,
        **({"id2label": {str(i): f"LABEL_{i}" for i in range(labels)}} if labels else {}),
    }
