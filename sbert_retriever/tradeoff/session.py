"""The stages of a measurement."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from sbert_retriever.evaluation.read_ranking import Qrels
from sbert_retriever.rerank import Reranker
from sbert_retriever.retriever import Retriever
from sbert_retriever.tradeoff.asking import Asking
from sbert_retriever.tradeoff.first_stage import (
    Candidates,
    Contents,
    CutVectors,
    Hits,
    Key,
    first_stage_key,
    read_contents,
)
from sbert_retriever.tradeoff.fitting import cross_fitted
from sbert_retriever.tradeoff.late import all_by_maxsim
from sbert_retriever.tradeoff.points import OperatingPoint
from sbert_retriever.tradeoff.points import point as point_of
from sbert_retriever.tradeoff.records import Timing, Truth
from sbert_retriever.tradeoff.second_stage import RememberedScorer, reranked
from sbert_retriever.tradeoff.timing import Asked, scaled, spread, timed
from sbert_retriever.types import Fusion, Hit, Scorer

Progress = Callable[[str, int, int], None]
# The shares that are tried where a weight is fitted.
_RERANK_WEIGHTS = tuple(step / 20 for step in range(1, 20))
_SPARSE_WEIGHTS = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6)


class Session:
    """One measurement, stage after stage, from what needs the least memory to the most.

    Args:
        retriever: Of the collection.
        queries: {query id: text}, all of which are answered.
        scorer: A cross-encoder, or None.
        qrels: {query id: {passage id: grade}}, or None.
        pair_scores: A file that keeps the scores of pairs from run to run; None keeps none.
        seed: Of the samples.
        on_progress: Told what is being done, how much of it is done, of how much.

    Attributes:
        answers: {point: {query id: passage ids}}.
        timings: {point: one entry for each query that was timed}.
        memory: {point: memory of the process while it was timed, in MB}.
        sampled_pairs: Pairs a query that the cross-encoder over everything was timed on.
        fitted: {point: it with the weight that is best over all queries}.
    """

    def __init__(
        self,
        retriever: Retriever,
        queries: Mapping[str, str],
        scorer: Scorer | None,
        *,
        qrels: Qrels | None,
        pair_scores: Path | None,
        seed: int,
        on_progress: Progress,
    ) -> None:
        self._retriever = retriever
        self._queries = queries
        self._scorer = scorer
        self._qrels = qrels
        self._asking = Asking(retriever, scorer)
        self._pair_scores = pair_scores
        self._seed = seed
        self._on_progress = on_progress
        self._passages = retriever.count()
        rows = retriever.encoder.encode_queries(list(queries.values()))
        self._vectors = dict(zip(queries, rows, strict=True))
        self._candidates = Candidates(retriever, queries, self._vectors)
        self._late: dict[tuple[Key, int], Hits] = {}
        self._timed: dict[str, str] = {}
        self._contents = Contents([], np.empty((0, 0), np.float32), [])
        self.answers: dict[str, dict[str, list[str]]] = {}
        self.timings: dict[str, list[Timing]] = {}
        self.memory: dict[str, float] = {}
        self.sampled_pairs = 0
        self.fitted: dict[str, OperatingPoint] = {}

    # Stages -----------------------------------------------------------------------------

    def first_stage(self, points: list[OperatingPoint], count: int) -> None:
        """The bi-encoder at every width."""
        order = np.random.default_rng(self._seed).permutation(len(self._queries))
        self._timed = spread(self._queries, order.tolist(), count)
        chosen = [p for p in points if _is_first_stage_alone(p)]
        for number, point in enumerate(chosen):
            self._on_progress("searching", number, len(chosen))
            if point.fitted:
                self._fit(point, self._with_fusions(point))
            else:
                self._answer(point, self._candidates.of(point))
        self._time({p.name: self._asking.at(p) for p in chosen}, "timing searches")

    def cut_vectors(self, points: list[OperatingPoint], sampled_pairs: int) -> None:
        """Exact search over fewer dimensions; also draws what is needed later."""
        chosen = [p for p in points if p.profile.truncate_dim]
        everything = any(p.everything for p in points)
        self.sampled_pairs = min(sampled_pairs, self._passages) if everything else 0
        sample = self.sampled_pairs * len(self._timed)
        if not chosen and not sample:
            return
        self._on_progress("reading vectors", 0, self._passages)
        contents = read_contents(
            self._retriever, vectors=bool(chosen), sample=sample, seed=self._seed
        )
        for point in chosen:
            cut = CutVectors(contents, point.profile.truncate_dim or 0)
            self.answers[point.name] = {
                query: cut.search(vector, point.k) for query, vector in self._vectors.items()
            }
            self._time({point.name: self._asking.cut(point, cut)}, f"timing {point.name}")
        self._contents = replace(contents, ids=[], vectors=contents.vectors[:0])

    def late_interaction(self, points: list[OperatingPoint]) -> None:
        """MaxSim over the candidates."""
        for point in points:
            if point.late and _late_key(point) not in self._late:
                self._late[_late_key(point)] = self._by_maxsim(point)
        chosen = [p for p in points if p.late and not p.rerank]
        for point in chosen:
            self._answer(point, self._late[_late_key(point)])
        self._time({p.name: self._asking.at(p) for p in chosen}, "timing late interaction")

    def cross_encoder(self, points: list[OperatingPoint]) -> None:
        """Every depth and mode; the modes of one depth share its times, since they do one work."""
        chosen = [p for p in points if p.rerank]
        if self._scorer is None or not chosen:
            return
        twins: dict[OperatingPoint, list[OperatingPoint]] = {}
        for point in chosen:
            twins.setdefault(_without_mode(point), []).append(point)
        self._time(
            {same[0].name: self._asking.at(same[0]) for same in twins.values()},
            "timing the cross-encoder",
        )
        for first, *others in twins.values():
            for other in others:
                self.timings[other.name] = self.timings[first.name]
                self.memory[other.name] = self.memory[first.name]
        known = RememberedScorer(self._scorer, self._pair_scores)
        for length in dict.fromkeys(p.profile.pair_length for p in chosen):
            pairs = self._all_pairs([p for p in chosen if p.profile.pair_length == length])
            known.learn(pairs, max_length=length, on_progress=self._told("scoring pairs"))
        recalling = Reranker(known, on_failure="raise")
        for number, point in enumerate(chosen):
            self._on_progress("putting in order", number, len(chosen))
            if point.fitted:
                weights = (replace(point.profile, fuse_weight=w) for w in _RERANK_WEIGHTS)
                variants = [replace(point, profile=profile) for profile in weights]
                self._fit(point, {p: self._reranked(recalling, p) for p in variants})
            else:
                self._answer(point, self._reranked(recalling, point))

    def everything(self, points: list[OperatingPoint]) -> None:
        """The cross-encoder over the whole collection, from a sample of it."""
        point = next((p for p in points if p.everything), None)
        if point is None or self._scorer is None:
            return
        size, sample = self.sampled_pairs, self._contents.sample
        # A collection smaller than all samples together gives its passages more than once.
        drawn = {
            query: [sample[(number * size + n) % len(sample)] for n in range(size)]
            for number, query in enumerate(self._timed)
        }
        ask = self._asking.some(self._scorer, drawn)
        self._time({point.name: ask}, "timing a sample of everything")
        factor = self._passages / size
        self.timings[point.name] = [scaled(t, factor) for t in self.timings[point.name]]

    def truth(self, points: list[OperatingPoint]) -> tuple[Truth, Qrels]:
        """What the answers are compared with."""
        if self._qrels is not None:
            return "qrels", {query: self._qrels[query] for query in self._queries}
        deepest = max(
            (p for p in points if p.in_full),
            key=lambda p: p.rerank,
            default=None,
        )
        if deepest is not None:
            return "rerank", {q: _graded(ids) for q, ids in self.answers[deepest.name].items()}
        exact = point_of("exact", points[0].k, exact=True)
        found = self._candidates.of(exact)
        return "exact", {q: _graded([hit.id for hit in hits]) for q, hits in found.items()}

    # Inside -----------------------------------------------------------------------------

    def _answer(self, point: OperatingPoint, hits: Mapping[str, list[Hit]]) -> None:
        self.answers[point.name] = {
            query: [hit.id for hit in found[: point.k]] for query, found in hits.items()
        }

    def _reranked(self, reranker: Reranker, point: OperatingPoint) -> Hits:
        return {
            query: reranked(reranker, self._queries[query], found, point).hits
            for query, found in self._before_rerank(point).items()
        }

    def _with_fusions(self, point: OperatingPoint) -> dict[OperatingPoint, Hits]:
        """The answers of a hybrid point with more and more weight on the words."""
        fusions = (Fusion(sparse_weight=weight) for weight in _SPARSE_WEIGHTS)
        variants = [replace(point, profile=replace(point.profile, fusion=f)) for f in fusions]
        return {variant: self._candidates.of(variant) for variant in variants}

    def _fit(self, point: OperatingPoint, variants: Mapping[OperatingPoint, Hits]) -> None:
        """Answer a point with the best of its variants, and keep the one to work with."""
        answers = {
            variant: {q: [hit.id for hit in found[: point.k]] for q, found in hits.items()}
            for variant, hits in variants.items()
        }
        best, self.answers[point.name] = cross_fitted(answers, self._qrels or {}, k=point.k)
        self.fitted[point.name] = best

    def _by_maxsim(self, point: OperatingPoint) -> Hits:
        found, told = self._candidates.of(point), self._told("token vectors")
        encoder: Any = self._retriever.late_encoder  # gives token vectors: Means.allow saw to it
        if not self._retriever.store.tokens or encoder is not self._retriever.encoder:
            return all_by_maxsim(encoder, self._queries, found, count=point.late, on_progress=told)
        ordered: Hits = {}
        for number, (query, hits) in enumerate(found.items()):
            told(number, len(found))
            ordered[query] = self._asking.late([self._queries[query]], [hits], point)[0]
        return ordered

    def _before_rerank(self, point: OperatingPoint) -> dict[str, list[Hit]]:
        return self._late[_late_key(point)] if point.late else self._candidates.of(point)

    def _all_pairs(self, points: list[OperatingPoint]) -> Iterable[tuple[str, str]]:
        for point in points:
            for query, hits in self._before_rerank(point).items():
                yield from ((self._queries[query], hit.text) for hit in hits[: point.rerank])

    def _time(self, ways: Mapping[str, Asked], label: str) -> None:
        if ways:
            times, memory = timed(ways, self._timed, on_progress=self._told(label))
            self.timings |= times
            self.memory |= memory

    def _told(self, label: str) -> Callable[[int, int], None]:
        return lambda done, total: self._on_progress(label, done, total)


def _is_first_stage_alone(point: OperatingPoint) -> bool:
    return not (point.profile.truncate_dim or point.late or point.rerank or point.everything)


def _late_key(point: OperatingPoint) -> tuple[Key, int]:
    return first_stage_key(point), point.late


def _without_mode(point: OperatingPoint) -> OperatingPoint:
    """Points that are equal without their names and modes do the same work.

    With an early stop they do not: when the first k settle depends on the mode.
    """
    profile = replace(point.profile, name="")
    if profile.early_batches is None:
        profile = replace(profile, rerank_mode="replace", fuse_weight=None)
    return replace(point, profile=profile, fitted=False)


def _graded(ids: list[str]) -> dict[str, int]:
    """Grades that fall from the first to the last."""
    return {passage: len(ids) - rank for rank, passage in enumerate(ids)}
