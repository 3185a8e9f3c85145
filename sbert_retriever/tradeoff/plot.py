"""Accuracy against latency, as a picture: the time axis is logarithmic, the front is drawn."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sbert_retriever.errors import MissingExtraError
from sbert_retriever.tradeoff.efficiency import duration
from sbert_retriever.tradeoff.report import PointReport, TradeoffReport

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.transforms import Bbox

SUFFIXES = (".png", ".svg")
_LOOKS = {
    "bi-encoder": ("o", "#1b6ca8"),
    "fewer dimensions": ("s", "#7a5195"),
    "words, or both": ("P", "#b8860b"),
    "late interaction": ("^", "#2a9d62"),
    "cross-encoder": ("D", "#d1495b"),
    "cross-encoder, fused": ("v", "#e07b39"),
    "both, cross-encoder": ("X", "#8e44ad"),
}
_FRONT = "#888888"
# Points from which on their names need a larger picture.
_MANY = 25
# Where a label may go, in points from its mark, the best places first.
_PLACES = [
    (direction[0] * distance, direction[1] * distance)
    for distance in (7, 16, 28, 42, 58, 76, 100, 130, 165, 205)
    for direction in ((1, 0.9), (1, -1.1), (-1, 0.9), (-1, -1.1), (0, 1.4), (0, -1.6))
]


def write_plots(report: TradeoffReport, stem: str | PathLike[str]) -> list[Path]:
    """Draw a report into <stem>.png and <stem>.svg.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    figure = draw(report)
    paths = [Path(f"{stem}{suffix}") for suffix in SUFFIXES]
    for path in paths:
        # No date, so that the same figures give the same file.
        dated = {"Date": None} if path.suffix == ".svg" else {}
        figure.savefig(path, dpi=150, metadata=dated)
    return paths


def draw(report: TradeoffReport) -> Figure:
    """A figure of its own, which touches no global state of matplotlib.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    shown = [point for point in report.points if point.accuracy]
    figure = _new_figure(crowded=len(shown) > _MANY)
    axes = figure.add_subplot()
    measure = report.measures[0]
    _draw_front(axes, report.front, measure)
    _draw_marks(axes, shown, measure)
    _dress(axes, report, measure)
    _draw_extrapolated(axes, report.points)
    figure.legend(handles=_legend(shown), loc="outside lower center", ncols=6, fontsize=8)
    _label(figure, axes, shown, measure)
    return figure


def _new_figure(*, crowded: bool) -> Figure:
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError("matplotlib", extra="eval", purpose="draw the trade-off") from error
    figure = Figure(figsize=(14, 9.5) if crowded else (10, 6.2), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def _kind(report: PointReport) -> str:
    point = report.point
    if point.rerank and point.mode == "hybrid":
        return "both, cross-encoder"
    if point.rerank:
        return "cross-encoder, fused" if point.fused else "cross-encoder"
    if point.late:
        return "late interaction"
    if point.mode != "dense":
        return "words, or both"
    return "fewer dimensions" if point.profile.truncate_dim else "bi-encoder"


def _draw_front(axes: Axes, front: Sequence[PointReport], measure: str) -> None:
    axes.step(
        [p.p50_ms for p in front],
        [p.accuracy[measure] for p in front],
        where="post",
        color=_FRONT,
        linewidth=1.2,
        zorder=1,
    )


def _draw_marks(axes: Axes, points: Iterable[PointReport], measure: str) -> None:
    """Filled marks; hollow ones where the difference from the bi-encoder may be luck."""
    for point in points:
        marker, colour = _LOOKS[_kind(point)]
        sure = point.gain is None or point.gain.clear
        axes.plot(
            point.p50_ms,
            point.accuracy[measure],
            marker=marker,
            color=colour,
            markerfacecolor=colour if sure else "white",
            markersize=7,
            linestyle="none",
            zorder=3,
        )


def _legend(points: Iterable[PointReport]) -> list[Line2D]:
    """One entry a kind of point, and the front."""
    from matplotlib.lines import Line2D

    kinds = {_kind(point) for point in points}
    marks = [
        Line2D([], [], marker=marker, color=colour, linestyle="none", label=kind)
        for kind, (marker, colour) in _LOOKS.items()
        if kind in kinds
    ]
    return [*marks, Line2D([], [], color=_FRONT, linewidth=1.2, label="Pareto front")]


def _draw_extrapolated(axes: Axes, points: Iterable[PointReport]) -> None:
    """A line at the time of what nobody waited for."""
    for point in points:
        if point.extrapolated:
            axes.axvline(point.p50_ms, color=_FRONT, linestyle=":", linewidth=1.2)
            axes.text(
                point.p50_ms,
                0.98,
                f"{point.point.name}: {duration(point.p50_ms / 1e3)}, extrapolated ",
                transform=axes.get_xaxis_transform(),
                rotation=90,
                ha="right",
                va="top",
                fontsize=8,
                color="#555555",
            )


def _dress(axes: Axes, report: TradeoffReport, measure: str) -> None:
    setting = report.setting
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(lambda value, _: _tick(value))
    axes.margins(x=0.12, y=0.12)
    axes.grid(visible=True, which="major", color="#e5e5e5", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.set_xlabel(f"median time of a query ({report.timed} queries asked one by one)")
    against = {"qrels": "", "rerank": ", the deepest rerank as truth", "exact": ", exact as truth"}
    axes.set_ylabel(f"{measure}{against[setting.truth]} ({report.queries} queries)")
    axes.set_title(
        f"{setting.passages:,} passages; {setting.machine}\nhollow: the difference from the "
        "bi-encoder alone may be the luck of the queries",
        fontsize=9,
    )


def _tick(ms: float) -> str:
    """A power of ten milliseconds.

    Examples:
        >>> _tick(0.1), _tick(100.0), _tick(1000.0), _tick(1e5)
        ('0.1 ms', '100 ms', '1 s', '100 s')
    """
    return f"{ms:g} ms" if ms < 1000 else f"{ms / 1000:,.0f} s"


# Labels -------------------------------------------------------------------------------------


def _label(figure: Figure, axes: Axes, points: Sequence[PointReport], measure: str) -> None:
    """Name each point, at the first place where the name covers nothing."""
    figure.draw_without_rendering()
    # The canvas is Agg's, which has a renderer; the type of a figure does not know.
    renderer: Any = figure.canvas.get_renderer()  # type: ignore[attr-defined]  # see above
    taken = [_mark_box(axes, point, measure) for point in points]
    inside = axes.get_window_extent(renderer)
    for point in sorted(points, key=lambda p: -p.accuracy[measure]):
        tried: list[tuple[float, int, Any, Bbox]] = []
        for x, y in _PLACES:
            text = _annotated(axes, point, measure, x, y)
            box = text.get_window_extent(renderer)
            covered = sum(_overlap(box, other) for other in taken) + _outside(box, inside)
            tried.append((covered, len(tried), text, box))
            if not covered:
                break
        _, best, _, box = min(tried, key=lambda entry: entry[:2])
        taken.append(box)
        for _, number, text, _ in tried:
            if number != best:
                text.remove()


def _annotated(axes: Axes, point: PointReport, measure: str, x: float, y: float) -> Any:
    far = abs(x) > 10 or abs(y) > 14
    return axes.annotate(
        point.point.name,
        (point.p50_ms, point.accuracy[measure]),
        xytext=(x, y),
        textcoords="offset points",
        ha="left" if x > 0 else "right" if x < 0 else "center",
        va="center",
        fontsize=8,
        zorder=4,
        arrowprops={"arrowstyle": "-", "color": "#bbbbbb", "linewidth": 0.6} if far else None,
    )


def _mark_box(axes: Axes, point: PointReport, measure: str) -> Bbox:
    from matplotlib.transforms import Bbox

    x, y = axes.transData.transform((point.p50_ms, point.accuracy[measure]))
    return Bbox.from_extents(x - 6, y - 6, x + 6, y + 6)


def _overlap(one: Bbox, other: Bbox) -> float:
    """The area that two boxes share, in square pixels."""
    width = min(one.x1, other.x1) - max(one.x0, other.x0)
    height = min(one.y1, other.y1) - max(one.y0, other.y0)
    return float(max(width, 0.0) * max(height, 0.0))


def _outside(box: Bbox, frame: Bbox) -> float:
    """The area of a box that lies outside a frame."""
    return float(box.width * box.height) - _overlap(box, frame)
