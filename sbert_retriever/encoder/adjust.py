"""A checkpoint with what the caller wants otherwise; checked against what the model can do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from sbert_retriever.encoder.checkpoint import Checkpoint, position_limit
from sbert_retriever.encoder.pooling import POOLINGS
from sbert_retriever.errors import InputError, InputTypeError, ModelFormatError

_WIDTH_KEYS = ("hidden_size", "d_model", "dim", "n_embd")
_SHORTEST = 8
"""A maximum length below this would leave a text no room beside the special tokens."""


@dataclass(frozen=True, kw_only=True)
class Adjustments:
    """What a caller changes about a checkpoint. None leaves a thing as it is.

    Args:
        max_length: Tokens a text may have, special ones included.
        truncate_dim: How many of the first dimensions are kept.
        pooling: A pooling, or several joined by "+".
        normalize: Whether vectors leave with length 1.
    """

    max_length: int | None = None
    truncate_dim: int | None = None
    pooling: str | None = None
    normalize: bool | None = None


def adjusted(checkpoint: Checkpoint, wanted: Adjustments) -> Checkpoint:
    """The checkpoint as the caller wants it.

    Raises:
        InputError: The model cannot do that.
    """
    if wanted.max_length is not None:
        check_length("max_length", wanted.max_length, position_limit(checkpoint.config))
        checkpoint = replace(checkpoint, max_length=wanted.max_length)
    if wanted.pooling is not None:
        checkpoint = replace(checkpoint, pooling=pooling_modes(wanted.pooling))
    if wanted.normalize is not None:
        checkpoint = replace(checkpoint, normalize=wanted.normalize)
    if wanted.truncate_dim is not None:
        _check_dim(wanted.truncate_dim, output_width(checkpoint))
    return checkpoint


def output_width(checkpoint: Checkpoint) -> int:
    """Width of a checkpoint's vectors before any are cut.

    Raises:
        ModelFormatError: The widths of the modules do not fit each other.
    """
    width = _hidden_width(checkpoint.config, checkpoint) * len(checkpoint.pooling)
    for dense in checkpoint.denses:
        if dense.in_features != width:
            raise ModelFormatError(
                f"{dense.folder} takes vectors of {dense.in_features}, and gets {width}: "
                "its pooling or its transformer is not the one it was made for"
            )
        width = dense.out_features
    return width


def _hidden_width(config: Mapping[str, Any], checkpoint: Checkpoint) -> int:
    width = next((config[key] for key in _WIDTH_KEYS if isinstance(config.get(key), int)), None)
    if width is None:
        raise ModelFormatError(
            f"{checkpoint.transformer / 'config.json'} has none of {', '.join(_WIDTH_KEYS)}: "
            "expected the configuration of a text encoder"
        )
    return int(width)


def pooling_modes(pooling: object) -> tuple[str, ...]:
    """The poolings of a name such as "mean", or "mean+max".

    Raises:
        InputError: One is unknown.
        InputTypeError: It is no string.
    """
    if not isinstance(pooling, str):
        raise InputTypeError(
            f"pooling is {pooling!r:.60}, expected a name, or several joined by +: 'mean+max'"
        )
    modes = tuple(pooling.split("+"))
    if unknown := [mode for mode in modes if mode not in POOLINGS]:
        raise InputError(
            f"pooling={pooling!r}: {unknown[0]!r} is not one of {', '.join(POOLINGS)} "
            '(several are joined by "+")'
        )
    return modes


def check_length(name: str, length: int, limit: int | None) -> None:
    """Refuse a length in tokens that a model cannot read.

    Args:
        name: Of the argument, for the message.
        length: Tokens.
        limit: How many the model has position embeddings for; None is without limit.

    Raises:
        InputError: It is too short or too long.
    """
    if length < _SHORTEST:
        raise InputError(f"{name}={length}, expected {_SHORTEST} or more")
    if limit is not None and length > limit:
        raise InputError(
            f"{name}={length}, and the model reads at most {limit}: give {limit} or less"
        )


def _check_dim(dim: int, width: int) -> None:
    if not 1 <= dim <= width:
        raise InputError(f"truncate_dim={dim}, expected 1 to {width}, the width of the model")
