"""Bi-encoder or cross-encoder: what a folder holds, so that one is not taken for the other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sbert_retriever.encoder.checkpoint import Checkpoint
from sbert_retriever.encoder.json_files import load_json
from sbert_retriever.errors import ModelFormatError


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


def _pools(checkpoint: Checkpoint) -> bool:
    """Whether modules.json names a pooling; today's cross-encoders have that file without one."""
    modules = load_json(checkpoint.folder / "modules.json")
    return any(str(module.get("type", "")).endswith(".Pooling") for module in modules)


def _classifies(config: Mapping[str, Any]) -> bool:
    return any("ForSequenceClassification" in name for name in _architectures(config))


def _architectures(config: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(str(name) for name in config.get("architectures") or ())
