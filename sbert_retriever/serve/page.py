"""The page at /, its files, and what it asks for beside search and FAQ."""

from __future__ import annotations

import asyncio
import hashlib
from importlib.resources import files
from typing import Any

from fastapi import APIRouter, Request, Response

from sbert_retriever.serve.about import VERSION
from sbert_retriever.serve.calls import Calls, StrictRoute
from sbert_retriever.serve.problems import problem, responses
from sbert_retriever.serve.schemas import (
    EfficiencyAnswer,
    PageFacts,
    PoolingAnswer,
    PoolingRequest,
)

_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
# Nothing but the package's own files runs, whatever stands in a document.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


def page_routes(calls: Calls) -> APIRouter:
    """The page and what it asks for."""
    router = APIRouter(route_class=StrictRoute)
    held = {
        each.name: each.read_bytes()
        for each in files("sbert_retriever.serve").joinpath("static").iterdir()
        if "." + each.name.rpartition(".")[2] in _TYPES
    }

    measuring = asyncio.Lock()  # who waits for another's measurement takes no thread

    @router.get("/", include_in_schema=False)
    async def page(request: Request) -> Response:
        return _file("index.html", held, request)

    @router.get("/static/{name}", include_in_schema=False)
    async def static(name: str, request: Request) -> Response:
        return _file(name, held, request)

    @router.get(
        "/page/facts",
        response_model=PageFacts,
        responses=responses(body=False),
        tags=["page"],
        summary="What is served",
    )
    async def facts() -> Response:
        return await calls.answer(lambda _: page_facts(calls))

    @router.get(
        "/paper/efficiency",
        response_model=EfficiencyAnswer,
        responses=responses(400, body=False),
        tags=["page"],
        summary="The paper's headline, measured on this machine at the first call",
    )
    async def efficiency() -> Response:
        return await calls.answer(lambda _: calls.service.paper.efficiency(), turn=measuring)

    @router.post(
        "/paper/pooling",
        response_model=PoolingAnswer,
        responses=responses(),
        tags=["page"],
        summary="Sentences compared by mean, max and CLS pooling",
    )
    async def pooling(asked: PoolingRequest) -> Response:
        return await calls.answer(lambda _: calls.service.paper.pooling(asked.sentences))

    return router


def page_facts(calls: Calls) -> dict[str, Any]:
    """What is served."""
    service, info = calls.service, calls.service.info()
    identity = service.models.encoder.identity
    return {
        "collection": None if info is None else info.collection_name,
        "passages": None if info is None else info.count,
        "model": identity.name,
        "score_kind": None if info is None else info.score_kind,
        "hybrid": info is not None and info.sparse is not None,
        "reranker": service.models.reranker_name,
        "faq_entries": None if service.faq is None else service.faq.count(),
        "faq_feedback": service.faq is not None and service.faq.log_path is not None,
        "efficiency_known": service.paper.report is not None,
        "version": VERSION,
    }


def _file(name: str, held: dict[str, bytes], request: Request) -> Response:
    if name not in held:
        return problem(404, "there is nothing at this path")
    tag = f'"{hashlib.sha256(held[name]).hexdigest()[:16]}"'
    headers = {"content-security-policy": _POLICY, "etag": tag, "cache-control": "no-cache"}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    kind = _TYPES["." + name.rpartition(".")[2]]
    return Response(held[name], headers=headers, media_type=kind)
