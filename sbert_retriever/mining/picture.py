"""Clusters as a picture: each passage a dot where the principal components put it."""

from __future__ import annotations

import os
import warnings
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sbert_retriever.counting import counted
from sbert_retriever.errors import InputError, MissingExtraError
from sbert_retriever.mining.clusters import Clusters

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SUFFIXES = (".png", ".svg")
_NAMED = 10
_TITLE_LENGTH = 60
_COLOURS = (
    *("#1b6ca8", "#d1495b", "#2a9d62", "#e0a039", "#7a5195"),
    *("#3fb0ac", "#a0522d", "#e36bae", "#6b8e23", "#4b4b9f"),
)
_OTHERS, _NOBODY = "#9aa5b1", "#dddddd"


def check_picture(path: str | PathLike[str]) -> Path:
    """A path that a picture can be written to, looked at before there is one.

    Raises:
        InputError: Its name ends in neither .png nor .svg, or no file can be written there.
        MissingExtraError: matplotlib is not installed.
    """
    target = Path(path)
    if target.suffix.lower() not in SUFFIXES:
        raise InputError(f"{target} ends in {target.suffix!r}, expected {' or '.join(SUFFIXES)}")
    if not target.parent.is_dir():
        raise InputError(f"{target.parent} is no folder: make it first")
    if target.is_dir() or not os.access(target.parent, os.W_OK):
        raise InputError(f"{target} cannot be written: name a file in a folder of your own")
    _new_figure()
    return target


def write_picture(clusters: Clusters, path: str | PathLike[str]) -> Path:
    """Draw clusters into a .png or .svg file.

    Raises:
        InputError: As `check_picture`.
        MissingExtraError: matplotlib is not installed.
    """
    target = check_picture(path)
    figure = draw(clusters)
    # No date, so that the same clusters give the same file.
    dated = {"Date": None} if target.suffix.lower() == ".svg" else {}
    with warnings.catch_warnings():
        # A letter that the font lacks is drawn as a box.
        warnings.filterwarnings("ignore", "Glyph .* missing from", UserWarning)
        # Under another name first: what stops half-way leaves an older picture as it was.
        part = target.with_name(f".{target.stem}.part{target.suffix}")
        figure.savefig(part, dpi=150, metadata=dated)
        part.replace(target)
    return target


def draw(clusters: Clusters) -> Figure:
    """A figure of its own, which touches no global state of matplotlib.

    The ten largest clusters have a colour, a number and the beginning of their central passage;
    the others are grey, and passages in no cluster light grey.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    figure = _new_figure()
    axes = figure.add_subplot()
    named = min(_NAMED, len(clusters.clusters))
    others = clusters.labels >= named
    more = len(clusters.clusters) - named
    _dots(axes, clusters, clusters.labels < 0, _NOBODY, f"{clusters.unassigned:,} in no cluster")
    _dots(axes, clusters, others, _OTHERS, f"{others.sum():,} in {more:,} smaller clusters")
    for number in range(named):
        of_it = clusters.labels == number
        cluster = clusters.clusters[number]
        label = f"{number + 1}. {_title(cluster.central.text)} ({cluster.size:,})"
        _dots(axes, clusters, of_it, _COLOURS[number], label)
    for number in range(named):
        _number(axes, clusters, number)
    _dress(figure, axes, clusters)
    return figure


def _new_figure() -> Figure:
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError("matplotlib", extra="eval", purpose="draw pictures") from error
    figure = Figure(figsize=(10, 8), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def _dots(axes: Axes, clusters: Clusters, chosen: Any, colour: str, label: str) -> None:
    if not chosen.any():
        return
    x, y = clusters.positions[chosen].T
    # As an image even in svg: a hundred thousand dots are no file to open.
    dots = axes.scatter(x, y, s=9, color=colour, linewidths=0, alpha=0.75, rasterized=True)
    dots.set_label(label)


def _number(axes: Axes, clusters: Clusters, number: int) -> None:
    """A cluster's number in its middle."""
    x, y = np.median(clusters.positions[clusters.labels == number], axis=0)
    axes.text(
        float(x),
        float(y),
        str(number + 1),
        ha="center",
        va="center",
        fontsize=9,
        fontweight="bold",
        color="white",
        bbox={"boxstyle": "circle,pad=0.2", "facecolor": _COLOURS[number], "edgecolor": "white"},
    )


def _dress(figure: Figure, axes: Axes, clusters: Clusters) -> None:
    axes.set_aspect("equal", adjustable="datalim")
    axes.set_xticks([])
    axes.set_yticks([])
    axes.set_title(
        f"{counted(len(clusters.ids), 'passage')}, {counted(len(clusters.clusters), 'cluster')} "
        f"({clusters.method})\n"
        f"the two axes keep {clusters.shown:.0%} of the variance: what is near here may be far "
        "apart",
        fontsize=9,
    )
    handles, labels = axes.get_legend_handles_labels()
    if not handles:
        return
    grey = len(handles) - min(_NAMED, len(clusters.clusters))
    order = [*range(grey, len(handles)), *range(grey)]
    legend = figure.legend(
        [handles[n] for n in order],
        [labels[n] for n in order],
        loc="outside lower center",
        ncols=2,
        fontsize=8,
        markerscale=2,
    )
    for text in legend.get_texts():
        text.set_parse_math(False)


def _title(text: str) -> str:
    r"""The beginning of a text, on one line.

    Examples:
        >>> _title("The price\nof tea")
        'The price of tea'
    """
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return line if len(line) <= _TITLE_LENGTH else f"{line[: _TITLE_LENGTH - 1]}…"
