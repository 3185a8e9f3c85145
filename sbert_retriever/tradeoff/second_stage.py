"""The later stages of a point, as the product runs them: MaxSim, then the cross-encoder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from sbert_retriever.tradeoff.points import OperatingPoint
from sbert_retriever.types import Hit

if TYPE_CHECKING:
    from sbert_retriever.types import Scorer


def reranked(scorer: Scorer, query: str, hits: Sequence[Hit], point: OperatingPoint) -> list[Hit]:
    """The hits of one query with the point's cross-encoder stage applied.

    The rescored ones come first, the others follow in the order in which they came.
    """
    head, tail = list(hits[: point.rerank]), list(hits[point.rerank :])
    scores = scorer.score([(query, hit.text) for hit in head])
    order = np.argsort(-scores, kind="stable")
    if point.mode == "fuse":
        rank = np.argsort(order, kind="stable")
        order = np.argsort(
            [-(1 / (60 + a) + 1 / (60 + b)) for a, b in enumerate(rank)], kind="stable"
        )
    return [head[n] for n in order] + tail
