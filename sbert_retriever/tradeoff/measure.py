"""Measure a grid of operating points on a collection.

Accuracy and time are measured apart. Answers of all queries come from batches, each pair through
the cross-encoder once; times come from some queries asked one by one, each doing all its work.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from os import PathLike
from pathlib import Path

from sbert_retriever.errors import InputError
from sbert_retriever.evaluation.read_ranking import Qrels
from sbert_retriever.rerank.late import TokenEncoder
from sbert_retriever.retriever import Retriever
from sbert_retriever.tradeoff.efficiency import described
from sbert_retriever.tradeoff.machine import machine
from sbert_retriever.tradeoff.pair_file import check_path
from sbert_retriever.tradeoff.points import Grid, Means, operating_points
from sbert_retriever.tradeoff.records import Records, Setting, Truth
from sbert_retriever.tradeoff.second_stage import takes_lengths
from sbert_retriever.tradeoff.session import Progress, Session
from sbert_retriever.types import Encoder, RetrieverInfo, Scorer, ScorerIdentity


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
    pair_scores: str | PathLike[str] | None = None,
    seed: int = 0,
    on_progress: Progress = lambda label, done, total: None,
) -> Records:
    """Measure what accuracy costs on a collection.

    Args:
        retriever: Open on the collection; late interaction takes its `late_encoder`.
        queries: {query id: text}. With qrels, those that nobody judged are left out.
        qrels: {query id: {passage id: grade}}. Without, the deepest rerank is the truth.
        scorer: A cross-encoder; None measures the bi-encoder's points alone.
        grid: Which points; None is the default grid.
        k: How many passages a query gets.
        timed_queries: How many queries are timed one by one.
        sampled_pairs: Pairs a query from which the cross-encoder over everything is extrapolated.
        pair_scores: A file that keeps the cross-encoder's scores, so that a run that was stopped,
            or one with another grid, scores no pair again.
        seed: Of the samples and of the bootstrap.
        on_progress: Told what is being done, how much of it is done, of how much.

    Raises:
        InputError: No passage, no query, none of the queries is judged, a number is below 1, or
            `pair_scores` is another kind of file.
    """
    if min(k, timed_queries, sampled_pairs) < 1:
        raise InputError(
            f"k is {k}, timed_queries {timed_queries} and sampled_pairs {sampled_pairs}: each is 1 "
            "or more"
        )
    kept = Path(pair_scores) if pair_scores is not None else None
    if kept is not None:
        check_path(kept)  # minutes before it is written
    info, encoder = retriever.info(), retriever.encoder
    if info.count < 1:
        raise InputError("the collection is empty: index something first")
    chosen, notes = _chosen(queries, qrels)
    late = retriever.late_encoder
    means = _means(info, late, scorer, judged=qrels is not None)
    given = None if late is encoder else late
    points = operating_points(
        grid or Grid(), means, k=k, reranker=_name(scorer), late_encoder=_late_name(given)
    )
    session = Session(
        retriever,
        chosen,
        scorer,
        qrels=qrels,
        pair_scores=kept,
        seed=seed,
        on_progress=on_progress,
    )
    session.first_stage(points, timed_queries)
    session.cut_vectors(points, sampled_pairs)
    session.late_interaction(points)
    session.cross_encoder(points)
    session.everything(points)
    truth, grades = session.truth(points)
    return Records(
        setting=_setting(
            info,
            encoder,
            scorer,
            k=k,
            truth=truth,
            seed=seed,
            notes=[*notes, *_remarks(info, means, given)],
        ),
        points=tuple(session.fitted.get(point.name, point) for point in points),
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


def _means(
    info: RetrieverInfo, late: Encoder | TokenEncoder, scorer: Scorer | None, *, judged: bool
) -> Means:
    return Means(
        dim=info.dim,
        graph=info.indexed > 0,
        cosine=info.score_kind == "cosine",
        tokens=isinstance(late, TokenEncoder),
        scorer=scorer is not None,
        lengths=scorer is not None and takes_lengths(scorer),
        words=info.sparse is not None,
        quantized=info.quantized,
        judged=judged,
    )


def _name(scorer: Scorer | None) -> str | None:
    """By which a search can load the cross-encoder again."""
    identity = getattr(scorer, "identity", None)
    return identity.name if isinstance(identity, ScorerIdentity) else None


def _late_name(late: Encoder | TokenEncoder | None) -> str | None:
    """By which a search can load the late-interaction model again; its class where it has none."""
    if late is None:
        return None
    name = getattr(late, "name", None)
    return name if isinstance(name, str) else type(late).__name__


def _remarks(
    info: RetrieverInfo, means: Means, late: Encoder | TokenEncoder | None
) -> Iterable[str]:
    """What was not measured, and why; and what its times rest on."""
    if not means.graph and not means.quantized:
        yield (
            "No vector of this collection is in a graph (it is small): every search is exact, and "
            "no width of the walk was measured."
        )
    if not means.cosine:
        yield "Its scores are no cosines: cut dimensions were not measured."
    if late is not None:
        told = [getattr(late, about, None) for about in ("dtype", "device")]
        how = ", ".join(str(value) for value in told if value)
        yield f"Token vectors for MaxSim are those of {_late_name(late)}{how and f' ({how})'}."
    elif info.tokens:
        yield "Token vectors for MaxSim are kept with the collection."
    if not means.tokens:
        yield "The encoder gives no token vectors: no late interaction."


def _setting(
    info: RetrieverInfo,
    encoder: Encoder,
    scorer: Scorer | None,
    *,
    k: int,
    truth: Truth,
    seed: int,
    notes: Iterable[str],
) -> Setting:
    """What was measured on."""
    return Setting(
        location=info.location,
        collection_name=info.collection_name,
        passages=info.count,
        dim=info.dim,
        indexed=info.indexed,
        engine=info.engine,
        encoder=described(encoder),
        scorer=described(scorer) if scorer is not None else None,
        machine=machine(),
        k=k,
        truth=truth,
        seed=seed,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        notes=tuple(notes),
    )
