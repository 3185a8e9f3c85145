"""Measure a grid of operating points on a collection.

Accuracy and time are measured apart. Answers of all queries come from batches, each pair through
the cross-encoder once; times come from some queries asked one by one, each doing all its work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import numpy as np

from sbert_retriever.errors import InputError
from sbert_retriever.evaluation.read_ranking import Qrels
from sbert_retriever.rerank import Reranker
from sbert_retriever.retriever import Retriever
from sbert_retriever.tradeoff.efficiency import described
from sbert_retriever.tradeoff.first_stage import (
    Candidates,
    Contents,
    CutVectors,
    Hits,
    Key,
    first_stage_key,
    read_contents,
    searched,
)
from sbert_retriever.tradeoff.late import TokenEncoder, all_by_maxsim, by_maxsim
from sbert_retriever.tradeoff.machine import machine
from sbert_retriever.tradeoff.points import Grid, Means, OperatingPoint, operating_points
from sbert_retriever.tradeoff.points import point as point_of
from sbert_retriever.tradeoff.records import Records, Setting, Timing, Truth
from sbert_retriever.tradeoff.second_stage import RememberedScorer, reranked, takes_lengths
from sbert_retriever.tradeoff.timing import Asked, Clock, scaled, spread, timed
from sbert_retriever.types import Hit, Scorer

Progress = Callable[[str, int, int], None]


def measure_tradeoff(
    retriever: Retriever,
    queries: Mapping[str, str],
    *,
    qrels: Qrels | None = None,
    scorer: Scorer | None = None,
    grid: Grid | None = None,
    k: int = 10,
    timed_queries: int = 30,
    sampled_pairs: int = 32,
    seed: int = 0,
    on_progress: Progress = lambda label, done, total: None,
) -> Records:
    """Measure what accuracy costs on a collection.

    Args:
        retriever: Open on the collection.
        queries: {query id: text}. With qrels, those that nobody judged are left out.
        qrels: {query id: {passage id: grade}}. Without, the deepest rerank is the truth.
        scorer: A cross-encoder; None measures the bi-encoder's points alone.
        grid: Which points; None is the default grid.
        k: How many passages a query gets.
        timed_queries: How many queries are timed one by one.
        sampled_pairs: Pairs a query from which the cross-encoder over everything is extrapolated.
        seed: Of the samples and of the bootstrap.
        on_progress: Told what is being done, how much of it is done, of how much.

    Raises:
        InputError: No passage, no query, none of the queries is judged, or a number is below 1.
    """
    if min(k, timed_queries, sampled_pairs) < 1:
        raise InputError(
            f"k is {k}, timed_queries {timed_queries} and sampled_pairs {sampled_pairs}: each is 1 "
            "or more"
        )
    chosen, notes = _chosen(queries, qrels)
    session = _Session(retriever, chosen, scorer, seed=seed, on_progress=on_progress)
    points = session.points(grid or Grid(), k, notes)
    session.first_stage(points, timed_queries)
    session.cut_vectors(points, sampled_pairs)
    session.late_interaction(points)
    session.cross_encoder(points)
    session.everything(points)
    truth, grades = session.truth(points, qrels)
    return Records(
        setting=session.setting(k, truth, notes),
        points=tuple(points),
        grades=grades,
        answers=session.answers,
        timings=session.timings,
        memory_mb=session.memory,
        sampled_pairs=session.sampled_pairs,
    )


def _chosen(queries: Mapping[str, str], qrels: Qrels | None) -> tuple[dict[str, str], list[str]]:
    """The queries to measure with, and what to say of the others."""
    if qrels is None:
        chosen = dict(queries)
    else:
        chosen = {i: text for i, text in queries.items() if i in qrels}
    if not chosen:
        raise InputError(
            f"of {len(queries)} queries and {len(qrels or {})} judged ones none is in both: check "
            "that the ids of the two files are the same"
            if qrels is not None
            else "there is no query to measure with"
        )
    missing = len(set(qrels or {}) - set(queries))
    notes = []
    if left_out := len(queries) - len(chosen):
        notes.append(f"{left_out} queries without judgements were left out.")
    if missing:
        notes.append(f"{missing} judged queries have no text and were left out.")
    return chosen, notes


class _Session:
    """One measurement, stage after stage, from what needs the least memory to the most."""

    def __init__(
        self,
        retriever: Retriever,
        queries: Mapping[str, str],
        scorer: Scorer | None,
        *,
        seed: int,
        on_progress: Progress,
    ) -> None:
        self._retriever = retriever
        self._queries = queries
        self._scorer = scorer
        self._reranker = Reranker(scorer, on_failure="raise") if scorer is not None else None
        self._seed = seed
        self._on_progress = on_progress
        self._info = retriever.info()
        if self._info.count < 1:
            raise InputError("the collection is empty: index something first")
        self._encoder = retriever.encoder
        rows = self._encoder.encode_queries(list(queries.values()))
        self._vectors = dict(zip(queries, rows, strict=True))
        self._candidates = Candidates(retriever, self._vectors)
        self._late: dict[tuple[Key, int], Hits] = {}
        self._timed: dict[str, str] = {}
        self._contents = Contents([], np.empty((0, 0), np.float32), [])
        self.answers: dict[str, dict[str, list[str]]] = {}
        self.timings: dict[str, list[Timing]] = {}
        self.memory: dict[str, float] = {}
        self.sampled_pairs = 0

    # What to do -------------------------------------------------------------------------

    def points(self, grid: Grid, k: int, notes: list[str]) -> list[OperatingPoint]:
        """What can be measured here; adds to the notes what cannot."""
        info = self._info
        tokens = isinstance(self._encoder, TokenEncoder)
        graph = info.indexed > 0
        cosine = info.score_kind == "cosine"
        if not graph:
            notes.append(
                "No vector of this collection is in a graph (it is small): every search is exact, "
                "and no width of the walk was measured."
            )
        if not cosine:
            notes.append(f"Its scores are {info.score_kind}: cut dimensions were not measured.")
        if not tokens:
            notes.append("The encoder gives no token vectors: no late interaction.")
        means = Means(
            dim=info.dim,
            graph=graph,
            cosine=cosine,
            tokens=tokens,
            scorer=self._scorer is not None,
            lengths=self._scorer is not None and takes_lengths(self._scorer),
        )
        return operating_points(grid, means, k=k)

    def setting(self, k: int, truth: Truth, notes: Iterable[str]) -> Setting:
        """What was measured on."""
        info = self._info
        return Setting(
            location=info.location,
            collection_name=info.collection_name,
            passages=info.count,
            dim=info.dim,
            indexed=info.indexed,
            engine=info.engine,
            encoder=described(self._encoder),
            scorer=described(self._scorer) if self._scorer is not None else None,
            machine=machine(),
            k=k,
            truth=truth,
            seed=self._seed,
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            notes=tuple(notes),
        )

    # Stages -----------------------------------------------------------------------------

    def first_stage(self, points: list[OperatingPoint], count: int) -> None:
        """The bi-encoder at every width."""
        order = np.random.default_rng(self._seed).permutation(len(self._queries))
        self._timed = spread(self._queries, order.tolist(), count)
        chosen = [p for p in points if _is_first_stage_alone(p)]
        for number, point in enumerate(chosen):
            self._on_progress("searching", number, len(chosen))
            self._answer(point, self._candidates.of(point))
        self._time({p.name: self._asking(p) for p in chosen}, "timing searches")

    def cut_vectors(self, points: list[OperatingPoint], sampled_pairs: int) -> None:
        """Exact search over fewer dimensions; also draws what is needed later."""
        chosen = [p for p in points if p.profile.truncate_dim]
        everything = any(p.everything for p in points)
        self.sampled_pairs = min(sampled_pairs, self._info.count) if everything else 0
        sample = self.sampled_pairs * len(self._timed)
        if not chosen and not sample:
            return
        self._on_progress("reading vectors", 0, self._info.count)
        contents = read_contents(
            self._retriever, vectors=bool(chosen), sample=sample, seed=self._seed
        )
        for point in chosen:
            cut = CutVectors(contents, point.profile.truncate_dim or 0)
            self.answers[point.name] = {
                query: cut.search(vector, point.k) for query, vector in self._vectors.items()
            }
            self._time({point.name: self._asking_cut(point, cut)}, f"timing {point.name}")
        self._contents = replace(contents, ids=[], vectors=contents.vectors[:0])

    def late_interaction(self, points: list[OperatingPoint]) -> None:
        """MaxSim over the candidates."""
        for point in points:
            if point.late and _late_key(point) not in self._late:
                self._late[_late_key(point)] = all_by_maxsim(
                    self._token_encoder,
                    self._queries,
                    self._candidates.of(point),
                    count=point.late,
                    on_progress=self._told("token vectors"),
                )
        chosen = [p for p in points if p.late and not p.rerank]
        for point in chosen:
            self._answer(point, self._late[_late_key(point)])
        self._time({p.name: self._asking(p) for p in chosen}, "timing late interaction")

    def cross_encoder(self, points: list[OperatingPoint]) -> None:
        """Every depth and mode; the modes of one depth share its times, since they do one work."""
        chosen = [p for p in points if p.rerank]
        if self._scorer is None or not chosen:
            return
        twins: dict[OperatingPoint, list[OperatingPoint]] = {}
        for point in chosen:
            twins.setdefault(_without_mode(point), []).append(point)
        self._time(
            {same[0].name: self._asking(same[0]) for same in twins.values()},
            "timing the cross-encoder",
        )
        for first, *others in twins.values():
            for other in others:
                self.timings[other.name] = self.timings[first.name]
                self.memory[other.name] = self.memory[first.name]
        known = RememberedScorer(self._scorer)
        for length in dict.fromkeys(p.profile.pair_length for p in chosen):
            pairs = self._all_pairs([p for p in chosen if p.profile.pair_length == length])
            known.learn(pairs, max_length=length, on_progress=self._told("scoring pairs"))
        recalling = Reranker(known, on_failure="raise")
        for point in chosen:
            hits = self._before_rerank(point)
            self._answer(
                point,
                {
                    query: reranked(recalling, self._queries[query], found, point).hits
                    for query, found in hits.items()
                },
            )

    def everything(self, points: list[OperatingPoint]) -> None:
        """The cross-encoder over the whole collection, from a sample of it."""
        point = next((p for p in points if p.everything), None)
        if point is None or self._scorer is None:
            return
        size, sample = self.sampled_pairs, self._contents.sample
        places = {query: number * size for number, query in enumerate(self._timed)}
        scorer = self._scorer

        def ask(query: str, text: str) -> Timing:
            # A collection smaller than the sample gives its passages more than once.
            texts = [sample[(places[query] + n) % len(sample)] for n in range(size)]
            clock = Clock()
            scorer.score([(text, passage) for passage in texts])
            return Timing(query, 0.0, 0.0, clock.lap(), size)

        self._time({point.name: ask}, "timing a sample of everything")
        factor = self._info.count / size
        self.timings[point.name] = [scaled(t, factor) for t in self.timings[point.name]]

    def truth(self, points: list[OperatingPoint], qrels: Qrels | None) -> tuple[Truth, Qrels]:
        """What the answers are compared with."""
        if qrels is not None:
            return "qrels", {query: qrels[query] for query in self._queries}
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

    @property
    def _token_encoder(self) -> TokenEncoder:
        encoder: Any = self._encoder
        return encoder  # type: ignore[no-any-return]  # points() asked for it to be one

    def _answer(self, point: OperatingPoint, hits: Mapping[str, list[Hit]]) -> None:
        self.answers[point.name] = {
            query: [hit.id for hit in found[: point.k]] for query, found in hits.items()
        }

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

    def _asking(self, point: OperatingPoint) -> Asked:
        """How a query is answered at a point, every stage for real."""

        def ask(query: str, text: str) -> Timing:
            clock = Clock()
            vector = self._encoder.encode_queries([text])[0]
            encoded = clock.lap()
            hits = searched(self._retriever, vector, point)
            found = clock.lap()
            if point.late:
                hits = by_maxsim(self._token_encoder, text, hits, count=point.late)
            pairs = 0
            if point.rerank and self._reranker is not None:
                pairs = reranked(self._reranker, text, hits, point).rescored
            again = clock.lap() if point.late or point.rerank else 0.0
            return Timing(query, encoded, found, again, pairs)

        return ask

    def _asking_cut(self, point: OperatingPoint, cut: CutVectors) -> Asked:
        def ask(query: str, text: str) -> Timing:
            clock = Clock()
            vector = self._encoder.encode_queries([text])[0]
            encoded = clock.lap()
            cut.search(vector, point.k)
            return Timing(query, encoded, clock.lap())

        return ask


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
    return replace(point, profile=profile)


def _graded(ids: list[str]) -> dict[str, int]:
    """Grades that fall from the first to the last."""
    return {passage: len(ids) - rank for rank, passage in enumerate(ids)}
