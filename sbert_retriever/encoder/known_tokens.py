"""Tokens that a model has no embedding for are refused before they go to a device.

A GPU that looks one up can do nothing more for its process, and a CPU raises an IndexError.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sbert_retriever.encoder.batching import TokenIds
from sbert_retriever.errors import ModelError


def check_token_ids(token_ids: Sequence[TokenIds], *, known: int | None) -> None:
    """Refuse ids that lie outside the word embeddings, looked at all together.

    Args:
        token_ids: One array a text.
        known: How many embeddings there are; None is unknown, and nothing is refused.

    Raises:
        ModelError: A text has one.
    """
    most = _largest(token_ids)
    if known is not None and most >= known:
        raise ModelError(
            f"the tokenizer gives the token id {most}, and the model knows {known}: it is "
            "another model's, or tokens were added to it and not to the model"
        )


def check_type_ids(type_ids: Sequence[TokenIds] | None, *, known: int | None) -> None:
    """Refuse ids of a pair's texts that lie outside the type embeddings.

    Args:
        type_ids: One array a pair; None is the first type for all.
        known: How many embeddings there are; None is unknown, and nothing is refused.

    Raises:
        ModelError: A pair has one.
    """
    most = _largest(type_ids or ())
    if known is not None and most >= known:
        raise ModelError(
            f"the tokenizer gives the token type {most}, and the model knows {known}: it is "
            "another model's"
        )


def words_of(model: Any) -> int | None:
    """How many word embeddings a model of transformers has; None where it does not say."""
    try:
        weight = getattr(model.get_input_embeddings(), "weight", None)
    except NotImplementedError:
        return None
    return None if weight is None else len(weight)


def types_of(model: Any) -> int | None:
    """How many token types a model of transformers has; None where it has none, or does not say."""
    known: int | None = getattr(model.config, "type_vocab_size", None)
    return known or None


def _largest(ids: Sequence[TokenIds]) -> int:
    return int(np.concatenate(ids).max(initial=0)) if len(ids) else 0
