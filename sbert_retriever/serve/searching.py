"""POST /search."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response

from sbert_retriever.search.request import QueryOptions
from sbert_retriever.serve.answers import hit_answer
from sbert_retriever.serve.calls import Calls, StrictRoute
from sbert_retriever.serve.problems import responses
from sbert_retriever.serve.schemas import SearchAnswer, SearchRequest
from sbert_retriever.types import Fusion, Profile

_RERANKING = ("budget_ms", "candidates", "rerank_mode", "rerank_threshold")


def search_routes(calls: Calls) -> APIRouter:
    """The route of a search."""
    router = APIRouter(tags=["search"], route_class=StrictRoute)

    @router.post(
        "/search",
        response_model=SearchAnswer,
        responses=responses(404),
        summary="The passages that answer a question best",
    )
    async def search(asked: SearchRequest, request: Request) -> Response:
        calls.check_text("query", asked.query)
        calls.check_k(asked.k, group_size=1 if asked.group_by is None else asked.group_size)
        calls.note(request, texts={"query": asked.query}, k=asked.k)
        return await calls.answer(lambda waited_ms: searched(calls, asked, waited_ms))

    return router


def searched(calls: Calls, asked: SearchRequest, waited_ms: float) -> dict[str, Any]:
    """Search, within what waiting left of the budget."""
    retriever = calls.service.searched(rerank=wants_rerank(asked))
    options = search_options(asked, waited_ms)
    result = retriever.search_detailed(asked.query, asked.k, **options)
    timings = {"wait": waited_ms, **result.timings_ms}
    timings["total"] += waited_ms
    calls.metrics.stages(timings)
    return {
        "hits": [hit_answer(hit) for hit in result.hits],
        "timings_ms": {stage: round(ms, 3) for stage, ms in timings.items()},
        "candidates": result.candidates,
        "rescored": result.rescored,
    }


def wants_rerank(asked: SearchRequest) -> bool:
    """Whether a search takes a cross-encoder, by what it says itself."""
    if asked.profile is not None and Profile.named(asked.profile).reranks:
        return True
    return any(getattr(asked, name) is not None for name in _RERANKING)


def search_options(asked: SearchRequest, waited_ms: float) -> QueryOptions:
    """The arguments of `Retriever.search` that a request gives."""
    given = asked.model_dump(exclude={"query", "k"}, exclude_none=True)
    if asked.fusion is not None:
        given["fusion"] = Fusion(**asked.fusion.model_dump())
    if asked.budget_ms is not None:
        given["budget_ms"] = max(asked.budget_ms - waited_ms, 0.0)
    options: QueryOptions = given  # type: ignore[assignment]  # the schema has the same names
    return options
