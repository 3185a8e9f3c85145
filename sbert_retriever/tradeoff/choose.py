"""Pick an operating point by its price or by its accuracy."""

from __future__ import annotations

import math

from sbert_retriever.errors import InputError
from sbert_retriever.tradeoff.report import PointReport, TradeoffReport


def choose(
    report: TradeoffReport, *, budget_ms: float | None = None, min_ndcg: float | None = None
) -> PointReport:
    """The point to work at, among those that a search can be told to take.

    Points slower than the bi-encoder alone count only where they are more accurate than it beyond
    the luck of the queries.

    Args:
        report: What was measured.
        budget_ms: The most accurate point whose 95th percentile is within this; of equal ones,
            the fastest.
        min_ndcg: The fastest point, by the median, with at least this nDCG.

    Raises:
        InputError: Both or neither is given, one is no positive number, or no point fits; with the
            nearest that there is.
    """
    if (budget_ms is None) == (min_ndcg is None):
        raise InputError("say what to choose by: budget_ms or min_ndcg, one of them")
    if budget_ms is not None:
        return _within(report, _positive("budget_ms", budget_ms))
    return _at_least(report, _positive("min_ndcg", min_ndcg))


def _positive(name: str, value: float | None) -> float:
    if value is None or not (math.isfinite(value) and value > 0):
        raise InputError(f"{name} is {value}, expected a number above 0")
    return value


def choosable(report: TradeoffReport) -> list[PointReport]:
    """Points that a search can take, that were measured, and that are worth their time."""
    baseline = report.points[0]
    return [
        p
        for p in report.points
        if settable(p) and (p.p50_ms <= baseline.p50_ms or p.gain is None or p.gain.low > 0)
    ]


def settable(report: PointReport) -> bool:
    """Whether a search can be told to take a point: the others are there to compare with."""
    point = report.point
    return not (point.profile.truncate_dim or point.everything)


def _within(report: TradeoffReport, budget_ms: float) -> PointReport:
    measure = report.measures[0]
    fitting = [p for p in choosable(report) if p.p95_ms <= budget_ms]
    if not fitting:
        fastest = min(choosable(report), key=lambda p: p.p95_ms)
        raise InputError(
            f"no point answers within {budget_ms:g} ms: the fastest, {fastest.point.name!r}, takes "
            f"{fastest.p95_ms:.1f} ms (95th percentile)"
        )
    return max(fitting, key=lambda p: (p.accuracy[measure], -p.p50_ms))


def _at_least(report: TradeoffReport, least: float) -> PointReport:
    measure = report.measures[0]
    fitting = [p for p in choosable(report) if p.accuracy[measure] >= least]
    if not fitting:
        best = max(choosable(report), key=lambda p: p.accuracy[measure])
        raise InputError(
            f"no point reaches {measure} {least:g}: the best that a search can be told to take, "
            f"{best.point.name!r}, has {best.accuracy[measure]:.4f}"
        )
    return min(fitting, key=lambda p: p.p50_ms)
