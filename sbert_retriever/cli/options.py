"""Arguments and options that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

Location = Annotated[
    str,
    typer.Argument(metavar="LOCATION", help="A folder, or the URL of a Qdrant server."),
]
To = Annotated[
    str,
    typer.Option(
        "--to",
        metavar="LOCATION",
        help="A folder, or the URL of a Qdrant server.",
        show_default=False,
    ),
]
Questions = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="QUESTION",
        help='In quotes. None, or "-", reads them from the standard input, one a line.',
        show_default=False,
    ),
]
Collection = Annotated[
    str, typer.Option("--collection", metavar="NAME", help="Which collection there.")
]
QuantizationKind = Annotated[
    str | None,
    typer.Option(
        "--quantization",
        metavar="KIND",
        help="For a new collection: int8, turbo, product or binary keeps small copies of the "
        "vectors, which are searched first.",
        show_default=False,
    ),
]
Filterable = Annotated[
    list[str] | None,
    typer.Option(
        "--filterable",
        metavar="FIELD=KIND",
        help="Index a metadata field for filtering, and read this column of a csv as what it is; "
        "may be repeated. The kinds: keyword, integer, float, bool, datetime, text, uuid, geo.",
        show_default=False,
    ),
]
Tokens = Annotated[
    bool,
    typer.Option(
        "--tokens",
        help="For a new collection: keep the vectors of each passage's tokens too, for late "
        "interaction. Takes much disk.",
    ),
]
TruncateDim = Annotated[
    int | None,
    typer.Option(
        "--truncate-dim",
        metavar="N",
        help="With --model, for a new collection: keep the first N numbers of each vector.",
        show_default=False,
    ),
]
Shards = Annotated[
    int | None,
    typer.Option(
        "--shards",
        metavar="N",
        help="For a new collection on a cluster: into how many parts it is cut.",
        show_default=False,
    ),
]
Replicas = Annotated[
    int | None,
    typer.Option(
        "--replicas",
        metavar="N",
        help="For a new collection on a cluster: how many copies of each part there are.",
        show_default=False,
    ),
]
Tenant = Annotated[
    str | None,
    typer.Option(
        "--tenant",
        metavar="NAME",
        help="Only this tenant's passages; others in the collection are neither seen nor touched.",
        show_default=False,
    ),
]
ApiKey = Annotated[
    str | None,
    typer.Option(
        "--api-key",
        metavar="KEY",
        help="For a URL. Better set QDRANT_API_KEY: others on the machine can see arguments.",
        show_default=False,
    ),
]
Model = Annotated[
    str | None,
    typer.Option(
        "--model",
        metavar="MODEL",
        help="A folder, a packaged name or a hub id. Without it, the collection's own.",
        show_default=False,
    ),
]
Sparse = Annotated[
    str | None,
    typer.Option(
        "--sparse",
        metavar="MODEL",
        help="For a new collection: bm25 keeps words beside meanings, or a SPLADE model's name.",
        show_default=False,
    ),
]
Device = Annotated[
    str, typer.Option("--device", metavar="DEVICE", help="auto, cpu, cuda, cuda:1 or mps.")
]
Dtype = Annotated[
    str,
    typer.Option(
        "--dtype",
        metavar="TYPE",
        help="auto (bfloat16 where it pays), float32, bfloat16, float16; int8 (quick, on a CPU).",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress and no notes.")]
Filters = Annotated[
    list[str] | None,
    typer.Option(
        "--filter",
        metavar="FIELD=VALUE",
        help="On metadata: lang=en, year>=2020, kind!=draft. Several must all hold.",
        show_default=False,
    ),
]
FilterJson = Annotated[
    str | None,
    typer.Option(
        "--filter-json",
        metavar="JSON",
        help='The same as JSON, with every operator: {"or": [{"lang": "en"}, ...]}.',
        show_default=False,
    ),
]
