"""Pictures: models side by side, and how a model learnt."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from sbert_retriever.errors import InputError, MissingExtraError, ReadError
from sbert_retriever.evaluation.lines import place_of
from sbert_retriever.evaluation.read_ranking import json_lines
from sbert_retriever.evaluation.results import TaskResult, shown

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

History: TypeAlias = Sequence[Mapping[str, Any]]
"""Entries of a training log, each with a "step" and some figures."""

SUFFIXES = (".png", ".svg", ".pdf")
LOG_FILE = "training.jsonl"
STATE_FILE = "trainer_state.json"
_COLOURS = ("#1b6ca8", "#d1495b", "#2a9d62", "#7a5195", "#e07b39")
_NOT_FIGURES = ("_runtime", "_per_second", "epoch", "step", "loss", "learning_rate", "grad_norm")


def check_drawing(path: str | PathLike[str] | None) -> None:
    """Refuse a picture before the work for it is done.

    Raises:
        InputError: Its suffix is unknown.
        MissingExtraError: matplotlib is not installed.
    """
    if path is None:
        return
    if Path(path).suffix.lower() not in SUFFIXES:
        raise InputError(f"a picture is named {path}, expected it to end in {', '.join(SUFFIXES)}")
    _new_figure(1)


def write_comparison(results: Sequence[TaskResult], path: str | PathLike[str]) -> None:
    """Draw the headline of each set, a bar a model.

    Args:
        results: Of one task.
        path: Ends in .png, .svg or .pdf.

    Raises:
        InputError: The suffix is unknown, or the results are of other sets.
        MissingExtraError: matplotlib is not installed.
    """
    check_drawing(path)
    _save(draw_comparison(results), path)


def draw_comparison(results: Sequence[TaskResult]) -> Figure:
    """The figure that `write_comparison` writes.

    Raises:
        InputError: There are no results, or they are of other sets.
        MissingExtraError: matplotlib is not installed.
    """
    names = [[one.name for one in result.sets] for result in results]
    if not results or any(other != names[0] for other in names):
        raise InputError(f"results of different sets cannot stand side by side: {names}")
    figure = _new_figure(len(names[0]) * len(results))
    axes = figure.add_subplot()
    width = 0.8 / len(results)
    for number, result in enumerate(results):
        heights = [one.figures[one.headline] for one in result.sets]
        left = np.arange(len(heights)) + (number - (len(results) - 1) / 2) * width
        colour = _COLOURS[number % len(_COLOURS)]
        bars = axes.bar(left, heights, width, color=colour, label=result.model)
        axes.bar_label(bars, [shown(height) for height in heights], fontsize=7, padding=2)
    axes.set_xticks(np.arange(len(names[0])), names[0])
    axes.set_ylabel(" / ".join(dict.fromkeys(o.headline for r in results for o in r.sets)))
    _dress(axes, title=results[0].task)
    return figure


def read_history(folder: str | PathLike[str]) -> list[dict[str, Any]]:
    """The log of a training run: that of this project, or of transformers' Trainer.

    The steps of a run in several parts are counted on from one to the next.

    Args:
        folder: What a run wrote, or one that has checkpoints in it.

    Raises:
        ReadError: There is no log, or it cannot be read.
    """
    place = Path(folder)
    if (place / LOG_FILE).is_file():
        return _counted_on(place / LOG_FILE)
    states = [*place.glob(STATE_FILE), *place.glob(f"checkpoint-*/{STATE_FILE}")]
    if not states:
        raise ReadError(
            f"{place} has no {LOG_FILE} and no {STATE_FILE}: give the folder of a training run"
        )
    try:
        found = [json.loads(path.read_text(encoding="utf-8")) for path in states]
        return list(max(found, key=lambda state: state["global_step"])["log_history"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ReadError(f"{states[0]} cannot be read as a training log: {error!r}") from error


def _counted_on(path: Path) -> list[dict[str, Any]]:
    """Entries of (step's name, update), their updates counted from the start of the run."""
    found: list[dict[str, Any]] = []
    done, last, part = 0, 0, None
    for number, entry in json_lines(path):
        if not isinstance(entry.get("update"), int):
            raise ReadError(f"{place_of(path, number)}: no 'update' that is a whole number")
        if entry.get("step") != part:
            done, part = done + last, entry.get("step")
        last = entry["update"]
        found.append({**entry, "step": done + last, "part": part})
    return found


def write_learning_curve(
    histories: Mapping[str, History], path: str | PathLike[str], *, figure: str | None = None
) -> None:
    """Draw the loss of each run over its steps, and a figure of its evaluations where there is one.

    Args:
        histories: {name of a run: its log}.
        path: Ends in .png, .svg or .pdf.
        figure: Such as "eval_spearman_cosine"; None takes the first that the logs have.

    Raises:
        InputError: The suffix is unknown, or no log has a loss.
        MissingExtraError: matplotlib is not installed.
    """
    check_drawing(path)
    _save(draw_learning_curve(histories, figure=figure), path)


def draw_learning_curve(histories: Mapping[str, History], *, figure: str | None = None) -> Figure:
    """The figure that `write_learning_curve` writes.

    Raises:
        InputError: No log has a loss.
        MissingExtraError: matplotlib is not installed.
    """
    losses = {name: points(log, "loss") for name, log in histories.items()}
    if not any(losses.values()):
        raise InputError(f"none of the {len(histories)} logs has a loss: nothing to draw")
    wanted = figure or _first_figure(histories)
    drawn = _new_figure(8)
    axes = drawn.subplots(1, 2 if wanted else 1, squeeze=False)[0]
    _lines(axes[0], losses, marker="")
    _dress(axes[0], title="loss")
    if wanted:
        _lines(axes[1], {name: points(log, wanted) for name, log in histories.items()}, marker="o")
        _dress(axes[1], title=wanted.removeprefix("eval_"))
    for each in axes:
        each.set_xlabel("step")
    return drawn


def points(history: History, name: str) -> list[tuple[int, float]]:
    """(step, value) of every entry that has a figure.

    Examples:
        >>> points([{"step": 10, "loss": 2.0}, {"step": 10, "eval_x": 1.0}], "loss")
        [(10, 2.0)]
    """
    return [(int(entry["step"]), float(entry[name])) for entry in history if name in entry]


def _first_figure(histories: Mapping[str, History]) -> str | None:
    names = (name for log in histories.values() for entry in log for name in entry)
    return next((n for n in names if n.startswith("eval_") and not n.endswith(_NOT_FIGURES)), None)


def _lines(axes: Axes, runs: Mapping[str, list[tuple[int, float]]], *, marker: str) -> None:
    for number, (name, values) in enumerate(runs.items()):
        if values:
            steps, heights = zip(*values, strict=True)
            colour = _COLOURS[number % len(_COLOURS)]
            axes.plot(steps, heights, color=colour, marker=marker, markersize=4, label=name)


def _dress(axes: Axes, *, title: str) -> None:
    axes.set_title(title, fontsize=10)
    axes.grid(visible=True, axis="y", color="#e5e5e5", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.margins(y=0.15)
    axes.legend(fontsize=8)


def _new_figure(bars: int) -> Figure:
    """A figure of its own, which touches no global state of matplotlib."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError("matplotlib", extra="eval", purpose="draw figures") from error
    figure = Figure(figsize=(min(16, max(6, 0.8 * bars)), 4.5), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def _save(figure: Figure, path: str | PathLike[str]) -> None:
    place = Path(path)
    place.parent.mkdir(parents=True, exist_ok=True)
    # No date, so that the same figures give the same file.
    undated = {".svg": "Date", ".pdf": "CreationDate"}.get(place.suffix.lower())
    figure.savefig(place, dpi=150, metadata={undated: None} if undated else {})
