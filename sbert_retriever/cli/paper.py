"""`sbert-retriever paper`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sbert_retriever.cli import options
from sbert_retriever.cli.output import put, resumable, say


def paper(
    data: Annotated[
        str, typer.Option("--data", metavar="DIR", help="The folder of the data sets.")
    ],
    output: Annotated[
        str,
        typer.Option(
            "--output", "-o", metavar="FILE", help="The page; results are kept in a folder beside."
        ),
    ] = "docs/paper.md",
    parts: Annotated[
        str | None,
        typer.Option(
            "--parts",
            metavar="LETTERS",
            help="Of a to h, with commas between them; without it, all.",
            show_default=False,
        ),
    ] = None,
    full: Annotated[
        bool,
        typer.Option("--full", help="All the data and three seeds; for a GPU, or a long time."),
    ] = False,
    tiny: Annotated[
        bool, typer.Option("--tiny", help="A few examples of each: to see that it runs.")
    ] = False,
    training: Annotated[
        bool, typer.Option("--training/--no-training", help="Measure what needs training too.")
    ] = True,
    device: options.Device = "auto",
    quiet: options.Quiet = False,
) -> None:
    """Run the paper's study on the data at hand, and write its page.

    Every measurement is kept as JSON as soon as it is there: a run that was stopped goes on where
    it was, and none is made twice.
    """
    from sbert_retriever.errors import InputError
    from sbert_retriever.paper.run import run_study
    from sbert_retriever.paper.sizes import size_named
    from sbert_retriever.paper.study import Study

    if full and tiny:
        raise InputError("--full and --tiny exclude each other: give one of them")
    size = size_named("full" if full else "tiny" if tiny else "small")
    page = Path(output)
    study = Study(
        data=Path(data),
        size=size,
        folder=page.with_name(f"{page.stem}-results") / size.name,
        device=device,
    )
    letters = [letter.strip() for letter in (parts or "").split(",") if letter.strip()]
    with resumable():
        run_study(
            study,
            page,
            letters=letters,
            training=training,
            on_note=(lambda _: None) if quiet else say,
        )
    put(str(page))
