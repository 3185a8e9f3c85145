"""`sbert-retriever index`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sbert_retriever.cli import options
from sbert_retriever.cli.filters import parsed_filterable
from sbert_retriever.cli.opening import collection_exists, open_existing
from sbert_retriever.cli.output import print_report, progress, resumable, say
from sbert_retriever.errors import InputError, SbertError

if TYPE_CHECKING:
    from sbert_retriever.retriever import Retriever

DEFAULT_MODEL = "all-MiniLM-L6-v2"
_FORMATS = ("auto", "text", "jsonl")


def index(
    paths: Annotated[
        list[str],
        typer.Argument(metavar="PATH", help='Files, folders and globs; "-" is the standard input.'),
    ],
    to: options.To,
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            metavar="MODEL",
            help="A folder, a packaged name or a hub id. [default: the collection's own; for a new "
            f"one, {DEFAULT_MODEL}]",
            show_default=False,
        ),
    ] = None,
    sparse: options.Sparse = None,
    quantization: options.QuantizationKind = None,
    filterable: options.Filterable = None,
    tokens: options.Tokens = False,
    truncate_dim: options.TruncateDim = None,
    shards: options.Shards = None,
    replicas: options.Replicas = None,
    collection: options.Collection = "default",
    tenant: options.Tenant = None,
    text_field: Annotated[
        list[str] | None,
        typer.Option(
            "--text-field",
            metavar="NAME",
            help="jsonl, csv: field of the text; several (repeated, or a,b) are joined. "
            "[default: text]",
            show_default=False,
        ),
    ] = None,
    id_field: Annotated[
        str | None,
        typer.Option(
            "--id-field",
            metavar="NAME",
            help="jsonl, csv: field of the id. Without it, ids are PATH#LINE.",
            show_default=False,
        ),
    ] = None,
    metadata_fields: Annotated[
        list[str] | None,
        typer.Option(
            "--metadata-fields",
            metavar="NAME",
            help='jsonl, csv: fields to keep (repeated, or a,b); "" keeps none. '
            "[default: all others]",
            show_default=False,
        ),
    ] = None,
    chunk_tokens: Annotated[
        int | None,
        typer.Option(
            "--chunk-tokens",
            metavar="N",
            help="The most tokens of a passage. Without it, texts are cut to what the model "
            "reads, and records stay whole.",
            show_default=False,
        ),
    ] = None,
    chunk_overlap: Annotated[
        int | None,
        typer.Option(
            "--chunk-overlap",
            metavar="N",
            help="Tokens that neighbours share. [default: 12 %]",
            show_default=False,
        ),
    ] = None,
    stdin_format: Annotated[
        str,
        typer.Option(
            "--stdin-format",
            metavar="FORMAT",
            help='What "-" reads: text, jsonl, or auto (jsonl where a field is named).',
        ),
    ] = "auto",
    prune: Annotated[
        bool,
        typer.Option(
            "--prune",
            help="Delete passages that are gone from the files read, and those of files gone from "
            "the folders named. Other sources are left alone.",
        ),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be done; write nothing.")
    ] = False,
    device: options.Device = "auto",
    dtype: options.Dtype = "auto",
    api_key: options.ApiKey = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Bring a collection in line with files: only what changed is encoded and written.

    Reads .txt .md .rst .html .htm .pdf .docx .py, cut into passages, and .jsonl .csv, a passage a
    record. A file that cannot be read is reported at the end, the rest go in, and the exit code
    is 1. A run that was stopped goes on where it was when it is run again.
    """
    from sbert_retriever.ingest.files import Reading, expected_passages, index_files

    indexed = parsed_filterable(filterable)
    reading = Reading(
        text_field=_names(text_field) or "text",
        id_field=id_field,
        metadata_fields=None if metadata_fields is None else _names(metadata_fields),
        kinds=indexed,
        chunk_tokens=chunk_tokens,
        chunk_overlap=chunk_overlap,
        stdin_format=_stdin_format(stdin_format, text_field, id_field, metadata_fields),
    )
    # Paths are looked at first: a misspelt one must not leave an empty collection behind.
    total = expected_passages(paths, chunked=chunk_tokens is not None)
    note = (lambda _: None) if quiet else say
    kept: dict[str, Any] = {
        "quantization": quantization,
        "tokens": tokens,
        "shards": shards,
        "replicas": replicas,
    }
    there = collection_exists(to, collection, api_key)
    with (
        _nothing_left_behind(to, collection, api_key, new=not (there or dry_run)),
        resumable(),
        _opened(
            to,
            collection,
            there=there,
            dry_run=dry_run,
            note=note,
            model=model,
            sparse=sparse,
            kept=kept,
            filterable=indexed,
            truncate_dim=truncate_dim,
            tenant=tenant,
            device=device,
            dtype=dtype,
            api_key=api_key,
        ) as retriever,
        progress("indexing", total=total, quiet=quiet) as on_progress,
    ):
        report = index_files(
            retriever,
            paths,
            reading=reading,
            prune=prune,
            dry_run=dry_run,
            on_progress=on_progress,
            on_note=note,
        )
    if report.failed and not (there or dry_run):
        _drop_if_empty(to, collection, api_key)
    print_report(report, as_json=json)


def _opened(
    to: str,
    collection: str,
    *,
    there: bool,
    dry_run: bool,
    note: Any,
    model: str | None,
    sparse: str | None,
    kept: dict[str, Any],
    filterable: dict[str, str],
    **settings: Any,
) -> Retriever:
    from sbert_retriever.index.storage import Storage
    from sbert_retriever.retriever import Retriever

    if not there:
        model = model or DEFAULT_MODEL
        words = f", words by {sparse}" if sparse is not None else ""
        note(f"new collection {collection!r} at {to}, model {model}{words}")
        if dry_run:
            to = ":memory:"
            kept = kept | {"shards": None, "replicas": None}
    retriever = Retriever.open(
        to,
        collection_name=collection,
        model=model,
        sparse=sparse,
        storage=Storage(**kept),
        filterable=filterable,
        **settings,
    )
    if there and filterable and not dry_run:
        _make_filterable(retriever, filterable)
    if there and (unused := [name for name, value in kept.items() if value]):
        options = ", ".join(f"--{name}" for name in unused)
        note(f"collection {collection!r} is there and stays as it is: {options} is for a new one")
    if there and model is None:
        note(f"model {retriever.info().model}, the collection's own")
    return retriever


@contextmanager
def _nothing_left_behind(
    location: str, collection: str, api_key: str | None, *, new: bool
) -> Iterator[None]:
    """Take back a collection that was made for a run that then was refused.

    Its model and its settings would stand in the way of the next try.
    """
    try:
        yield
    except SbertError:
        if new:
            with suppress(SbertError):
                _drop_if_empty(location, collection, api_key)
        raise


def _drop_if_empty(location: str, collection: str, api_key: str | None) -> None:
    from sbert_retriever.transfer import drop_collection

    with open_existing(location, collection, api_key=api_key) as retriever:
        if retriever.info().count:
            return
    drop_collection(location, collection, api_key=api_key)


def _make_filterable(retriever: Retriever, fields: dict[str, str]) -> None:
    try:
        retriever.make_filterable(fields)
    except BaseException:
        retriever.close()
        raise


def _names(given: list[str] | None) -> list[str]:
    """Names that were repeated, or written with commas between them."""
    parts = (part.strip() for word in given or () for part in word.split(","))
    return [part for part in parts if part]


def _stdin_format(asked: str, *fields: object) -> Any:
    if asked not in _FORMATS:
        raise InputError(f"--stdin-format is {asked!r}, expected {', '.join(_FORMATS)}")
    if asked == "auto":
        return "text" if all(field is None for field in fields) else "jsonl"
    return asked
