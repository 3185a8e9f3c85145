"""From scores to LangChain's relevance, which lies between 0 and 1."""

from __future__ import annotations

import math
from collections.abc import Callable

from sbert_retriever.errors import InputError
from sbert_retriever.types import ScoreKind


def relevance_of(score_kind: ScoreKind) -> Callable[[float], float]:
    """From a score to a relevance: a cosine is cut to 0 to 1, a logit goes through the sigmoid.

    Raises:
        InputError: The scale has no such bounds.

    Examples:
        >>> relevance_of("cosine")(0.7), relevance_of("cosine")(-0.2), relevance_of("logit")(0.0)
        (0.7, 0.0, 0.5)
    """
    if score_kind == "logit":
        return _sigmoid
    if score_kind in ("cosine", "probability"):
        return lambda score: min(1.0, max(0.0, score))
    raise InputError(
        f"the scores are {score_kind}, which has no bounds that a relevance from 0 to 1 could be "
        "made of: use similarity_search_with_score, and a score_threshold on that scale"
    )


def _sigmoid(logit: float) -> float:
    # Of a large negative number, e ** -logit would be too large for a float.
    if logit >= 0:
        return 1 / (1 + math.exp(-logit))
    return math.exp(logit) / (1 + math.exp(logit))
