"""A model's name to a folder: a folder, then an installed package, then the hub's cache, the hub.

The network is asked only for a name that nothing on this machine answers to, and never where
HF_HUB_OFFLINE or `local_files_only` says no, nor for the short name of a packaged model.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from httpx import HTTPError
from huggingface_hub import constants, snapshot_download
from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

from sbert_retriever.encoder.packaged import PackagedModel, find_packaged
from sbert_retriever.errors import (
    FallbackWarning,
    InputError,
    ModelNotFoundError,
    install_line,
)

_SMALL_FILES = ["*.json", "*.txt", "*.model", "*.safetensors", "artifact.metadata"]
_TORCH_FILES = [*_SMALL_FILES, "*.bin"]
_ONNX_FILES = [*_SMALL_FILES, "model.onnx", "onnx/model.onnx"]
_NEVER = ["openvino/*", "*.h5", "*.msgpack", "*.ot", "*.tflite", "training_args.bin"]


@dataclass(frozen=True)
class LocatedModel:
    """Where a model's files are.

    Args:
        name: As it was asked for.
        folder: The files.
        packaged: The package they came in, if any.
    """

    name: str
    folder: Path
    packaged: PackagedModel | None = None


@dataclass(frozen=True, kw_only=True)
class HubOptions:
    """How the hub is asked.

    Args:
        revision: A branch, tag or commit; None is the default branch.
        cache_dir: The hub's cache; None is its default.
        token: For private repositories.
        local_files_only: True never asks the network; None asks HF_HUB_OFFLINE.
    """

    revision: str | None = None
    cache_dir: str | os.PathLike[str] | None = None
    token: str | None = field(default=None, repr=False)
    local_files_only: bool | None = None

    @property
    def offline(self) -> bool:
        """Whether the network is out of bounds."""
        if self.local_files_only is not None:
            return self.local_files_only
        said = os.environ.get("HF_HUB_OFFLINE", "").strip().upper() in {"1", "ON", "YES", "TRUE"}
        return said or constants.HF_HUB_OFFLINE

    @property
    def cache(self) -> Path:
        """The cache's folder."""
        return Path(self.cache_dir or constants.HF_HUB_CACHE)


def locate(name: str | os.PathLike[str], options: HubOptions | None = None) -> LocatedModel:
    """Find the folder of a model.

    Args:
        name: A folder, a packaged name, or a hub id.
        options: How the hub is asked.

    Raises:
        ModelNotFoundError: Nothing answers to the name; the message lists where was looked.
        InputError: The name is empty, or a revision is asked of a packaged short name.

    Warns:
        FallbackWarning: The hub could not be had, and a package's near-equal weights are used.
    """
    options = options or HubOptions()
    text = os.fspath(name)
    if not text:
        raise InputError("the model's name is empty: give a folder, a packaged name or a hub id")
    folder = Path(text).expanduser()
    if is_model_folder(folder):
        # A relative name would mean another folder wherever the collection is opened from.
        return LocatedModel(str(folder.absolute()), folder)
    if _is_path(name, text):
        raise ModelNotFoundError(_no_folder(folder))
    looked = [f"folder {folder.absolute()} ({'no model in it' if folder.is_dir() else 'absent'})"]
    packaged = find_packaged(text)
    if packaged is not None:
        return _locate_packaged(text, packaged, options, looked)
    found = _from_hub(text, options, looked)
    if found is None:
        raise _not_found(text, looked)
    return LocatedModel(text, found)


def is_model_folder(folder: Path) -> bool:
    """Whether a folder holds a model: modules.json, config.json or an ONNX file."""
    names = ("modules.json", "config.json", "model.onnx")
    return any((folder / name).is_file() for name in names)


def _is_path(name: str | os.PathLike[str], text: str) -> bool:
    """Whether a name can only be meant as a path."""
    marks = text.startswith((".", "~", "/", os.sep)) or text.count("/") > 1 or "\\" in text
    return marks or not isinstance(name, str)


def _no_folder(folder: Path) -> str:
    state = (
        "has no modules.json, config.json or model.onnx" if folder.is_dir() else "does not exist"
    )
    return f"the model folder {folder.absolute()} {state}: give a folder that a model was saved in"


def _locate_packaged(
    text: str, packaged: PackagedModel, options: HubOptions, looked: list[str]
) -> LocatedModel:
    """The package first where it may stand for the name; else the hub, then the package."""
    short = "/" not in text
    if short and options.revision is not None:
        raise InputError(
            f"revision={options.revision!r} was given for {text!r}, which comes from the package "
            f"{packaged.package}: give the hub id, {packaged.hub_id!r}"
        )
    folder = packaged.folder()
    looked.append(f"package {packaged.package} ({'installed' if folder else 'not installed'})")
    if folder is not None and (short or (packaged.identical and options.revision is None)):
        return LocatedModel(text, folder, packaged)
    cached_only = HubOptions(cache_dir=options.cache_dir, local_files_only=True)
    found = _from_hub(packaged.hub_id, cached_only if short else options, looked)
    if found is not None:
        return LocatedModel(text, found)
    if folder is None or options.revision is not None:
        raise _not_found(text, looked, packaged)
    warnings.warn(
        f"{text} could not be downloaded from the hub: using the package {packaged.package}, whose "
        f"weights are {packaged.precision}",
        FallbackWarning,
        stacklevel=4,
    )
    return LocatedModel(text, folder, packaged)


def _from_hub(name: str, options: HubOptions, looked: list[str]) -> Path | None:
    """The snapshot's folder; each place looked in is added to `looked`."""
    for repository in _repositories(name):
        found = _snapshot(repository, options, local=True)
        looked.append(f"hub cache {options.cache} for {repository}")
        if isinstance(found, Path):
            return found
    if options.offline:
        looked.append("the hub itself was not asked (HF_HUB_OFFLINE or local_files_only)")
        return None
    for repository in _repositories(name):
        found = _snapshot(repository, options, local=False)
        if isinstance(found, Path):
            return found
        looked.append(f"hub {constants.ENDPOINT}/{repository} ({found})")
    return None


def _repositories(name: str) -> Iterator[str]:
    """A name without owner is first looked for among sentence-transformers' own."""
    if "/" not in name:
        yield f"sentence-transformers/{name}"
    yield name


def _snapshot(repository: str, options: HubOptions, *, local: bool) -> Path | str:
    """The folder of a snapshot with weights, or why there is none."""
    reason = "no weights in safetensors, torch or ONNX form"
    for patterns in (_SMALL_FILES, _TORCH_FILES, _ONNX_FILES):
        try:
            folder = snapshot_download(
                repository,
                revision=options.revision,
                cache_dir=options.cache,
                token=options.token,
                local_files_only=local,
                allow_patterns=patterns,
                ignore_patterns=_NEVER,
            )
        except (HTTPError, LocalEntryNotFoundError, HFValidationError, OSError) as error:
            first, _, _ = str(error).strip().partition("\n")
            return f"{type(error).__name__}: {first[:200]}"
        if has_weights(Path(folder)):
            return Path(folder)
    return reason


def has_weights(folder: Path) -> bool:
    """Whether a folder, or one below it, holds weights that can be read."""
    kinds = ("*.safetensors", "pytorch_model*.bin", "*.onnx")
    return any(next(folder.rglob(kind), None) is not None for kind in kinds)


def _not_found(
    text: str, looked: list[str], packaged: PackagedModel | None = None
) -> ModelNotFoundError:
    way_out = "give a folder, a packaged name or a hub id"
    if packaged is not None:
        way_out = f"{install_line('offline')}, or give the hub id {packaged.hub_id!r}"
    return ModelNotFoundError(
        f"no model {text!r}; looked in: {'; '.join(looked)}. To get it: {way_out}"
    )
