"""Late interaction: texts compared token by token (ColBERT; Khattab and Zaharia 2020, section 3).

Each token of the query looks for its best match among the passage's tokens; the score is the sum
of those matches. Pure functions on the token vectors that `BiEncoder.encode_tokens` gives.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from sbert_retriever.errors import InputError

if TYPE_CHECKING:
    from sbert_retriever.types import Vectors


def maxsim(query_tokens: Vectors, passage_tokens: Vectors) -> float:
    """The sum, over the query's tokens, of the best inner product with a token of the passage.

    Args:
        query_tokens: (tokens, width), each of length 1.
        passage_tokens: (tokens, width), each of length 1.

    Returns:
        At most the number of the query's tokens; 0 for a query without any.

    Raises:
        InputError: The passage has no token, or the widths differ.

    Examples:
        >>> maxsim(np.eye(2), np.array([[1.0, 0.0], [0.6, 0.8]]))
        1.8
    """
    return float(maxsim_scores(query_tokens, [passage_tokens])[0])


def maxsim_scores(query_tokens: Vectors, passages: Sequence[Vectors]) -> Vectors:
    """`maxsim` of one query with each of some passages, in one product.

    Args:
        query_tokens: (tokens, width), each of length 1.
        passages: The token vectors of each passage, (tokens, width).

    Returns:
        float32 (n,).

    Raises:
        InputError: A passage has no token, or the widths differ.
    """
    if not passages:
        return np.empty(0, dtype=np.float32)
    lengths = [len(tokens) for tokens in passages]
    widths = {tokens.shape[1] for tokens in passages} | {query_tokens.shape[1]}
    if min(lengths) < 1 or len(widths) > 1:
        raise InputError(
            f"token vectors of {min(lengths)} or more tokens and the widths {sorted(widths)}, "
            "expected 1 or more tokens and one width"
        )
    similarities = query_tokens @ np.concatenate(passages).T
    starts = np.concatenate([[0], np.cumsum(lengths)[:-1]])
    best = np.maximum.reduceat(similarities, starts, axis=1)
    scores: Vectors = best.sum(axis=0)
    return scores
