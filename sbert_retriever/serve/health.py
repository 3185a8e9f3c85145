"""GET /healthz, /readyz, /metrics: for the machines that watch the service."""

from __future__ import annotations

from fastapi import APIRouter, Response
from fastapi.responses import JSONResponse, PlainTextResponse

from sbert_retriever.serve import metrics as metrics_format
from sbert_retriever.serve.calls import Calls, StrictRoute
from sbert_retriever.serve.problems import responses
from sbert_retriever.serve.schemas import Health, Readiness


def health_routes(calls: Calls) -> APIRouter:
    """What is asked by machines."""
    router = APIRouter(tags=["operation"], route_class=StrictRoute)

    @router.get("/healthz", response_model=Health, summary="Whether the process answers")
    async def healthz() -> Response:
        return JSONResponse({"status": "ok"})

    @router.get(
        "/readyz",
        response_model=Readiness,
        responses={503: {"model": Readiness, "description": "Not yet, or no longer."}},
        summary="Whether questions are answered without delay",
    )
    async def readyz() -> Response:
        service = calls.service
        if service.failure is not None:
            return JSONResponse({"status": "failed", "reason": service.failure}, 503)
        if not service.ready:
            return JSONResponse({"status": "starting", "reason": "models are loading"}, 503)
        return JSONResponse({"status": "ready", "reason": None})

    @router.get(
        "/metrics",
        response_class=PlainTextResponse,
        responses=responses(body=False),
        summary="Counters in Prometheus' text format",
    )
    async def metrics() -> Response:
        return Response(calls.metrics.rendered(), media_type=metrics_format.CONTENT_TYPE)

    return router


def watch(calls: Calls) -> None:
    """Have the numbers of the parts read at each scrape."""
    workers, encoder = calls.workers, calls.service.models.encoder
    add = calls.metrics.watch
    add("under_way", "gauge", "Requests that are worked on or wait.", lambda: workers.under_way)
    add("waiting", "gauge", "Requests that wait for a thread.", lambda: workers.waiting)
    add("refused_total", "counter", "Requests refused with 429.", lambda: workers.refused)
    add("batches_total", "counter", "Batches encoded.", lambda: encoder.counts.batches)
    add("batch_texts_total", "counter", "Texts encoded.", lambda: encoder.counts.items)
    add("batch_shares_total", "counter", "Callers' shares in them.", lambda: encoder.counts.shares)
    add("ready", "gauge", "1 when models are loaded.", lambda: float(calls.service.ready))
