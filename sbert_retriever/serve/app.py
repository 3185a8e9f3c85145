"""The application: routes, errors, and the gate before them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Any

from fastapi import FastAPI
from fastapi.middleware.cors import CORSMiddleware

from sbert_retriever.serve.about import NAME, VERSION
from sbert_retriever.serve.calls import Calls
from sbert_retriever.serve.embedding import embedding_routes
from sbert_retriever.serve.faq import faq_routes
from sbert_retriever.serve.gate import OPEN_PATHS, Gate
from sbert_retriever.serve.health import health_routes, watch
from sbert_retriever.serve.logs import log
from sbert_retriever.serve.metrics import Metrics
from sbert_retriever.serve.page import page_routes
from sbert_retriever.serve.problems import answer_errors
from sbert_retriever.serve.reranking import rerank_routes
from sbert_retriever.serve.searching import search_routes
from sbert_retriever.serve.service import Service
from sbert_retriever.serve.settings import ServeSettings
from sbert_retriever.serve.workers import Workers

_ABOUT = (
    "Search by meaning over one collection, an FAQ that knows when it does not know, vectors in "
    "OpenAI's shape, and a cross-encoder in the shape of Jina's and Cohere's clients."
)

_PAUSE_S = 5.0
_ROUTES = (search_routes, faq_routes, rerank_routes, embedding_routes, health_routes, page_routes)


def create_app(service: Service, settings: ServeSettings | None = None) -> FastAPI:
    """An ASGI application over an open service, which it closes when it is shut down.

    Args:
        service: From `open_service`.
        settings: What is allowed.
    """
    settings, metrics = settings or ServeSettings(), Metrics()
    workers = Workers(threads=settings.threads, queue=settings.queue, timeout_s=settings.timeout_s)
    calls = Calls(service, settings, workers, metrics)
    app = FastAPI(
        title=NAME,
        version=VERSION,
        description=_ABOUT,
        docs_url=None,  # the usual ones come from other hosts
        redoc_url=None,
        lifespan=_lifespan(calls),
    )
    for routes in _ROUTES:
        app.include_router(routes(calls))
    watch(calls)
    answer_errors(app)
    _describe_keys(app, settings)
    app.add_middleware(Gate, settings=settings, metrics=metrics)
    if settings.origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(settings.origins),
            allow_methods=["GET", "POST", "PUT", "DELETE"],
            allow_headers=["authorization", "content-type", "x-api-key"],
        )
    return app


def _lifespan(calls: Calls) -> Callable[[FastAPI], AbstractAsyncContextManager[None]]:
    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        stopping = asyncio.Event()
        warming = asyncio.create_task(_warmed_up(calls.service, stopping))
        log("listening", host=calls.settings.host, port=calls.settings.port)
        try:
            yield
        finally:
            stopping.set()
            await asyncio.gather(warming, return_exceptions=True)
            await asyncio.to_thread(calls.close)
            log("stopped")

    return lifespan


async def _warmed_up(service: Service, stopping: asyncio.Event) -> None:
    """Make a service ready, again and again while that fails for what can pass."""
    while await asyncio.to_thread(service.warm_up):
        with suppress(TimeoutError):
            await asyncio.wait_for(stopping.wait(), _PAUSE_S)
        if stopping.is_set():
            return


def _describe_keys(app: FastAPI, settings: ServeSettings) -> None:
    """Say in OpenAPI that a key is wanted, where one is."""
    if not settings.keys:
        return
    made = app.openapi

    def with_keys() -> dict[str, Any]:
        schema = made()
        schemes = schema.setdefault("components", {}).setdefault("securitySchemes", {})
        schemes["key"] = {"type": "http", "scheme": "bearer"}
        schema["security"] = [{"key": []}]
        for path in OPEN_PATHS & schema["paths"].keys():
            for operation in schema["paths"][path].values():
                operation["security"] = []
        return schema

    app.openapi = with_keys  # type: ignore[method-assign]  # FastAPI's documented way
