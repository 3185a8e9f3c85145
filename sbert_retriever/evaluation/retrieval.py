"""Retrieval: does the model put the passages that answer a question before the others?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

from sbert_retriever.errors import InputError
from sbert_retriever.evaluation.collections import TestCollection
from sbert_retriever.evaluation.ranking import evaluate, run_of, spelt
from sbert_retriever.evaluation.read_ranking import Qrels, Run
from sbert_retriever.evaluation.results import SetResult
from sbert_retriever.index.vectors import unit_rows
from sbert_retriever.types import Encoder

if TYPE_CHECKING:
    from sbert_retriever.retriever import Retriever
    from sbert_retriever.types import Vectors

Rankings: TypeAlias = dict[str, list[str]]
"""{query id: passage ids, best first}."""

MEASURES = (
    "nDCG@10",
    "nDCG_exp@10",
    "MAP@100",
    "MRR@10",
    "recall@10",
    "recall@100",
    "precision@10",
)
_QUERIES_AT_ONCE = 64


def measure_retrieval(
    encoder: Encoder,
    collection: TestCollection,
    *,
    measures: Iterable[str] = MEASURES,
    depth: int = 100,
    ignore_identical_ids: bool = False,
) -> SetResult:
    """Measure exact search: each question is compared with every passage.

    Args:
        encoder: Encodes questions and passages.
        collection: With its passages.
        measures: Names, see `evaluation.ranking`; the first is the headline.
        depth: How many passages a question gets.
        ignore_identical_ids: Whether a passage with the question's own id does not count.

    Raises:
        InputError: A measure is unknown, or looks further down than `depth`; or a passage that
            would not count answers its question.
        ReadError: The passages cannot be read.
        MissingExtraError: ir-measures is not installed.
    """
    names = checked_measures(measures, depth)
    started = perf_counter()
    own = checked_own(collection) if ignore_identical_ids else 0
    texts = collection.texts()
    rankings = exact_rankings(encoder, texts, collection.queries, depth=depth + own)
    if own:
        rankings = without_own(rankings, depth)
    return judged(collection, run_of(rankings), names, seconds=perf_counter() - started)


def checked_own(collection: TestCollection) -> int:
    """How many passages more a search must find where a question's own does not count: one.

    Raises:
        InputError: One of those is judged to answer its question, so that the ids are no sign.
    """
    answers = [query for query, marks in collection.qrels.items() if marks.get(query, 0) > 0]
    if answers:
        raise InputError(
            f"{collection.name}: the passage {answers[0]!r} answers the question of the same id, "
            "which says that identical ids are chance: do not ignore them"
        )
    return 1


def without_own(rankings: Rankings, depth: int) -> Rankings:
    """The best `depth` passages of each question that have another id than it.

    Examples:
        >>> without_own({"a": ["a", "b", "c"], "d": ["a", "b", "c"]}, 2)
        {'a': ['b', 'c'], 'd': ['a', 'b']}
    """
    return {
        query: [passage for passage in ids if passage != query][:depth]
        for query, ids in rankings.items()
    }


def measure_live(
    retriever: Retriever,
    collection: TestCollection,
    *,
    measures: Iterable[str] = MEASURES,
    depth: int = 100,
    ignore_identical_ids: bool = False,
) -> SetResult:
    """Measure a collection as it is searched: its index, its quantisation, its modes.

    Args:
        retriever: Whose passages have the ids of the judgements.
        collection: Questions and judgements.
        measures: Names, see `evaluation.ranking`; the first is the headline.
        depth: How many passages a question gets.
        ignore_identical_ids: Whether a passage with the question's own id does not count.

    Raises:
        InputError: A measure is unknown, or looks further down than `depth`; or no passage that
            was found has an id that is judged; or a passage that would not count answers its
            question.
        MissingExtraError: ir-measures is not installed.
    """
    names = checked_measures(measures, depth)
    started = perf_counter()
    own = checked_own(collection) if ignore_identical_ids else 0
    ids = list(collection.queries)
    found = retriever.search_batch([collection.queries[query] for query in ids], depth + own)
    rankings = {query: [hit.id for hit in hits] for query, hits in zip(ids, found, strict=True)}
    if own:
        rankings = without_own(rankings, depth)
    _check_ids(rankings, collection.qrels)
    return judged(collection, run_of(rankings), names, seconds=perf_counter() - started)


def _check_ids(rankings: Rankings, qrels: Qrels) -> None:
    known = {passage for judgements in qrels.values() for passage in judgements}
    seen = {passage for ids in rankings.values() for passage in ids}
    if seen and not seen & known:
        raise InputError(
            f"none of the {len(seen)} passages that were found has an id that is judged (found "
            f"{min(seen)[:80]!r}, judged {min(known)[:80]!r}): index the passages under the ids of "
            "the judgements, unchunked (--id-field)"
        )


def check_run(run: Run, collection: TestCollection) -> None:
    """Refuse a run of other questions, which would be measured as 0 throughout.

    Raises:
        InputError: It answers none of those that are judged.
    """
    if run.keys().isdisjoint(collection.qrels):
        raise InputError(
            f"the run answers none of the {len(collection.qrels)} judged questions of "
            f"{collection.name} (answered: {next(iter(run), 'none')[:80]!r}, judged: "
            f"{next(iter(collection.qrels))[:80]!r}): give the run of these questions, or choose "
            "its collection with --set"
        )


def judged(
    collection: TestCollection,
    run: Mapping[str, Mapping[str, float]],
    measures: Sequence[str],
    *,
    name: str | None = None,
    seconds: float = 0.0,
) -> SetResult:
    """What a run is worth. A judged question without an answer counts as 0.

    Raises:
        InputError: A measure is unknown.
        MissingExtraError: ir-measures is not installed.
    """
    found = evaluate(run, collection.qrels, measures=measures)
    headline = found.per_query[measures[0]]
    return SetResult(
        name=name or collection.name,
        items=found.queries,
        figures=found.means,
        values=np.array([headline[query] for query in sorted(headline)]),
        seconds=seconds,
    )


def cut_run(run: Run, depth: int, *, ignore_identical_ids: bool = False) -> Run:
    """The best `depth` passages of each question, if need be without that of its own id.

    Of equal scores the greater id comes first, as in trec_eval, which computes the measures.
    """
    cut: Run = {}
    for query, found in run.items():
        best = sorted(found.items(), key=lambda entry: (entry[1], entry[0]), reverse=True)
        kept = [e for e in best if not (ignore_identical_ids and e[0] == query)]
        cut[query] = dict(kept[:depth])
    return cut


def checked_measures(measures: Iterable[str], depth: int) -> list[str]:
    """Names as `evaluation.ranking` writes them.

    Raises:
        InputError: One is unknown, or looks further down than `depth`.
    """
    names = [spelt(name) for name in measures]
    if not names or depth < 1:
        raise InputError(f"{len(names)} measures to a depth of {depth}: give 1 or more of both")
    for name in names:
        if int(name.partition("@")[2] or 0) > depth:
            raise InputError(f"{name} looks further down than the depth, {depth}: give --depth")
    return list(dict.fromkeys(names))


def exact_rankings(
    encoder: Encoder, texts: Mapping[str, str], queries: Mapping[str, str], *, depth: int
) -> Rankings:
    """The passages of each question by the similarity that the encoder is made for.

    Args:
        encoder: Encodes questions and passages.
        texts: {passage id: text}.
        queries: {query id: text}.
        depth: How many passages a question gets; ties keep the order of the passages.
    """
    ids = list(texts)
    passages = encoder.encode_passages(list(texts.values()))
    asked = encoder.encode_queries(list(queries.values()))
    names = list(queries)
    rankings: Rankings = {}
    for start in range(0, len(names), _QUERIES_AT_ONCE):
        part = asked[start : start + _QUERIES_AT_ONCE]
        scores = similarities(part, passages, encoder.identity.similarity)
        for name, row in zip(names[start:], scores, strict=False):
            rankings[name] = [ids[place] for place in _best(row, depth)]
    return rankings


def similarities(left: Vectors, right: Vectors, kind: str) -> Vectors:
    """All of one with all of the other: float32 (left, right), bigger is more alike.

    Args:
        left: float32 (n, dim).
        right: float32 (m, dim).
        kind: "cosine", "dot", "neg_l2" or "neg_l1".
    """
    if kind == "neg_l1":
        return np.stack([-np.abs(right - vector).sum(axis=1) for vector in left])
    if kind == "cosine":
        left, right = unit_rows(left), unit_rows(right)
    products: Vectors = left @ right.T
    if kind != "neg_l2":
        return products
    squares = (left * left).sum(axis=1)[:, None] + (right * right).sum(axis=1)
    distances = np.sqrt(np.maximum(squares - 2 * products, 0))
    negated: Vectors = -distances.astype(np.float32)
    return negated


def _best(scores: npt.NDArray[np.float32], depth: int) -> npt.NDArray[np.int64]:
    """The places of the highest scores, best first; ties in the order of the places."""
    if depth < len(scores):
        edge = np.partition(scores, len(scores) - depth)[len(scores) - depth]
        places = np.flatnonzero(scores >= edge)
    else:
        places = np.arange(len(scores))
    order = np.argsort(-scores[places], kind="stable")[:depth]
    return places[order]
