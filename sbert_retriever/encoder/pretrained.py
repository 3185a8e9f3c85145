"""Models that transformers builds, from files on this machine alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from sbert_retriever.errors import ModelFormatError


def read_pretrained(
    kind: Any, folder: Path, dtype: torch.dtype, *, config: Any = None
) -> tuple[Any, list[str]]:
    """A model of one of transformers' Auto classes, and the weights that its files lack.

    Args:
        kind: The class.
        folder: The files.
        dtype: In which floating type it is read.
        config: In the place of the folder's own; weights of another shape are then made anew.

    Raises:
        ModelFormatError: transformers cannot load it.
    """
    try:
        model, report = kind.from_pretrained(
            folder,
            dtype=dtype,
            trust_remote_code=False,
            local_files_only=True,
            output_loading_info=True,
            **({} if config is None else {"config": config, "ignore_mismatched_sizes": True}),
        )
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise ModelFormatError(f"transformers cannot load {folder}: {reason}") from error
    return model, sorted(report["missing_keys"])
