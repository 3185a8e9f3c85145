"""`sbert-retriever train`: a configuration in, a model's folder out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sbert_retriever.cli import options
from sbert_retriever.cli.output import put, put_json, resumable, say
from sbert_retriever.counting import counted

if TYPE_CHECKING:
    from sbert_retriever.training import DevReport, StepReport, TrainReport
    from sbert_retriever.training.loop import OnLog


def train(
    config: Annotated[
        str, typer.Argument(metavar="CONFIG", help="A TOML file: model, steps, data.")
    ],
    output: Annotated[
        str,
        typer.Option(
            "--output",
            metavar="DIR",
            help="A new folder for the model, its checkpoints and its log.",
            show_default=False,
        ),
    ],
    data: Annotated[
        str | None,
        typer.Option(
            "--data",
            metavar="DIR",
            help="Where relative paths of data start. Without it, the folder of CONFIG.",
            show_default=False,
        ),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with a run that was stopped.")
    ] = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Train a bi-encoder, two encoders or a cross-encoder, in one step or several."""
    from sbert_retriever.training import Trainer
    from sbert_retriever.training.progress import is_first_process

    first = is_first_process()
    trainer = Trainer(config, output, data=data)
    if first and not quiet:
        _say_steps(trainer.counts)
    with resumable("add --resume to the same command to go on from the last checkpoint"):
        report = trainer.train(resume=resume, on_log=None if quiet else _progress())
    if first:
        _print_report(report, as_json=json)


def _say_steps(counts: Mapping[str, int]) -> None:
    for name, count in counts.items():
        say(f"step {name}: {counted(count, 'example')}")


def _progress() -> OnLog:
    from sbert_retriever.evaluation.results import shown

    begun = monotonic()

    def show(entry: Mapping[str, Any]) -> None:
        measured = [name for name in entry if name.startswith("eval_")]
        figures = [f"{name.removeprefix('eval_')} {shown(entry[name])}" for name in measured]
        if "loss" in entry:
            figures.append(f"loss {entry['loss']:.4f}")
        say(
            f"step {entry['step']}: update {entry['update']:,} of {entry['updates']:,}, "
            f"{', '.join(figures)}, {monotonic() - begun:,.0f} s"
        )

    return show


def _print_report(report: TrainReport, *, as_json: bool) -> None:
    if as_json:
        put_json(asdict(report))
        return
    for step in report.steps:
        put(_line(step))
        if step.dev is not None:
            put(_dev_lines(step.name, step.dev))
    put(f"the model is in {report.folder}")


def _line(step: StepReport) -> str:
    return (
        f"step {step.name}: {counted(step.updates, 'update')} on "
        f"{counted(step.examples, 'example')} in "
        f"{step.seconds:,.0f} s, loss {step.first_loss:.4f} to {step.last_loss:.4f}"
    )


def _dev_lines(step: str, dev: DevReport) -> str:
    """The curve, a value a line, and which model was kept."""
    from sbert_retriever.evaluation.results import aligned, shown

    rows = [["update", dev.figure], *([f"{n:,}", shown(value)] for n, value in dev.curve)]
    update, value = dev.best
    kept = "it" if dev.kept or update == dev.curve[-1][0] else "the last one (see keep_best)"
    best = f"step {step}: the best is update {update:,} with {shown(value)}, and {kept} was kept"
    return f"{aligned(rows)}\n{best}"
