"""POST /faq/calibrate and GET /faq/gaps: what users said and asked in vain, put to use.

The service holds the folder, so that the command line cannot do it meanwhile.
"""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Query, Response

from sbert_retriever.serve.calls import Calls
from sbert_retriever.serve.faq_schemas import FaqCalibrated, FaqCalibration, FaqGaps
from sbert_retriever.serve.problems import responses

_CURVE_POINTS = 20


def learning_routes(router: APIRouter, calls: Calls) -> None:
    """Add the routes to those of the FAQ: one at a time looks all its questions up."""
    learning = asyncio.Lock()

    # A body is wanted, if an empty object: what has none could be sent from any web page.
    @router.post(
        "/calibrate",
        response_model=FaqCalibrated,
        responses=responses(404),
        summary="Learn from the feedback that was kept when to answer",
    )
    async def calibrate(asked: FaqCalibration) -> Response:
        return await calls.answer(lambda _: _calibrated(calls, asked), turn=learning)

    @router.get(
        "/gaps",
        response_model=FaqGaps,
        responses=responses(404, body=False),
        summary="What was asked in vain: which entries to write next",
    )
    async def gaps(
        threshold: Annotated[float | None, Query(ge=-1, le=1)] = None,
        min_size: Annotated[int, Query(ge=1, le=1_000_000)] = 2,
        limit: Annotated[int, Query(ge=1, le=1000)] = 20,
    ) -> Response:
        return await calls.answer(lambda _: _gaps(calls, threshold, min_size, limit), turn=learning)


def _calibrated(calls: Calls, asked: FaqCalibration) -> dict[str, Any]:
    report = calls.service.asked().calibrate(
        target_precision=asked.target_precision, save=not asked.dry_run
    )
    learned = report.calibration
    names = ("questions", "in_scope", "exact", "unclear", "scope_unknown", "accuracy")
    return {
        "kept": not asked.dry_run,
        **{name: getattr(report, name) for name in names},
        "answer_at": learned.answer_at,
        "precision": learned.precision,
        "coverage": learned.coverage,
        "calibration_error": report.calibration_error,
        "auroc": dict(report.auroc),
        "curve": [asdict(point) for point in report.thinned(_CURVE_POINTS)],
    }


def _gaps(calls: Calls, threshold: float | None, min_size: int, limit: int) -> dict[str, Any]:
    found = calls.service.asked().gaps(threshold=threshold, min_size=min_size)
    return {"gaps": [asdict(gap) for gap in found[:limit]], "count": len(found)}
