"""Semantic textual similarity: do a model's scores rank pairs of sentences as people do?

The paper's sections 4.1 and 4.2: Spearman's correlation, no regression on top, each set's files
taken together. Of a bi-encoder four similarities are measured; of a cross-encoder its score.
"""

from __future__ import annotations

from time import perf_counter

import numpy as np

from sbert_retriever.evaluation.pairs import ScoredPairs
from sbert_retriever.evaluation.results import SetResult
from sbert_retriever.evaluation.similarity import (
    SIMILARITIES,
    Numbers,
    correlations,
    encode_unique,
)
from sbert_retriever.types import Encoder, Scorer


def measure_sts(model: Encoder | Scorer, pairs: ScoredPairs) -> SetResult:
    """Spearman's and Pearson's correlation with the gold scores, times 100.

    Args:
        model: Encodes texts, or scores pairs.
        pairs: With their gold scores.

    Returns:
        Figures named `spearman_cosine`, `pearson_cosine`, ..., `spearman_manhattan` of an
        encoder; `spearman_score` and `pearson_score` of a scorer.

    Raises:
        InputError: The gold scores, or the model's, are all the same.
    """
    started = perf_counter()
    scores = pair_scores(model, pairs.left, pairs.right)
    figures = {
        f"{kind}_{name}": value
        for name, values in scores.items()
        for kind, value in correlations(pairs.gold, values).items()
    }
    return SetResult(
        name=pairs.name,
        items=len(pairs),
        figures=figures,
        values=next(iter(scores.values())),
        gold=np.array(pairs.gold),
        seconds=perf_counter() - started,
    )


def pair_scores(
    model: Encoder | Scorer, left: tuple[str, ...], right: tuple[str, ...]
) -> dict[str, Numbers]:
    """How alike a model finds each pair: {kind of score: (n,)}, the cosine first."""
    if isinstance(model, Encoder):
        vectors = encode_unique(model, left, right)
        return {name: measure(*vectors) for name, measure in SIMILARITIES.items()}
    scores = model.score(list(zip(left, right, strict=True)))
    return {"score": scores.astype(np.float64)}
