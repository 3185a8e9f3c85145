"""The way of one query: encode, search, rerank, expand."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from time import perf_counter

import numpy as np
import numpy.typing as npt
from qdrant_client import models

from sbert_retriever.errors import ModelError
from sbert_retriever.index.filters import build_filter
from sbert_retriever.index.steps import Steps, work
from sbert_retriever.index.store import PassageStore
from sbert_retriever.index.vectors import check_sparse, faulty_rows
from sbert_retriever.lazy_encoder import LazyEncoder
from sbert_retriever.rerank import Reranker, RerankOptions, RerankResult
from sbert_retriever.rerank.late import TokenEncoder
from sbert_retriever.search.first_stage import by_both, by_words, grown, in_groups, nearest
from sbert_retriever.search.late import by_late_interaction
from sbert_retriever.search.request import Query
from sbert_retriever.search.second_stage import SecondStage
from sbert_retriever.sparse.bm25 import share_of_names
from sbert_retriever.types import (
    Encoder,
    Fusion,
    Hit,
    Profile,
    SearchMode,
    SearchResult,
    SparseVector,
)


def searched(
    store: PassageStore,
    encoder: LazyEncoder,
    second: SecondStage,
    queries: list[str],
    asked: Query,
) -> Steps[list[SearchResult]]:
    """Encode queries, search, rerank and expand; with the milliseconds of each stage.

    Models that are not loaded yet are loaded before the clock starts.
    """
    if not queries:
        return []
    condition = build_filter(asked.filter, metadata_key=store.layout.metadata_key)
    profile = second.settings(asked)
    mode = profile.mode or ("dense" if store.sparse_identity is None else "hybrid")
    reranker = None
    if profile.reranks:
        reranker = yield work(second.reranker, profile)
    late: TokenEncoder | None = None
    if profile.late:
        late = yield work(second.token_encoder, profile)
    ready = partial(_ready, store, encoder, reranker, late, mode=mode, profile=profile)
    loaded = yield work(ready)
    started = perf_counter()
    vectors, terms = yield from _encoded(store, encoder, queries, mode)
    encoded = perf_counter()
    timed = store.within_time(asked.timeout_s)
    found = yield from _found(timed, vectors, terms, condition, queries, asked, profile)
    if profile.late:
        found = yield from by_late_interaction(
            timed,
            late or loaded,
            queries,
            found,
            count=profile.late,
            stored=late is None,
        )
    ended = perf_counter()
    answers = [_untouched(hits) for hits in found]
    if reranker is not None:
        options = _options(asked, profile, (ended - started) * 1e3 / len(queries))
        answers = yield from _reranked(reranker, queries, found, options)
    reranked = perf_counter() if reranker is not None else ended
    chosen = [answer.hits for answer in answers]
    if _staged(profile):
        chosen = [in_groups(timed, hits, asked) for hits in chosen]
    if asked.group_by is None:
        chosen = [hits[: asked.k] for hits in chosen]
    texts = yield from grown(timed, chosen, asked)
    timings = {
        "encode": (encoded - started) * 1e3,
        "search": (ended - encoded) * 1e3,
        "rerank": (reranked - ended) * 1e3,
        "total": (perf_counter() - started) * 1e3,
    }
    return [
        SearchResult(hits, timings, answer.candidates, answer.rescored)
        for hits, answer in zip(texts, answers, strict=True)
    ]


def _encoded(
    store: PassageStore, encoder: LazyEncoder, queries: list[str], mode: SearchMode
) -> Steps[tuple[npt.NDArray[np.float32], list[SparseVector]]]:
    """Dense vectors (m, dim) and sparse ones; none of a kind that the mode does not need."""
    vectors = np.empty((0, store.dim), dtype=np.float32)
    terms: list[SparseVector] = []
    if mode != "sparse":
        vectors = yield work(encoder.encode_queries, queries)
        _refuse_faulty(vectors, queries, half=store.half)
    if mode != "dense":
        terms = yield work(store.sparse_encoder().encode_queries, queries)
        check_sparse(terms, queries)
    return vectors, terms


def _found(
    store: PassageStore,
    vectors: npt.NDArray[np.float32],
    terms: list[SparseVector],
    condition: models.Filter | None,
    queries: list[str],
    asked: Query,
    profile: Profile,
) -> Steps[list[list[Hit]]]:
    """The first stage's hits, by the vectors that there are."""
    first = _first(asked, profile)
    if not terms:
        return (yield from nearest(store, vectors, condition, first))
    if not len(vectors):
        return (yield from by_words(store, terms, condition, first))
    cosine, asked_for = store.score_kind == "cosine", profile.fusion or Fusion()
    fusions = [asked_for.settled(cosine=cosine, names=share_of_names(q)) for q in queries]
    return (yield from by_both(store, vectors, terms, condition, first, fusions))


def _ready(
    store: PassageStore,
    encoder: LazyEncoder,
    reranker: Reranker | None,
    late: TokenEncoder | None,
    *,
    mode: SearchMode,
    profile: Profile,
) -> Encoder | None:
    """The encoder, where it takes part; the weights of all that do are read.

    Where time is to be kept, the scorer's speed is measured, too, once.
    """
    by_its_tokens = profile.late > 0 and late is None
    loaded = encoder.get() if mode != "sparse" or by_its_tokens else None
    _warm_up(loaded)
    _warm_up(late)
    if mode != "dense":
        _warm_up(store.sparse_encoder())
    if reranker is not None:
        # What fails here fails again when pairs are scored, and is answered there.
        with suppress(Exception):
            _warm_up(reranker.scorer)
            if profile.budget_ms is not None:
                reranker.warm_up_once()
    return loaded


def _warm_up(model: object) -> None:
    """Have a model read its weights, where it has a method for that."""
    if callable(warm_up := getattr(model, "warm_up", None)):
        warm_up()


def _untouched(hits: list[Hit]) -> RerankResult:
    return RerankResult(hits=hits, candidates=0, rescored=0, ended="all")


def _staged(profile: Profile) -> bool:
    """Whether another stage follows the first."""
    return profile.reranks or profile.late > 0


def _first(asked: Query, profile: Profile) -> Query:
    """What the first stage is asked for; where others follow, groups are made at the end."""
    own = replace(
        asked,
        exact=profile.exact,
        ef=profile.ef,
        oversampling=profile.oversampling,
        rescore=profile.rescore,
    )
    if not _staged(profile):
        return own
    # Near-duplicates are left out there, groups are made of what the last stage hands on.
    k = max(asked.k if asked.distinct is not None else asked.fetched, profile.candidates)
    return replace(own, k=k, group_by=None, diversity=None)


def _options(asked: Query, profile: Profile, spent_ms: float) -> RerankOptions:
    """What the reranker is asked for, in the time that the stages before it left."""
    k = asked.k if asked.group_by is None else None
    options = RerankOptions.of(
        profile, k=k, min_score=asked.rerank_threshold, watched=asked.k * asked.group_size
    )
    depth = profile.candidates if profile.rerank_depth is None else profile.rerank_depth
    if profile.late and (profile.fuse_weight is not None or profile.early_margin is not None):
        # What late interaction did not score is on another scale, and would be joined with it.
        depth = min(depth, profile.late)
    left = None if options.budget_ms is None else max(options.budget_ms - spent_ms, 0.0)
    return replace(options, candidates=depth, budget_ms=left)


def _reranked(
    reranker: Reranker,
    queries: Sequence[str],
    found: Sequence[list[Hit]],
    options: RerankOptions,
) -> Steps[list[RerankResult]]:
    """Each query's hits, rescored; the pairs of several queries go through the scorer together.

    With a budget or an early stop each query has its turn.
    """
    if len(queries) > 1 and options.budget_ms is None and options.early_stop is None:
        together = partial(_together, reranker, options)
        answers: list[RerankResult] = yield work(together, queries, found)
        return answers
    answers = []
    for query, hits in zip(queries, found, strict=True):
        answers.append((yield from reranker.steps(query, hits, options)))
    return answers


def _together(
    reranker: Reranker, options: RerankOptions, queries: Sequence[str], found: Sequence[list[Hit]]
) -> list[RerankResult]:
    lists = reranker.rerank_batch(
        queries,
        found,
        k=options.k,
        candidates=options.candidates,
        mode=options.mode,
        weight=options.weight,
        min_score=options.min_score,
        pair_length=options.pair_length,
    )
    answers = []
    for hits, before in zip(lists, found, strict=True):
        given = len(before[: options.candidates])
        failed = bool(hits) and hits[0].fallback is not None
        answers.append(
            RerankResult(
                hits=hits,
                candidates=given,
                rescored=0 if failed else given,
                ended="failed" if failed else "all",
            )
        )
    return answers


def _refuse_faulty(vectors: npt.NDArray[np.float32], queries: list[str], *, half: bool) -> None:
    # Zero is no fault here: it is equally near to every passage.
    bad = faulty_rows(vectors, score_kind="dot", half=half)
    if bad:
        position = min(bad)
        finite = np.isfinite(vectors[position]).all()
        raise ModelError(
            f"the encoder's vector of query {position} ({queries[position][:60]!r}) is "
            f"{bad[position]}: "
            + ("keep the collection in float32" if finite else "try dtype='float32'")
        )
