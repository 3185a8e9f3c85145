"""Bi-encoder, cross-encoder or ColBERT: what a folder holds, so that none is taken for another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sbert_retriever.encoder.checkpoint import Checkpoint
from sbert_retriever.encoder.json_files import load_json, read_json
from sbert_retriever.errors import ModelFormatError

_COLBERT_ARCHITECTURE = "HF_ColBERT"
_COLBERT_TYPES = ("ColBERT", "MultiVectorEncoder")


def expect_cross_encoder(checkpoint: Checkpoint, name: str) -> None:
    """Refuse a folder without a classifier of pairs.

    Raises:
        ModelFormatError: It is a bi-encoder, a ColBERT model, or a transformer without a
            classifier.
    """
    refuse_colbert(checkpoint, name, expected="a cross-encoder")
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
    if is_cross_encoder(checkpoint):
        raise ModelFormatError(
            f"{name} is a cross-encoder ({', '.join(_architectures(checkpoint.config))}), expected "
            "a bi-encoder: load it with CrossEncoder, or say how to pool its token vectors "
            "(pooling='mean')"
        )


def is_cross_encoder(checkpoint: Checkpoint) -> bool:
    """Whether it is a classifier of pairs that pools no token vectors."""
    return _classifies(checkpoint.config) and not _pools(checkpoint)


def expect_colbert(checkpoint: Checkpoint, name: str) -> None:
    """Refuse a folder that is of no ColBERT model.

    Raises:
        ModelFormatError: It is a bi-encoder, a cross-encoder, or a transformer alone.
    """
    if is_colbert(checkpoint):
        return
    kind, way_out = _other_kind(checkpoint)
    raise ModelFormatError(
        f"{name} is {kind}, expected a ColBERT model (an {_COLBERT_ARCHITECTURE} in config.json, "
        f"or a model_type {_COLBERT_TYPES[0]!r} in config_sentence_transformers.json): {way_out}"
    )


def refuse_colbert(checkpoint: Checkpoint, name: str, *, expected: str) -> None:
    """Refuse a ColBERT model where something else is expected.

    Raises:
        ModelFormatError: It is one.
    """
    if is_colbert(checkpoint):
        raise ModelFormatError(
            f"{name} is a ColBERT model, which gives a vector for each token, expected {expected}: "
            "give it as late_encoder, and a bi-encoder as model"
        )


def is_colbert(checkpoint: Checkpoint) -> bool:
    """Whether the files say so: those of colbert-ai, of PyLate, or of sentence-transformers 6."""
    if _COLBERT_ARCHITECTURE in _architectures(checkpoint.config):
        return True
    whole = read_json(checkpoint.folder / "config_sentence_transformers.json")
    named = whole.get("model_type") in _COLBERT_TYPES
    return named or "query_prefix" in whole or (checkpoint.folder / "artifact.metadata").is_file()


def _other_kind(checkpoint: Checkpoint) -> tuple[str, str]:
    """What a folder is that is no ColBERT, and what to do with it."""
    if is_cross_encoder(checkpoint):
        return "a cross-encoder", "give it as reranker"
    if _pools(checkpoint):
        return (
            "a bi-encoder",
            "give it as model; late interaction takes its own token vectors where no late_encoder "
            "is given",
        )
    made = ", ".join(_architectures(checkpoint.config)) or "a transformer of no named kind"
    return made, "train it with PyLate or colbert-ai first, or name another"


def _pools(checkpoint: Checkpoint) -> bool:
    """Whether modules.json names a pooling; today's cross-encoders have that file without one."""
    modules = load_json(checkpoint.folder / "modules.json")
    return any(str(module.get("type", "")).endswith(".Pooling") for module in modules)


def _classifies(config: Mapping[str, Any]) -> bool:
    return any("ForSequenceClassification" in name for name in _architectures(config))


def _architectures(config: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(str(name) for name in config.get("architectures") or ())
