"""All commands under one name."""

from __future__ import annotations

from typing import Annotated

import typer

from sbert_retriever import __version__
from sbert_retriever.cli import (
    bench,
    collection,
    diagnosis,
    efficiency,
    evaluation,
    faq,
    hard_negatives,
    indexing,
    mining,
    moving,
    paper,
    searching,
    serving,
    tradeoff,
    training,
    transfer,
)

app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    help="Index texts into an embedded Qdrant or a server, and search them by meaning.",
    epilog="Results go to stdout, progress and messages to stderr. Exit codes: 0 success, "
    "1 a failed run, 2 wrong use, 130 stopped by Ctrl-C.",
)

app.command("index")(indexing.index)
app.command("query")(searching.query)
app.command("info")(collection.info)
app.command("doctor")(diagnosis.doctor)
app.command("delete")(collection.delete)
app.command("evaluate")(evaluation.evaluate)
app.command("duplicates")(mining.duplicates)
app.command("clusters")(mining.clusters)
app.command("export")(transfer.export)
app.command("import")(transfer.import_)
app.command("copy")(moving.copy)
app.command("snapshot")(moving.snapshot)
app.command("restore")(moving.restore)
app.command("rebuild")(moving.rebuild)
app.command("switch")(moving.switch)
app.command("drop")(moving.drop)
app.command("serve")(serving.serve)
app.command("mcp")(serving.mcp)
app.command("tradeoff")(tradeoff.tradeoff)
app.add_typer(faq.app, name="faq")
app.command("hard-negatives")(hard_negatives.hard_negatives)
app.command("train")(training.train)
app.command("paper")(paper.paper)
app.command("paper-efficiency")(efficiency.paper_efficiency)
app.command("bench")(bench.bench)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"sbert-retriever {__version__}")
        raise typer.Exit


@app.callback()
def _program(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
    debug: Annotated[
        bool,
        typer.Option("--debug", help="Show the traceback of an error; may stand anywhere."),
    ] = False,
) -> None:
    """Index texts and search them by meaning."""
