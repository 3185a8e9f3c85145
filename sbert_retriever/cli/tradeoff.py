"""`sbert-retriever tradeoff`."""

from __future__ import annotations

import json as json_format
import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated

import typer

from sbert_retriever.cli import options
from sbert_retriever.cli.opening import open_existing, open_scorer
from sbert_retriever.cli.output import printable, put, put_json, say
from sbert_retriever.errors import InputError
from sbert_retriever.types import DEFAULT_RERANKER

if TYPE_CHECKING:
    from sbert_retriever.retriever import Retriever
    from sbert_retriever.tradeoff.points import Grid
    from sbert_retriever.tradeoff.records import Records
    from sbert_retriever.tradeoff.report import TradeoffReport
    from sbert_retriever.types import Scorer

_LINE_EVERY_S = 5.0


def tradeoff(
    location: options.Location,
    queries: Annotated[
        str | None,
        typer.Option(
            "--queries",
            metavar="FILE",
            help="JSON lines with _id and text, lines of id and query parted by a tab, or a BEIR "
            "folder.",
            show_default=False,
        ),
    ] = None,
    qrels: Annotated[
        str | None,
        typer.Option(
            "--qrels",
            metavar="FILE",
            help="Which passages answer which query: BEIR, TREC or JSON lines. Without it, the "
            "deepest rerank is what others are compared with.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        str, typer.Option("-o", "--output", metavar="FOLDER", help="Where the files go.")
    ] = "tradeoff",
    reranker: Annotated[
        str,
        typer.Option(
            "--reranker", metavar="MODEL", help='The cross-encoder; "none" leaves it out.'
        ),
    ] = DEFAULT_RERANKER,
    depths: Annotated[
        str,
        typer.Option("--depths", metavar="N,N", help="How many candidates it scores."),
    ] = "5,10,20,50,100",
    late: Annotated[
        int,
        typer.Option(
            "--late", metavar="N", help="Candidates for late interaction; 0 leaves it out."
        ),
    ] = 100,
    late_model: Annotated[
        str | None,
        typer.Option(
            "--late-model",
            metavar="MODEL",
            help="A ColBERT checkpoint for it, a folder or a hub id. Without it, the bi-encoder's "
            "own token vectors.",
            show_default=False,
        ),
    ] = None,
    k: Annotated[int, typer.Option("-k", metavar="N", help="How many passages a query gets.")] = 10,
    limit: Annotated[
        int | None,
        typer.Option("--limit", metavar="N", help="Only the first N queries.", show_default=False),
    ] = None,
    timed: Annotated[
        int, typer.Option("--timed", metavar="N", help="How many queries are timed one by one.")
    ] = 30,
    budget_ms: Annotated[
        float | None,
        typer.Option(
            "--budget-ms",
            metavar="MS",
            help="Save the most accurate point within this time (95th percentile) as the "
            "collection's profile.",
            show_default=False,
        ),
    ] = None,
    min_ndcg: Annotated[
        float | None,
        typer.Option(
            "--min-ndcg",
            metavar="SCORE",
            help="Save the fastest point with this nDCG or more.",
            show_default=False,
        ),
    ] = None,
    measured: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="FILE",
            help="Measure nothing: read the per-query file of an earlier run.",
            show_default=False,
        ),
    ] = None,
    plot: Annotated[
        bool, typer.Option("--plot/--no-plot", help="Draw the PNG and the SVG.")
    ] = True,
    model: options.Model = None,
    collection: options.Collection = "default",
    device: options.Device = "auto",
    dtype: options.Dtype = "auto",
    api_key: options.ApiKey = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Measure what accuracy costs in time, on this collection and this machine.

    Prints a table of operating points, from the bi-encoder alone to the cross-encoder over
    everything, and writes a per-query file, JSON, CSV and a plot. Takes long: each query goes
    through the cross-encoder with as many passages as the deepest point has. A run that was
    stopped scores no pair again when it is run again.
    """
    from sbert_retriever.tradeoff.files import check_place, write_all
    from sbert_retriever.tradeoff.records import read_records
    from sbert_retriever.tradeoff.report import summarise

    _check(queries, measured, budget_ms, min_ndcg)
    if measured is None:
        check_place(output, plots=plot)
    if queries is not None and qrels is None and (Path(queries) / "qrels").is_dir():
        say(f"{queries} has judgements, and none are used: --qrels {queries} measures accuracy")
    with open_existing(
        location,
        collection,
        model=model,
        late_encoder=late_model,
        device=device,
        dtype=dtype,
        api_key=api_key,
    ) as retriever:
        if measured is not None:
            records = read_records(measured)
        else:
            records = _measured(
                retriever,
                queries or "",
                qrels,
                scorer=open_scorer(reranker, device=device, dtype=dtype),
                grid=_grid(depths, late),
                k=k,
                limit=limit,
                timed=timed,
                pair_scores=Path(output) / "pair-scores.jsonl",
                quiet=quiet,
            )
        report = summarise(records)
        if measured is None:
            written = write_all(output, records, report, plots=plot)
            say(f"wrote {', '.join(map(str, written))}")
        _print(report, as_json=json)
        if budget_ms is not None or min_ndcg is not None:
            _save(retriever, report, budget_ms=budget_ms, min_ndcg=min_ndcg)


def _check(
    queries: str | None, measured: str | None, budget_ms: float | None, min_ndcg: float | None
) -> None:
    """Refuse at once what would otherwise be noticed after an hour."""
    if (queries is None) == (measured is None):
        raise InputError("give --queries to measure, or --from with the file of an earlier run")
    if budget_ms is not None and min_ndcg is not None:
        raise InputError("--budget-ms and --min-ndcg each choose a point: give one of them")
    for name, value in (("--budget-ms", budget_ms), ("--min-ndcg", min_ndcg)):
        if value is not None and not 0 < value < math.inf:
            raise InputError(f"{name} is {value:g}, expected a number above 0")


def _grid(depths: str, late: int) -> Grid:
    """The grid, with nothing in it deeper than the depths that were asked for."""
    from sbert_retriever.tradeoff.points import Grid

    try:
        numbers = tuple(int(word) for word in depths.split(",") if word.strip())
    except ValueError as error:
        raise InputError(
            f"--depths is {depths!r}, expected whole numbers with commas between them"
        ) from error
    return Grid(depths=numbers, late=late).no_deeper_than(max(numbers, default=0))


def _measured(
    retriever: Retriever,
    queries: str,
    qrels: str | None,
    *,
    scorer: Scorer | None,
    grid: Grid,
    k: int,
    limit: int | None,
    timed: int,
    pair_scores: Path,
    quiet: bool,
) -> Records:
    from sbert_retriever.evaluation.read_ranking import read_qrels, read_queries
    from sbert_retriever.tradeoff.measure import measure_tradeoff

    judged = read_qrels(qrels) if qrels is not None else None
    asked = {i: q for i, q in read_queries(queries).items() if judged is None or i in judged}
    if limit is not None:
        if limit < 1:
            raise InputError(f"--limit is {limit}, expected 1 or more")
        asked = dict(list(asked.items())[:limit])
        judged = {i: judged[i] for i in asked} if judged is not None else None
    with _progress(quiet=quiet) as on_progress:
        return measure_tradeoff(
            retriever,
            asked,
            qrels=judged,
            scorer=scorer,
            grid=grid,
            k=k,
            timed_queries=timed,
            pair_scores=pair_scores if scorer is not None else None,
            on_progress=on_progress,
        )


def _print(report: TradeoffReport, *, as_json: bool) -> None:
    if as_json:
        put_json(json_format.loads(report.to_json()))
    else:
        put(printable(report.table()))


def _save(
    retriever: Retriever,
    report: TradeoffReport,
    *,
    budget_ms: float | None,
    min_ndcg: float | None,
) -> None:
    from sbert_retriever.tradeoff.choose import choose

    chosen = choose(report, budget_ms=budget_ms, min_ndcg=min_ndcg)
    retriever.save_profile(chosen.point.profile)
    measure = report.measures[0]
    say(
        f"saved as the profile of this collection: {chosen.point.profile} ({measure} "
        f"{chosen.accuracy[measure]:.4f}, {chosen.p50_ms:.0f} ms, 95th percentile "
        f"{chosen.p95_ms:.0f} ms)"
    )


@contextmanager
def _progress(*, quiet: bool) -> Iterator[Callable[[str, int, int], None]]:
    """A bar a stage on a terminal, a line now and then elsewhere, nothing when quiet."""
    if quiet:
        yield lambda label, done, total: None
    elif sys.stderr.isatty():
        with _bar() as show:
            yield show
    else:
        yield _lines()


def _lines() -> Callable[[str, int, int], None]:
    last = monotonic()

    def show(label: str, done: int, total: int) -> None:
        nonlocal last
        if monotonic() - last >= _LINE_EVERY_S:
            last = monotonic()
            say(f"{label}: {done:,} of {total:,}")

    return show


@contextmanager
def _bar() -> Iterator[Callable[[str, int, int], None]]:
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None)

        def show(label: str, done: int, total: int) -> None:
            bar.update(task, description=label, completed=done, total=total)

        yield show
