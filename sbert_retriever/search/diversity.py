"""Maximal marginal relevance: near to the query, far from one another.

After Carbonell and Goldstein, "The use of MMR" (SIGIR 1998). It is computed here, in float32 on
the vectors fetched, so that it is the same on every engine.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sbert_retriever.index.steps import Steps
from sbert_retriever.index.store import PassageStore
from sbert_retriever.index.vectors import unit_rows
from sbert_retriever.types import Hit, ScoreKind

Rows = npt.NDArray[np.float32]


def mmr_order(
    query: npt.NDArray[np.float32],
    candidates: Rows,
    *,
    k: int,
    lambda_mult: float,
    score_kind: ScoreKind = "cosine",
) -> list[int]:
    """Rows of the candidates in the order they are chosen.

    The first is the most similar to the query. Each further one has the most of `lambda_mult` *
    similarity to the query - (1 - `lambda_mult`) * similarity to the nearest one chosen before.

    Args:
        query: (dim,).
        candidates: (n, dim).
        k: How many, at most n.
        lambda_mult: 1 looks at the similarity to the query only, 0 at the variety only.
        score_kind: "cosine", "dot", "neg_l2" or "neg_l1": what similarity is.

    Examples:
        >>> near = np.array([[0.99, 0.1, 0], [0.99, 0.11, 0], [0.2, 0, 0.98]], np.float32)
        >>> query = np.array([1, 0, 0], np.float32)
        >>> mmr_order(query, near, k=2, lambda_mult=1), mmr_order(query, near, k=2, lambda_mult=0)
        ([0, 1], [0, 2])
    """
    relevance = similarities(query, candidates, score_kind=score_kind)
    redundancy = np.full(len(candidates), -np.inf, dtype=np.float32)
    gains = relevance
    chosen: list[int] = []
    while len(chosen) < min(k, len(candidates)):
        best = int(np.argmax(gains))
        chosen.append(best)
        nearness = similarities(candidates[best], candidates, score_kind=score_kind)
        redundancy = np.maximum(redundancy, nearness)
        gains = lambda_mult * relevance - (1 - lambda_mult) * redundancy
        gains[chosen] = -np.inf
    return chosen


def similarities(
    one: npt.NDArray[np.float32], many: Rows, *, score_kind: ScoreKind
) -> npt.NDArray[np.float32]:
    """The similarity (n,) of a vector (dim,) to each row of (n, dim); bigger is nearer."""
    if score_kind == "neg_l2":
        found = -np.linalg.norm(many - one, axis=1)
    elif score_kind == "neg_l1":
        found = -np.abs(many - one).sum(axis=1)
    elif score_kind == "cosine":
        found = _products(unit_rows(many), unit_rows(one[None])[0])
    else:
        found = _products(many, one)
    row: npt.NDArray[np.float32] = found.astype(np.float32, copy=False)
    return row


def diverse(
    store: PassageStore,
    query: npt.NDArray[np.float32],
    hits: list[Hit],
    *,
    k: int,
    lambda_mult: float,
) -> Steps[list[Hit]]:
    """The k hits that are near to a query and unlike one another, with the scores they came with.

    Args:
        store: Which has their vectors; a passage deleted meanwhile is left out.
        query: (dim,).
        hits: To choose from.
        k: How many.
        lambda_mult: 1 looks at the nearness only, 0 at the variety only.
    """
    vectors = yield from store.vectors([hit.id for hit in hits])
    there = [hit for hit in hits if hit.id in vectors]
    if not there:
        return []
    matrix = np.stack([vectors[hit.id] for hit in there])
    order = mmr_order(query, matrix, k=k, lambda_mult=lambda_mult, score_kind=store.score_kind)
    return [there[position] for position in order]


def _products(
    many: npt.NDArray[np.float32], one: npt.NDArray[np.float32]
) -> npt.NDArray[np.float32]:
    """Of rows (n, dim) with one vector (dim,), in this thread.

    `@` would have numpy's own threads do it, which go on spinning and slow the next encoding.
    """
    found: npt.NDArray[np.float32] = np.einsum("ij,j->i", many, one)
    return found
