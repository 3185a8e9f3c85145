"""Hard negatives: passages that a retriever finds for a query and that do not answer it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from sbert_retriever.errors import InputError
from sbert_retriever.retriever import Retriever
from sbert_retriever.types import Profile, Scorer
from sbert_retriever.types.checks import whole

if TYPE_CHECKING:
    from sbert_retriever.mining.blocks import OnShare

_AT_ONCE = 64
_Texts: TypeAlias = dict[str, None]
"""Different texts in an order."""


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
    on_share: OnShare | None = None,
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
        on_share: Called with the share that is done, from 0 to 1, as it grows.

    Raises:
        InputError: A number is too small, or the candidates are fewer than the negatives;
            the margin is not finite.
    """
    whole("negatives", negatives, least=1)
    if whole("candidates", candidates, least=1) < negatives:
        raise InputError(
            f"candidates={candidates}, expected {negatives} or more, the number of negatives"
        )
    if not math.isfinite(margin):
        raise InputError(f"margin is {margin}, expected a number of logits such as 3.0")
    given = list(pairs)
    positives: dict[str, _Texts] = {}
    for query, positive in given:
        positives.setdefault(query, {})[positive] = None
    found: dict[tuple[str, str], _Sifted] = {}
    for number, queries in enumerate(_blocks(positives), 1):
        near = _near(retriever, queries, candidates)
        found |= _all_of(queries, near) if scorer is None else _below(queries, near, scorer, margin)
        if on_share is not None:
            on_share(min(1.0, number * _AT_ONCE / len(positives)))
    rows = tuple(
        {"query": query, "positive": positive, "negatives": kept[:negatives]}
        for query, positive in given
        if (kept := found[query, positive].kept)
    )
    filtered = sum(found[pair].filtered for pair in given)
    return MinedNegatives(rows=rows, without=len(given) - len(rows), filtered=filtered)


@dataclass(frozen=True)
class _Sifted:
    """Texts near to a query that may be negatives of a pair, and how many the scorer refused."""

    kept: list[str]
    filtered: int = 0


def _blocks(positives: Mapping[str, _Texts]) -> Iterator[dict[str, _Texts]]:
    """So many queries at once, each with its positives."""
    asked = list(positives)
    for start in range(0, len(asked), _AT_ONCE):
        yield {query: positives[query] for query in asked[start : start + _AT_ONCE]}


def _near(
    retriever: Retriever, positives: Mapping[str, _Texts], candidates: int
) -> dict[str, list[str]]:
    """The texts found for each query that are neither its own positives nor itself."""
    # A profile of its own: the collection's would bring its reranker along.
    plain = Profile(name="nearest", candidates=candidates, rerank_depth=0)
    answers = retriever.search_batch(list(positives), k=candidates, mode="dense", profile=plain)
    return {
        query: [
            text
            for text in dict.fromkeys(hit.text for hit in hits)
            if text != query and text not in own
        ]
        for (query, own), hits in zip(positives.items(), answers, strict=True)
    }


def _all_of(
    positives: Mapping[str, _Texts], near: Mapping[str, list[str]]
) -> dict[tuple[str, str], _Sifted]:
    return {
        (query, positive): _Sifted(near[query])
        for query, own in positives.items()
        for positive in own
    }


def _below(
    positives: Mapping[str, _Texts],
    near: Mapping[str, list[str]],
    scorer: Scorer,
    margin: float,
) -> dict[tuple[str, str], _Sifted]:
    """Those whose score is below the positive's by the margin; each text is scored once a query."""
    asked = [(query, text) for query, own in positives.items() for text in (*own, *near[query])]
    scores = dict(zip(asked, scorer.score(asked).tolist(), strict=True))
    found = {}
    for query, own in positives.items():
        for positive in own:
            limit = scores[query, positive] - margin
            kept = [text for text in near[query] if scores[query, text] < limit]
            found[query, positive] = _Sifted(kept, len(near[query]) - len(kept))
    return found
