"""The encoder, as it is sent to workers that load it for themselves."""

from __future__ import annotations

import os
import pickle
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path

import ray.cloudpickle

from sbert_retriever.errors import InputTypeError
from sbert_retriever.lazy_encoder import LazyEncoder
from sbert_retriever.types import Encoder


@dataclass(frozen=True, kw_only=True)
class Model:
    """A model's name, or an encoder, pickled; neither is the collection's own.

    Args:
        name: A packaged name, a hub id, or an absolute folder.
        encoder: A pickled `Encoder`.
        device: For a name.
        dtype: For a name.
        truncate_dim: For a name.
    """

    name: str | None
    encoder: bytes | None
    device: str
    dtype: str
    truncate_dim: int | None

    @classmethod
    def of(
        cls,
        model: str | PathLike[str] | Encoder | None,
        *,
        device: str,
        dtype: str,
        truncate_dim: int | None,
    ) -> Model:
        """What a caller gave, made ready to travel.

        Raises:
            InputTypeError: The encoder cannot be sent to another process.
        """
        named = isinstance(model, str | PathLike)
        return cls(
            name=_absolute(fspath(model)) if isinstance(model, str | PathLike) else None,
            encoder=None if named or model is None else _pickled(model),
            device=device,
            dtype=dtype,
            truncate_dim=truncate_dim,
        )

    def given(self) -> str | Encoder | None:
        """What `Retriever.open` takes."""
        if self.encoder is None:
            return self.name
        encoder: Encoder = pickle.loads(self.encoder)
        return encoder

    def lazy(self) -> LazyEncoder:
        """An encoder that is loaded at the first text."""
        return LazyEncoder(
            self.given(), device=self.device, dtype=self.dtype, truncate_dim=self.truncate_dim
        )


def _absolute(name: str) -> str:
    """A folder by its whole path: a worker may stand in another folder."""
    return os.fspath(Path(name).resolve()) if Path(name).is_dir() else name


def _pickled(encoder: object) -> bytes:
    try:
        made: bytes = ray.cloudpickle.dumps(encoder)
    except Exception as error:  # whatever its class raises when it is pickled
        raise InputTypeError(
            f"{type(encoder).__name__} cannot be sent to workers ({error}): give the name or the "
            "folder of its model"
        ) from error
    return made
