"""Reranking: what a cross-encoder makes of a first stage's candidates."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from time import perf_counter

import numpy as np

from sbert_retriever.errors import ReadError
from sbert_retriever.evaluation.collections import TestCollection
from sbert_retriever.evaluation.ranking import run_of
from sbert_retriever.evaluation.read_ranking import read_run
from sbert_retriever.evaluation.results import SetResult
from sbert_retriever.evaluation.retrieval import (
    MEASURES,
    Rankings,
    check_run,
    checked_measures,
    checked_own,
    cut_run,
    exact_rankings,
    judged,
    without_own,
)
from sbert_retriever.types import Encoder, Scorer

FIRST_STAGE = "first stage"


def measure_second_stage(
    scorer: Scorer,
    collection: TestCollection,
    *,
    first_stage: Encoder | Path,
    measures: Iterable[str] = MEASURES,
    depth: int = 100,
    candidates: int = 25,
) -> list[SetResult]:
    """`measure_reranking` over what a first stage finds.

    Args:
        scorer: A cross-encoder.
        collection: With its passages.
        first_stage: A bi-encoder, which searches exactly, or a TREC run.
        measures: Names, see `evaluation.ranking`; the first is the headline.
        depth: How many passages a question gets.
        candidates: How many of them are scored.

    Raises:
        ReadError: The passages, or the run, cannot be read, or do not belong together.
    """
    first, texts = first_rankings(first_stage, collection, depth=depth)
    return measure_reranking(
        scorer, collection, first, texts, measures=measures, candidates=candidates
    )


def first_rankings(
    first_stage: Encoder | Path,
    collection: TestCollection,
    *,
    depth: int,
    ignore_identical_ids: bool = False,
) -> tuple[Rankings, dict[str, str]]:
    """What a first stage finds, and {passage id: text} of that alone.

    Args:
        first_stage: A bi-encoder, which searches exactly, or a TREC run.
        collection: With its passages.
        depth: How many passages a question gets.
        ignore_identical_ids: Whether a passage with the question's own id is no candidate.

    Raises:
        ReadError: The passages, or the run, cannot be read.
        InputError: A passage that would be no candidate answers its question; or the run is of
            other questions.
    """
    own = checked_own(collection) if ignore_identical_ids else 0
    texts = collection.texts()
    if isinstance(first_stage, Path):
        run = read_run(first_stage)
        check_run(run, collection)
        run = cut_run(run, depth + own)
        first = {query: list(found) for query, found in run.items()}
    else:
        first = exact_rankings(first_stage, texts, collection.queries, depth=depth + own)
    if own:
        first = without_own(first, depth)
    found = {passage for ids in first.values() for passage in ids}
    return first, {passage: text for passage, text in texts.items() if passage in found}


def measure_reranking(
    scorer: Scorer,
    collection: TestCollection,
    first: Rankings,
    texts: Mapping[str, str],
    *,
    measures: Iterable[str] = MEASURES,
    candidates: int = 25,
) -> list[SetResult]:
    """Measure the order that a scorer gives to the candidates, and the order that they had.

    Args:
        scorer: A cross-encoder.
        collection: Questions and judgements.
        first: What the first stage found for each question.
        texts: {passage id: text} of all that was found.
        measures: Names, see `evaluation.ranking`; the first is the headline.
        candidates: How many of each question are scored; the others follow in their old order.

    Returns:
        The reranked order, then the first stage's.

    Raises:
        InputError: A measure is unknown.
        ReadError: A candidate has no text.
        MissingExtraError: ir-measures is not installed.
    """
    deepest = max((len(ids) for ids in first.values()), default=1)
    names = checked_measures(measures, max(deepest, 100))
    started = perf_counter()
    again = rescored(scorer, collection, first, texts, candidates=candidates)
    seconds = perf_counter() - started
    return [
        judged(collection, run_of(again), names, seconds=seconds),
        judged(collection, run_of(first), names, name=f"{collection.name}, {FIRST_STAGE}"),
    ]


def rescored(
    scorer: Scorer,
    collection: TestCollection,
    first: Rankings,
    texts: Mapping[str, str],
    *,
    candidates: int,
) -> Rankings:
    """The first candidates of each question in the scorer's order; ties keep the first stage's.

    Raises:
        ReadError: A candidate has no text.
    """
    pairs = [
        (query, passage)
        for query, ids in first.items()
        if query in collection.queries
        for passage in ids[:candidates]
    ]
    if missing := [passage for _, passage in pairs if passage not in texts]:
        raise ReadError(
            f"{len(missing)} candidates of the first stage are not among the passages of "
            f"{collection.name}, {missing[0]!r} first"
        )
    scores = scorer.score([(collection.queries[query], texts[passage]) for query, passage in pairs])
    again: Rankings = {}
    start = 0
    for query, ids in first.items():
        if query in collection.queries:
            head = ids[:candidates]
            order = np.argsort(-scores[start : start + len(head)], kind="stable")
            again[query] = [head[place] for place in order] + ids[candidates:]
            start += len(head)
    return again
