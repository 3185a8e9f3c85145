"""Read tensors from disk: safetensors, or torch files of tensors only. Never a plain pickle."""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Callable, Iterable
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file
from torch import Tensor

from sbert_retriever.encoder.checkpoint import Checkpoint
from sbert_retriever.encoder.json_files import read_json
from sbert_retriever.encoder.onnx_weights import load_onnx_bert, onnx_file
from sbert_retriever.errors import ModelFormatError

_STEMS = ("model.safetensors", "pytorch_model.bin")
_PRECISIONS = {"F32": "float32", "F16": "float16", "BF16": "bfloat16"}
_BLOCK = 64 * 1024
_BLOCKS = 64


def weight_files(folder: Path) -> list[Path]:
    """The files that hold a folder's weights: one file, its shards, or an ONNX export.

    Raises:
        ModelFormatError: There are none.
    """
    for stem in _STEMS:
        if (folder / stem).is_file():
            return [folder / stem]
        shards = read_json(folder / f"{stem}.index.json").get("weight_map", {})
        if shards:
            return [folder / Path(name).name for name in sorted(set(shards.values()))]
    exported = onnx_file(folder)
    if exported is not None:
        return [exported]
    raise ModelFormatError(
        f"{folder} has no weights: expected model.safetensors, pytorch_model.bin or model.onnx"
    )


def stored_precision(folder: Path) -> str | None:
    """In which floating type a safetensors file keeps its weights; None for another file.

    Raises:
        ModelFormatError: The folder has no weights.
    """
    path = weight_files(folder)[0]
    if path.suffix != ".safetensors":
        return None
    try:
        with safe_open(path, framework="pt") as file:
            kinds = {file.get_slice(name).get_dtype() for name in file.keys()}  # noqa: SIM118 - not a dict
    except SafetensorError:
        return None
    names = [name for kind, name in _PRECISIONS.items() if kind in kinds]
    return "+".join(names) or None


def load_state(folder: Path) -> dict[str, Tensor]:
    """All tensors of a folder by name.

    Raises:
        ModelFormatError: A file is missing, damaged, or holds more than tensors.
    """
    files = weight_files(folder)
    if files[0].suffix == ".onnx":
        return load_onnx_bert(folder)[1]
    state: dict[str, Tensor] = {}
    for path in files:
        state.update(_load_file(path))
    return state


def load_tensor(folder: Path, name: str) -> Tensor:
    """One tensor of a folder, read without the others where the file allows it.

    Raises:
        ModelFormatError: There is none of that name, or its file is missing or damaged.
    """
    files = weight_files(folder)
    if files[0].suffix != ".safetensors":
        found = load_state(folder).get(name)
    else:
        found = next((x for path in files if (x := _tensor_in(path, name)) is not None), None)
    if found is None:
        raise ModelFormatError(f"the weights in {folder} hold no {name}: get the whole model again")
    return found


def _tensor_in(path: Path, name: str) -> Tensor | None:
    """A tensor of a safetensors file, if it is there."""
    try:
        with safe_open(path, framework="pt") as file:
            return file.get_tensor(name) if name in file.keys() else None  # noqa: SIM118 - not a dict
    except (OSError, SafetensorError) as error:
        raise ModelFormatError(
            f"{path} cannot be read ({error}): get it again if it is damaged"
        ) from error


def _load_file(path: Path) -> dict[str, Tensor]:
    try:
        if path.suffix == ".safetensors":
            return load_file(path)
        loaded = torch.load(path, map_location="cpu", weights_only=True)
    except (OSError, SafetensorError, RuntimeError, EOFError, pickle.UnpicklingError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise ModelFormatError(
            f"{path} cannot be read as tensors only ({reason}): get it again if it is damaged, or "
            "save the model as safetensors"
        ) from error
    if not isinstance(loaded, dict):
        raise ModelFormatError(
            f"{path} holds a {type(loaded).__name__}, expected tensors by name: save the model's "
            "state dict as safetensors"
        )
    return {name: value for name, value in loaded.items() if isinstance(value, Tensor)}


def fingerprint(checkpoint: Checkpoint, *more: str) -> str:
    """A short hash that tells two sets of weights apart, in constant time.

    It covers the size of each weights file and 64 blocks of 64 KiB spread evenly over it, for
    the transformer and for each Dense layer after it, and the modules after the transformer
    (pooling, Dense layers, Normalize). Training changes every weight, so that a sample shows it;
    a hand-made change of a few bytes between the blocks would not be seen.

    Args:
        checkpoint: What to look at.
        more: What else makes a difference; an empty text makes none.
    """
    digest = hashlib.sha256()
    for path in weight_files(checkpoint.transformer):
        _add_file(digest.update, path)
    digest.update(repr((checkpoint.pooling, checkpoint.include_prompt)).encode())
    for dense in checkpoint.denses:
        digest.update(repr((dense.in_features, dense.out_features, dense.activation)).encode())
        for path in weight_files(dense.folder):
            _add_file(digest.update, path)
    digest.update(repr(checkpoint.normalize).encode())
    residual = [dense.residual for dense in checkpoint.denses]
    for text in (repr(residual) if any(residual) else "", *more):
        digest.update(text.encode())
    return digest.hexdigest()[:16]


def _add_file(update: Callable[[bytes], object], path: Path) -> None:
    try:
        size = path.stat().st_size
        update(str(size).encode())
        with path.open("rb") as file:
            for start in _block_starts(size):
                file.seek(start)
                update(file.read(_BLOCK))
    except OSError as error:
        raise ModelFormatError(f"the weights {path} cannot be read: {error}") from error


def _block_starts(size: int) -> Iterable[int]:
    """Where the sampled blocks begin; a small file is covered whole."""
    if size <= _BLOCK * _BLOCKS:
        return range(0, size, _BLOCK)
    return (i * (size - _BLOCK) // (_BLOCKS - 1) for i in range(_BLOCKS))
