"""Bi-encoder or cross-encoder: what a folder holds, so that one is not taken for the other."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sbert_retriever.encoder.checkpoint import Checkpoint
from sbert_retriever.encoder.json_files import load_json, read_json
from sbert_retriever.errors import ModelFormatError

COLBERT_FILE = "artifact.metadata"
"""What the ColBERT authors' code writes beside the weights."""


def expect_cross_encoder(checkpoint: Checkpoint, name: str) -> None:
    """Refuse a folder without a classifier of pairs.

    Raises:
        ModelFormatError: It is a bi-encoder, or a transformer without a classifier.
    """
    if _pools(checkpoint):
        raise ModelFormatError(
            f"{name} is a bi-encoder (its modules.json pools token vectors), expected a "
            "cross-encoder: load it with BiEncoder, or name a cross-encoder such as "
            "'ms-marco-MiniLM-L12-v2'"
        )
    made = _architectures(checkpoint.config)
    if made and not _classifies(checkpoint.config):
        raise ModelFormatError(
            f"{name} is a {', '.join(made)}, which scores no pairs, expected a "
            "...ForSequenceClassification: name a cross-encoder such as 'ms-marco-MiniLM-L12-v2'"
        )


def refuse_cross_encoder(checkpoint: Checkpoint, name: str) -> None:
    """Refuse a classifier of pairs where a bi-encoder is expected.

    Raises:
        ModelFormatError: It is a cross-encoder.
    """
    if _classifies(checkpoint.config) and not _pools(checkpoint):
        raise ModelFormatError(
            f"{name} is a cross-encoder ({', '.join(_architectures(checkpoint.config))}), expected "
            "a bi-encoder: load it with CrossEncoder, or say how to pool its token vectors "
            "(pooling='mean')"
        )


def is_colbert(folder: Path) -> bool:
    """Whether a folder says that it gives a vector a token, in either of two layouts."""
    if (folder / COLBERT_FILE).is_file():
        return True
    if "HF_ColBERT" in _architectures(read_json(folder / "config.json")):
        return True
    return "query_length" in read_json(folder / "config_sentence_transformers.json")


def refuse_colbert(folder: Path, name: str) -> None:
    """Refuse a ColBERT checkpoint where one vector a text is expected.

    Raises:
        ModelFormatError: It is one.
    """
    if is_colbert(folder):
        raise ModelFormatError(
            f"{name} is a ColBERT checkpoint, which gives a vector a token, expected a bi-encoder: "
            "use it for late interaction (late_encoder=), or name another"
        )


def _pools(checkpoint: Checkpoint) -> bool:
    """Whether modules.json names a pooling; today's cross-encoders have that file without one."""
    modules = load_json(checkpoint.folder / "modules.json")
    return any(str(module.get("type", "")).endswith(".Pooling") for module in modules)


def _classifies(config: Mapping[str, Any]) -> bool:
    return any("ForSequenceClassification" in name for name in _architectures(config))


def _architectures(config: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(str(name) for name in config.get("architectures") or ())
