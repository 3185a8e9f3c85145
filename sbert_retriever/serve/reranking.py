"""POST /rerank, in the shape of Jina's and Cohere's clients."""

from __future__ import annotations

import secrets
from typing import Any

import numpy as np
from fastapi import APIRouter, Request, Response

from sbert_retriever.serve.calls import Calls, StrictRoute
from sbert_retriever.serve.problems import responses
from sbert_retriever.serve.schemas import RerankAnswer, RerankRequest

_PATHS = {"/rerank": True, "/v1/rerank": False, "/v2/rerank": False}


def rerank_routes(calls: Calls) -> APIRouter:
    """One route, under the paths that clients know."""
    router = APIRouter(tags=["rerank"], route_class=StrictRoute)

    async def rerank(asked: RerankRequest, request: Request) -> Response:
        calls.check_text("query", asked.query)
        calls.check_count("documents", len(asked.documents))
        texts = {"query": asked.query}
        calls.note(request, texts=texts, documents=len(asked.documents))
        return await calls.answer(lambda _: reranked(calls, asked))

    for path, shown in _PATHS.items():
        router.add_api_route(
            path,
            rerank,
            methods=["POST"],
            response_model=RerankAnswer,
            responses=responses(),
            include_in_schema=shown,
            summary="Documents in the order in which they answer a question",
        )
    return router


def reranked(calls: Calls, asked: RerankRequest) -> dict[str, Any]:
    """Documents by the cross-encoder's probability, best first; ties keep their order."""
    scorer = calls.service.models.scorer()
    texts = [each if isinstance(each, str) else each.text for each in asked.documents]
    pairs = scorer.prepare((asked.query, text) for text in texts)
    scores = probabilities(pairs.score_all(), scorer.score_kind)
    order = np.argsort(-scores, kind="stable")[: asked.top_n].tolist()
    return {
        "id": secrets.token_hex(8),
        "object": "list",
        "model": calls.service.models.reranker_name,
        "results": [_result(n, float(scores[n]), texts, asked) for n in order],
        "usage": {"total_tokens": int(pairs.lengths.sum())},
        "meta": {"api_version": {"version": "2"}, "billed_units": {"search_units": 0}},
    }


def probabilities(scores: Any, kind: str) -> Any:
    """Scores as 0 to 1 (n,): a logit through the sigmoid."""
    if kind == "probability":
        return scores
    return 1 / (1 + np.exp(-np.clip(scores.astype(np.float64), -500, 500)))


def _result(n: int, score: float, texts: list[str], asked: RerankRequest) -> dict[str, Any]:
    found: dict[str, Any] = {"index": n, "relevance_score": score}
    if asked.return_documents:
        found["document"] = {"text": texts[n]}
    return found
