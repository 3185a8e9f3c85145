"""Figures as text: the columns of the table and of the CSV file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sbert_retriever.evaluation.bootstrap import PairedDifference
from sbert_retriever.tradeoff.records import STAGES

if TYPE_CHECKING:
    from sbert_retriever.tradeoff.report import PointReport

TIME_HEADS = [f"{stage} ms" for stage in STAGES]


def row(point: PointReport, measures: tuple[str, ...]) -> dict[str, Any]:
    """Every figure of a point, flat."""
    gain = point.gain
    flat: dict[str, Any] = {"point": point.point.name, "on_front": point.on_front}
    flat |= {name: point.accuracy.get(name) for name in measures}
    flat |= {
        "gain": gain.mean if gain else None,
        "gain_low": gain.low if gain else None,
        "gain_high": gain.high if gain else None,
        "gain_p": gain.p if gain else None,
    }
    for stage in STAGES:
        flat[f"{stage}_p50_ms"], flat[f"{stage}_p95_ms"] = point.latency_ms[stage]
    flat |= {
        "pairs": point.pairs,
        "queries_per_s": point.per_second,
        "memory_mb": point.memory_mb,
        "vectors_mb": point.vectors_mb,
        "extrapolated": point.extrapolated,
    }
    return flat


def cells(point: PointReport, measures: tuple[str, ...]) -> list[str]:
    """A point's line of the table."""
    mark = "~" if point.extrapolated else ""
    return [
        "*" if point.on_front else "",
        point.point.name,
        *(f"{point.accuracy[m]:.4f}" if point.accuracy else "?" for m in measures),
        _gain_cell(point.gain),
        *(_time_cell(point.latency_ms[stage], mark) for stage in STAGES),
        f"{mark}{point.pairs:,.0f}" if point.pairs else "",
        mark + _short(point.per_second),
        f"{point.memory_mb:,.0f}" if point.memory_mb is not None else "",
    ]


def _gain_cell(gain: PairedDifference | None) -> str:
    if gain is None:
        return ""
    text = f"{gain.mean:+.3f} [{gain.low:+.3f} {gain.high:+.3f}]"
    return text if gain.clear else f"({text})"


def _time_cell(times: tuple[float, float], mark: str) -> str:
    if times == (0.0, 0.0):
        return ""
    return f"{mark}{_short(times[0])} / {_short(times[1])}"


def _short(value: float) -> str:
    """A number with three figures.

    Examples:
        >>> _short(0.0123), _short(4.567), _short(123.4), _short(45678.9)
        ('0.012', '4.57', '123', '45,679')
    """
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}" if value >= 1 else f"{value:.3f}"


def aligned(rows: list[list[str]]) -> list[str]:
    """Rows as lines: the first two columns to the left, figures to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(_padded(row, widths)).rstrip() for row in rows]


def _padded(row: list[str], widths: list[int]) -> list[str]:
    left = 2
    return [
        f"{cell:<{width}}" if column < left else f"{cell:>{width}}"
        for column, (cell, width) in enumerate(zip(row, widths, strict=True))
    ]
