"""Queries of `qdrant_client.models` in the embedded engine's own classes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

import numpy as np
import qdrant_edge as edge
from qdrant_client import models

from sbert_retriever.errors import InputError
from sbert_retriever.index.edge.config import twin
from sbert_retriever.index.edge.filter import edge_filter, iso_text
from sbert_retriever.index.edge.points import edge_vector

_LIMIT = 10
_RRF_K = 2
_DIVERSITY = 0.5
"""Qdrant's own defaults, which the engine wants spelt out."""


def edge_query_request(
    query: Any = None,
    *,
    using: str | None = None,
    prefetch: models.Prefetch | Sequence[models.Prefetch] | None = None,
    query_filter: models.Filter | None = None,
    search_params: models.SearchParams | None = None,
    limit: int = _LIMIT,
    offset: int | None = None,
    with_payload: Any = True,
    with_vectors: bool | Sequence[str] = False,
    score_threshold: float | None = None,
) -> edge.QueryRequest:
    """A request from the arguments of `QdrantClient.query_points`.

    Raises:
        InputError: A vector, filter or number that would harm the engine or that it cannot read.
    """
    return edge.QueryRequest(
        limit=limit,
        offset=offset,
        query=_query(query, using, limit),
        prefetches=_prefetches(prefetch),
        with_vector=with_vectors if isinstance(with_vectors, bool) else list(with_vectors),
        with_payload=edge_payload_selector(with_payload),
        filter=None if query_filter is None else edge_filter(query_filter),
        score_threshold=_threshold(score_threshold),
        params=edge_search_params(search_params),
    )


def edge_query_request_from(request: models.QueryRequest) -> edge.QueryRequest:
    """A request from the model that batches are made of; its payload is off by default."""
    return edge_query_request(
        request.query,
        using=request.using,
        prefetch=request.prefetch,
        query_filter=request.filter,
        search_params=request.params,
        limit=_LIMIT if request.limit is None else request.limit,
        offset=request.offset,
        with_payload=False if request.with_payload is None else request.with_payload,
        with_vectors=False if request.with_vector is None else request.with_vector,
        score_threshold=request.score_threshold,
    )


def edge_search_params(params: models.SearchParams | None) -> edge.SearchParams | None:
    """Search parameters; None for None."""
    if params is None:
        return None
    return edge.SearchParams(
        hnsw_ef=params.hnsw_ef,
        exact=bool(params.exact),
        quantization=_quantization(params.quantization),
        indexed_only=bool(params.indexed_only),
        acorn=_acorn(params.acorn),
        idf=_idf(params.idf),
    )


def edge_payload_selector(selector: Any) -> Any:
    """What of the payload comes back: a bool, or the engine's selector."""
    if selector is None or isinstance(selector, bool):
        return bool(selector)
    if isinstance(selector, models.PayloadSelectorExclude):
        return edge.PayloadSelector.Exclude(selector.exclude)
    if isinstance(selector, models.PayloadSelectorInclude):
        return edge.PayloadSelector.Include(selector.include)
    return edge.PayloadSelector.Include(list(selector))


def _quantization(
    params: models.QuantizationSearchParams | None,
) -> edge.QuantizationSearchParams | None:
    if params is None:
        return None
    return edge.QuantizationSearchParams(
        ignore=bool(params.ignore), rescore=params.rescore, oversampling=params.oversampling
    )


def _acorn(params: models.AcornSearchParams | None) -> edge.AcornSearchParams | None:
    if params is None:
        return None
    return edge.AcornSearchParams(
        enable=bool(params.enable), max_selectivity=params.max_selectivity
    )


def _idf(scope: models.IdfScope | models.IdfCorpusParams | None) -> edge.IdfParams | None:
    if isinstance(scope, models.IdfCorpusParams):
        return edge.IdfParams(edge_filter(scope.corpus))
    return None if scope is None else edge.IdfParams()


def _threshold(value: float | None) -> float | None:
    if value is not None and math.isnan(value):
        raise InputError("score_threshold is nan, expected a number or None")
    return value


def _prefetches(prefetch: Any) -> list[edge.Prefetch] | None:
    if prefetch is None:
        return None
    several = [prefetch] if isinstance(prefetch, models.Prefetch) else prefetch
    return [_prefetch(item) for item in several]


def _prefetch(item: models.Prefetch) -> edge.Prefetch:
    limit = _LIMIT if item.limit is None else item.limit
    return edge.Prefetch(
        limit=limit,
        query=_query(item.query, item.using, limit),
        prefetches=_prefetches(item.prefetch),
        params=edge_search_params(item.params),
        filter=None if item.filter is None else edge_filter(item.filter),
        score_threshold=_threshold(item.score_threshold),
    )


def _query(query: Any, using: str | None, limit: int) -> Any:
    if query is None:
        return None
    if isinstance(query, (list, tuple, np.ndarray, models.SparseVector)):
        return edge.Query.Nearest(_vector(query), using=using)
    convert = _QUERIES.get(type(query))
    if convert is None:
        raise _unknown(query)
    return convert(query, using, limit)


def _unknown(query: Any) -> InputError:
    if isinstance(query, (int, str, UUID)):
        return InputError(
            f"query is the point id {query!r:.60}: the embedded engine searches by vectors alone, "
            "so fetch the point's vector first"
        )
    return InputError(
        f"query is {type(query).__name__}, which the embedded engine does not take: give a vector "
        "or a nearest, fusion, rrf, recommend, discover, context, order_by or sample query"
    )


def _vector(value: Any) -> Any:
    if isinstance(value, (int, str, UUID)):
        raise _unknown(value)
    return edge_vector(value, where="query vector")


def _nearest(query: models.NearestQuery, using: str | None, limit: int) -> Any:
    vector = _vector(query.nearest)
    if query.mmr is None:
        return edge.Query.Nearest(vector, using=using)
    diversity = _DIVERSITY if query.mmr.diversity is None else query.mmr.diversity
    candidates = query.mmr.candidates_limit
    return edge.Mmr(
        vector, 1.0 - diversity, limit if candidates is None else candidates, using=using
    )


def _fusion(query: models.FusionQuery, using: str | None, limit: int) -> Any:
    return edge.Fusion.Dbsf() if query.fusion == models.Fusion.DBSF else edge.Fusion.Rrf(k=_RRF_K)


def _rrf(query: models.RrfQuery, using: str | None, limit: int) -> Any:
    k = _RRF_K if query.rrf.k is None else query.rrf.k
    if k < 1:
        raise InputError(f"rrf k is {k}, expected 1 or more: at 0 the first rank is infinite")
    return edge.Fusion.Rrf(k=k, weights=query.rrf.weights)


def _recommend(query: models.RecommendQuery, using: str | None, limit: int) -> Any:
    positive = [_vector(v) for v in query.recommend.positive or ()]
    negative = [_vector(v) for v in query.recommend.negative or ()]
    examples = edge.RecommendQuery(positive, negative)
    if query.recommend.strategy == models.RecommendStrategy.BEST_SCORE:
        return edge.Query.RecommendBestScore(examples, using=using)
    if query.recommend.strategy == models.RecommendStrategy.SUM_SCORES:
        return edge.Query.RecommendSumScores(examples, using=using)
    return edge.Query.Nearest(_average(positive, negative), using=using)


def _average(positive: list[Any], negative: list[Any]) -> list[float]:
    """Away from the negatives by as much as the positives are away from them."""
    if not positive or not all(_is_dense(vector) for vector in (*positive, *negative)):
        raise InputError(
            "recommend by the average vector takes dense vectors, one of them positive: "
            "give strategy=BEST_SCORE for others"
        )
    wanted = np.mean(positive, axis=0)
    mean = wanted if not negative else 2 * wanted - np.mean(negative, axis=0)
    return list(mean.tolist())


def _is_dense(vector: Any) -> bool:
    return isinstance(vector, list) and bool(vector) and not isinstance(vector[0], list)


def _discover(query: models.DiscoverQuery, using: str | None, limit: int) -> Any:
    target = _vector(query.discover.target)
    return edge.Query.Discover(
        edge.DiscoverQuery(target, _pairs(query.discover.context)), using=using
    )


def _context(query: models.ContextQuery, using: str | None, limit: int) -> Any:
    return edge.Query.Context(edge.ContextQuery(_pairs(query.context)), using=using)


def _pairs(context: models.ContextPair | list[models.ContextPair] | None) -> list[edge.ContextPair]:
    pairs = [context] if isinstance(context, models.ContextPair) else context or []
    return [edge.ContextPair(_vector(pair.positive), _vector(pair.negative)) for pair in pairs]


def _order_by(query: models.OrderByQuery, using: str | None, limit: int) -> Any:
    order = query.order_by
    return edge_order_by(models.OrderBy(key=order) if isinstance(order, str) else order)


def edge_order_by(order: models.OrderBy) -> edge.OrderBy:
    """The order of a scroll or query by a payload field, which must have an index."""
    start = order.start_from
    return edge.OrderBy(
        order.key,
        direction=twin(edge.Direction, order.direction),
        start_from=start if start is None or isinstance(start, (int, float)) else iso_text(start),
    )


def _sample(query: models.SampleQuery, using: str | None, limit: int) -> Any:
    return edge.Sample.Random


_QUERIES: dict[type, Callable[[Any, str | None, int], Any]] = {
    models.NearestQuery: _nearest,
    models.FusionQuery: _fusion,
    models.RrfQuery: _rrf,
    models.RecommendQuery: _recommend,
    models.DiscoverQuery: _discover,
    models.ContextQuery: _context,
    models.OrderByQuery: _order_by,
    models.SampleQuery: _sample,
}
