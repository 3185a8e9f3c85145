"""Weights that are fitted: on one half of the queries, to answer the other half with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Generic, NamedTuple, TypeAlias, TypeVar

import numpy as np

from sbert_retriever.evaluation.ranking import evaluate, run_of
from sbert_retriever.evaluation.read_ranking import Qrels

T = TypeVar("T")

Answers: TypeAlias = dict[str, list[str]]
"""{query id: passage ids, best first}."""


class Fitted(NamedTuple, Generic[T]):
    """A variant, and what fitting is worth on queries that it was not done on.

    Args:
        best: The best over all queries: the one to work with.
        answers: Each half of the queries answered with what is best on the other half.
    """

    best: T
    answers: Answers


def cross_fitted(variants: Mapping[T, Answers], grades: Qrels, *, k: int) -> Fitted[T]:
    """Choose by nDCG@k, twofold: no query is answered with what was fitted on it.

    Args:
        variants: {variant: its answers to all queries}, in an order of which the middle is taken
            where several are equally good.
        grades: {query id: {passage id: grade}}.
        k: How many passages count.
    """
    queries = list(next(iter(variants.values())))
    values = {
        variant: _per_query(answers, grades, queries, f"nDCG@{k}")
        for variant, answers in variants.items()
    }
    halves = [range(0, len(queries), 2), range(1, len(queries), 2)]
    answers: Answers = {}
    for own, other in (halves, halves[::-1]):
        chosen = variants[_best(values, other if len(other) else own)]
        answers |= {queries[n]: chosen[queries[n]] for n in own}
    return Fitted(_best(values, range(len(queries))), {query: answers[query] for query in queries})


def _per_query(answers: Answers, grades: Qrels, queries: list[str], measure: str) -> list[float]:
    judged = {query: grades[query] for query in queries}
    found = evaluate(run_of(answers), judged, measures=[measure]).per_query[measure]
    return [found[query] for query in queries]


def _best(values: Mapping[T, list[float]], rows: range) -> T:
    """The variant with the highest mean over some queries; of equally good ones the middle."""
    variants = list(values)
    means = np.array([np.mean([values[variant][n] for n in rows]) for variant in variants])
    best = np.flatnonzero(np.isclose(means, means.max(), rtol=0, atol=1e-12))
    return variants[int(best[len(best) // 2])]
