"""Hard negatives: passages that a retriever finds for a query and that do not answer it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sbert_retriever.errors import InputError
from sbert_retriever.retriever import Retriever
from sbert_retriever.types import Scorer
from sbert_retriever.types.checks import whole

_AT_ONCE = 256


@dataclass(frozen=True, kw_only=True)
class MinedNegatives:
    """What was found.

    Args:
        rows: A mapping a pair: query, positive, negatives; `ranking` data for `TrainData`.
        without: Pairs for which none was left.
        filtered: Passages that the scorer took for answers.
    """

    rows: tuple[Mapping[str, Any], ...]
    without: int
    filtered: int


def mine_hard_negatives(
    retriever: Retriever,
    pairs: Iterable[tuple[str, str]],
    *,
    negatives: int = 5,
    candidates: int = 50,
    scorer: Scorer | None = None,
    margin: float = 3.0,
) -> MinedNegatives:
    """The passages nearest to each query that are none of its positives, nor the query itself.

    Much of what a retriever finds near a query answers it, though nobody said so. With a scorer, a
    passage counts as a negative only if its score is below the positive's by the margin (the
    denoised negatives of RocketQA, Qu et al. 2021, section 4.2).

    Args:
        retriever: Over the passages; it searches by meaning alone, without a second stage.
        pairs: A query and the text of a passage that answers it; several positives of a query are
            several pairs.
        negatives: How many a pair gets at most.
        candidates: How many passages are looked at for each query.
        scorer: A cross-encoder.
        margin: In units of the scorer's scores, logits for `CrossEncoder`.

    Raises:
        InputError: A number is too small, or the candidates are fewer than the negatives.
    """
    whole("negatives", negatives, least=1)
    if whole("candidates", candidates, least=1) < negatives:
        raise InputError(
            f"candidates={candidates}, expected {negatives} or more, the number of negatives"
        )
    given = list(pairs)
    positives: dict[str, set[str]] = {}
    for query, positive in given:
        positives.setdefault(query, set()).add(positive)
    near = dict(_near(retriever, positives, candidates))
    rows: list[Mapping[str, Any]] = []
    filtered = 0
    for query, positive in given:
        found = near[query]
        kept = found if scorer is None else _below(query, positive, found, scorer, margin)
        filtered += len(found) - len(kept)
        if kept:
            taken = list(kept[:negatives])
            rows.append({"query": query, "positive": positive, "negatives": taken})
    return MinedNegatives(rows=tuple(rows), without=len(given) - len(rows), filtered=filtered)


def _near(
    retriever: Retriever, positives: Mapping[str, set[str]], candidates: int
) -> Iterator[tuple[str, list[str]]]:
    """Each query with the texts found for it that are neither its own positives nor itself."""
    plain = retriever.with_reranker(None)
    asked = list(positives)
    for start in range(0, len(asked), _AT_ONCE):
        queries = asked[start : start + _AT_ONCE]
        answers = plain.search_batch(queries, k=candidates, mode="dense")
        for query, hits in zip(queries, answers, strict=True):
            texts = dict.fromkeys(hit.text for hit in hits)
            own = {query, *positives[query]}
            yield query, [text for text in texts if text not in own]


def _below(
    query: str, positive: str, found: Sequence[str], scorer: Scorer, margin: float
) -> list[str]:
    """Those whose score is below the positive's by the margin."""
    scores = scorer.score([(query, text) for text in (positive, *found)])
    limit = float(scores[0]) - margin
    return [text for text, score in zip(found, scores[1:], strict=True) if score < limit]
