"""`sbert-retriever export` and `import`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from sbert_retriever.cli import options
from sbert_retriever.cli.opening import open_existing
from sbert_retriever.cli.output import print_report, progress, resumable, say
from sbert_retriever.counting import counted

_STDIO = "-"


def export(
    location: options.Location,
    output: Annotated[
        str,
        typer.Option("-o", "--output", metavar="FILE", help='A jsonl file; "-" is stdout.'),
    ] = _STDIO,
    collection: options.Collection = "default",
    api_key: options.ApiKey = None,
    quiet: options.Quiet = False,
) -> None:
    """Write every passage, with its vector, as a line of JSON; needs no model.

    A file gets its name when it is whole.
    """
    from sbert_retriever.ingest.exchange import export_passages

    with open_existing(location, collection, api_key=api_key) as retriever:
        total = retriever.count()
        with progress("exporting", total=total, quiet=quiet) as on_progress:
            if output == _STDIO:
                if hasattr(sys.stdout, "reconfigure"):
                    sys.stdout.reconfigure(encoding="utf-8", newline="\n")
                count = export_passages(retriever.store, sys.stdout, on_progress=on_progress)
            else:
                count = export_passages(retriever.store, Path(output), on_progress=on_progress)
    if not quiet:
        say(f"{counted(count, 'passage')} exported")


def import_(
    file: Annotated[str, typer.Argument(metavar="FILE", help='An export; "-" is stdin.')],
    to: options.To,
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            metavar="MODEL",
            help="Encode the texts anew with this one. Without it, the vectors are kept.",
            show_default=False,
        ),
    ] = None,
    collection: options.Collection = "default",
    device: options.Device = "auto",
    dtype: options.Dtype = "auto",
    api_key: options.ApiKey = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Bring an export into a collection, which is created where it is absent.

    A run that was stopped goes on where it was when it is run again.
    """
    from sbert_retriever.transfer import import_file, import_lines

    settings: dict[str, Any] = {
        "model": model,
        "collection_name": collection,
        "device": device,
        "dtype": dtype,
    }
    with resumable(), progress("importing", total=None, quiet=quiet) as on_progress:
        if file == _STDIO:
            if hasattr(sys.stdin, "reconfigure"):
                sys.stdin.reconfigure(encoding="utf-8", errors="surrogateescape", newline="\n")
            report = import_lines(
                sys.stdin, to, api_key=api_key, on_progress=on_progress, **settings
            )
        else:
            report = import_file(
                Path(file), to, api_key=api_key, on_progress=on_progress, **settings
            )
    print_report(report, as_json=json)
