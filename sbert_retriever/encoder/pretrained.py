"""Models that transformers builds, from files on this machine alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from sbert_retriever.errors import ModelFormatError


@contextmanager
def without_progress_bars() -> Iterator[None]:
    """Transformers shows none on stderr meanwhile."""
    from transformers.utils import logging as foreign

    logging: Any = foreign  # without types
    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()


def read_pretrained(
    kind: Any, folder: Path, dtype: torch.dtype, *, config: Any = None
) -> tuple[Any, list[str]]:
    """A model of one of transformers' Auto classes, and the weights that its files lack.

    Args:
        kind: The class.
        folder: The files.
        dtype: In which floating type it is read.
        config: In the place of the folder's own; weights of another shape are then made anew, and
            count as missing.

    Raises:
        ModelFormatError: transformers cannot load it.
    """
    try:
        with without_progress_bars():
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
    reshaped = {entry[0] for entry in report["mismatched_keys"]}
    return model, sorted(reshaped | set(report["missing_keys"]))
