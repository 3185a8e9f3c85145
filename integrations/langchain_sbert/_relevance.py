"""From scores to LangChain's relevance, which lies between 0 and 1."""

from __future__ import annotations

import math
from collections.abc import Callable

from sbert_retriever.errors import InputError
from sbert_retriever.types import Hit, ScoreKind

_BOUNDED = ("cosine", "logit", "probability")


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
    if score_kind in _BOUNDED:
        return lambda score: min(1.0, max(0.0, score))
    raise InputError(
        f"the scores are {score_kind}, which has no bounds that a relevance from 0 to 1 could be "
        "made of: use similarity_search_with_score, and a score_threshold on that scale"
    )


def bounded_relevance(hit: Hit) -> float | None:
    """A hit's relevance from 0 to 1: of its score, else of the cross-encoder's; None for neither.

    Where both orders were joined the score has no bounds, and the cross-encoder's own has.

    Examples:
        >>> from sbert_retriever.types import Passage
        >>> own = {"rerank_score": 0.0, "rerank_score_kind": "logit"}
        >>> joined = Hit(Passage("a", ""), 0.9, "fused", **own)
        >>> bounded_relevance(joined), bounded_relevance(Hit(Passage("a", ""), 7.1, "bm25"))
        (0.5, None)
    """
    for kind, score in ((hit.score_kind, hit.score), (hit.rerank_score_kind, hit.rerank_score)):
        if kind in _BOUNDED and score is not None:
            return relevance_of(kind)(score)
    return None


def relevance_of_hit(hit: Hit) -> float:
    """A hit's relevance from 0 to 1.

    Raises:
        InputError: Neither its score nor the cross-encoder's has such bounds.
    """
    found = bounded_relevance(hit)
    return relevance_of(hit.score_kind)(hit.score) if found is None else found


def _sigmoid(logit: float) -> float:
    # Of a large negative number, e ** -logit would be too large for a float.
    if logit >= 0:
        return 1 / (1 + math.exp(-logit))
    return math.exp(logit) / (1 + math.exp(logit))
