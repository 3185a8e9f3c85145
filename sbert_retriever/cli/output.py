"""Printing: results to stdout, everything else to stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from time import monotonic
from typing import Any

import typer

from sbert_retriever.errors import InterruptedRunError
from sbert_retriever.types import Failure, IndexReport

_PLAIN_LINE_EVERY_S = 5.0
_FAILURES_SHOWN = 20
_PRUNED_SHOWN = 10

OnProgress = Callable[[IndexReport], None]


def say(message: str) -> None:
    """One line on stderr, whatever the message holds."""
    print(f"sbert-retriever: {one_line(message)}", file=sys.stderr)  # noqa: T201  # the printer


def put(text: str = "") -> None:
    """A line of the result."""
    print(text)  # noqa: T201  # the printer


def put_json(value: Any, *, indent: int | None = 2) -> None:
    """A result as JSON; in plain ASCII where stdout could not take more."""
    encoding = (getattr(sys.stdout, "encoding", None) or "").lower().replace("-", "")
    put(json.dumps(value, ensure_ascii=encoding != "utf8", indent=indent))


def put_table(rows: Mapping[str, object]) -> None:
    """Names and values, one a line, the values under each other."""
    width = max(map(len, rows), default=0)
    for name, value in rows.items():
        put(f"{name:<{width}}  {printable(str(value))}")


def one_line(text: str) -> str:
    """The text without line breaks and control characters."""
    return printable(" ".join(text.split()))


def printable(text: str) -> str:
    r"""The text with control characters shown, so that no document steers the terminal.

    Examples:
        >>> printable("a\x1b[31mb") == "a\ufffd[31mb"
        True
    """
    return "".join(c if c.isprintable() or c in "\n\t" else "\ufffd" for c in text)


def say_failures(failures: Iterable[Failure]) -> None:
    """What did not go in, and why; a long list is cut."""
    listed = list(failures)
    for failure in listed[:_FAILURES_SHOWN]:
        known = failure.reason.startswith(failure.id.partition("#")[0])
        say(f"failed: {failure.reason if known else f'{failure.id[:200]}: {failure.reason}'}")
    if len(listed) > _FAILURES_SHOWN:
        say(f"failed: {len(listed) - _FAILURES_SHOWN} more (--json lists them all)")


def print_report(report: IndexReport, *, as_json: bool) -> None:
    """A report to stdout, its failures to stderr.

    Raises:
        typer.Exit: With 1, where something failed.
    """
    say_failures(report.failures)
    if report.dry_run:
        _say_pruned(report.pruned)
    if as_json:
        put_json(asdict(report))
    else:
        put(str(report))
    if report.failed:
        raise typer.Exit(1)


def _say_pruned(sources: Sequence[str]) -> None:
    """Which sources would lose passages; a long list is cut."""
    for source in sources[:_PRUNED_SHOWN]:
        say(f"would delete from: {source}")
    if len(sources) > _PRUNED_SHOWN:
        say(f"would delete from: {len(sources) - _PRUNED_SHOWN} more (--json lists them all)")


@contextmanager
def resumable(how: str = "run the same command again to go on") -> Iterator[None]:
    """Say on Ctrl-C that nothing was lost.

    Args:
        how: What to do to go on.

    Raises:
        InterruptedRunError: In the place of KeyboardInterrupt.
    """
    try:
        yield
    except KeyboardInterrupt as error:
        raise InterruptedRunError(f"interrupted: what was written is kept; {how}") from error


@contextmanager
def progress(label: str, *, total: int | None, quiet: bool) -> Iterator[OnProgress]:
    """A bar over passages on a terminal, a line now and then elsewhere, nothing when quiet.

    Args:
        label: What is being done.
        total: How many passages there will be; None where that is unknown.
        quiet: Show nothing.
    """
    if quiet:
        yield lambda _: None
    elif sys.stderr.isatty():
        with _bar(label, total) as show:
            yield show
    else:
        yield _lines(label, total)


def share_lines(label: str, *, quiet: bool) -> Callable[[float], None] | None:
    """A line now and then with the share that is done, from 0 to 1; None when quiet.

    Args:
        label: What is being done.
        quiet: Show nothing.
    """
    if quiet:
        return None
    last = monotonic()

    def show(share: float) -> None:
        nonlocal last
        if monotonic() - last >= _PLAIN_LINE_EVERY_S:
            last = monotonic()
            say(f"{label}: {share:.0%}")

    return show


def _seen(report: IndexReport) -> int:
    return report.added + report.updated + report.unchanged + report.failed


def _lines(label: str, total: int | None) -> OnProgress:
    last = monotonic()

    def show(report: IndexReport) -> None:
        nonlocal last
        if monotonic() - last >= _PLAIN_LINE_EVERY_S:
            last = monotonic()
            share = f" of {total:,}" if total is not None else ""
            say(f"{label}: {_seen(report):,}{share} passages, {_rate(report)}")

    return show


def _rate(report: IndexReport) -> str:
    return f"{report.encoded:,} encoded, {_seen(report) / max(report.seconds, 1e-3):,.0f} a second"


@contextmanager
def _bar(label: str, total: int | None) -> Iterator[OnProgress]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.fields[note]}", markup=False),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=total, note="")

        def show(report: IndexReport) -> None:
            note = f"{_seen(report):,} passages, {_rate(report)}"
            bar.update(task, completed=_seen(report), note=note)

        yield show
