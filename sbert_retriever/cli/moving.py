"""`sbert-retriever copy`, `snapshot`, `restore`, `rebuild`, `switch` and `drop`."""

from __future__ import annotations

from dataclasses import asdict
from shlex import quote
from typing import Annotated

import typer

from sbert_retriever.cli import options
from sbert_retriever.cli.opening import naming_collections
from sbert_retriever.cli.output import (
    print_report,
    progress,
    put,
    put_json,
    resumable,
    say,
)
from sbert_retriever.counting import counted
from sbert_retriever.errors import InputError

_DropOld = Annotated[
    bool,
    typer.Option(
        "--drop-old", help="Do not keep the old one, nor an older one that is still kept."
    ),
]
_Confirm = Annotated[bool, typer.Option("--yes", help="Confirm.")]


def copy(
    source: Annotated[
        str, typer.Argument(metavar="FROM", help="A folder, or the URL of a Qdrant server.")
    ],
    target: Annotated[
        str, typer.Argument(metavar="TO", help="A folder, or the URL of a Qdrant server.")
    ],
    collection: options.Collection = "default",
    to_collection: Annotated[
        str | None,
        typer.Option(
            "--to-collection",
            metavar="NAME",
            help="What it is to be called there. [default: the same]",
            show_default=False,
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            metavar="MODEL",
            help="Encode the texts anew with this one. Without it, the vectors are kept.",
            show_default=False,
        ),
    ] = None,
    prune: Annotated[
        bool, typer.Option("--prune", help="Delete there what is not in the original.")
    ] = False,
    device: options.Device = "auto",
    dtype: options.Dtype = "auto",
    api_key: options.ApiKey = None,
    to_api_key: Annotated[
        str | None,
        typer.Option(
            "--to-api-key",
            metavar="KEY",
            help="For the URL of TO. Better set QDRANT_TO_API_KEY; QDRANT_API_KEY does where FROM "
            "is no other server.",
            show_default=False,
        ),
    ] = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Copy a collection to another place, or to another model, and check the copy.

    Contract, filterable fields and saved profile go along. At the end counts, contents and a
    sample of searches are compared on both sides. A run that was stopped goes on when it is run
    again.
    """
    from sbert_retriever.transfer import copy_collection

    total = _count(source, collection, api_key)
    with resumable(), progress("copying", total=total, quiet=quiet) as on_progress:
        report = copy_collection(
            source,
            target,
            collection_name=collection,
            to_collection_name=to_collection,
            model=model,
            device=device,
            dtype=dtype,
            api_key=api_key,
            to_api_key=to_api_key,
            prune=prune,
            on_progress=on_progress,
        )
    if report.encoded_anew and report.profile and not quiet:
        say("the saved profile went along; it was measured with the other model: measure anew")
    if json:
        put_json(asdict(report))
    else:
        put(str(report))


def _count(location: str, collection: str, api_key: str | None) -> int:
    """How many passages there are to copy; a collection of another program's has no model."""
    from contextlib import closing

    from sbert_retriever.transfer.places import connected, existing

    with (
        naming_collections(location, collection, api_key),
        closing(connected(location, api_key=api_key)) as connection,
    ):
        return existing(connection, collection)[1].count


def snapshot(
    location: options.Location,
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="The archive: .tar.gz, or .tar uncompressed.")
    ],
    collection: Annotated[
        str | None,
        typer.Option(
            "--collection",
            metavar="NAME",
            help="Which one. [default: all in a folder; must be given for a server]",
            show_default=False,
        ),
    ] = None,
    api_key: options.ApiKey = None,
    json: options.Json = False,
) -> None:
    """Write collections, index and all, into one file with the checksum of every part.

    The file gets its name when it is whole.
    """
    from sbert_retriever.transfer import snapshot as run

    with naming_collections(location, collection or "default", api_key):
        report = run(location, file, collection_name=collection, api_key=api_key)
    if json:
        put_json(asdict(report))
    else:
        put(str(report))


def restore(
    file: Annotated[str, typer.Argument(metavar="FILE", help="What `snapshot` wrote.")],
    location: options.Location,
    replace: Annotated[
        bool, typer.Option("--replace", help="Drop collections of the same names.")
    ] = False,
    api_key: options.ApiKey = None,
    json: options.Json = False,
) -> None:
    """Bring the collections of a snapshot back: all of it or nothing.

    Every checksum is verified, and the engine opens what was unpacked, before anything is put in
    place.
    """
    from sbert_retriever.transfer import restore as run

    report = run(file, location, replace=replace, api_key=api_key)
    if json:
        put_json(asdict(report))
    else:
        put(f"restored: {report}")


def rebuild(
    location: options.Location,
    model: Annotated[
        str, typer.Option("--model", metavar="MODEL", help="The new model.", show_default=False)
    ],
    collection: options.Collection = "default",
    alias: Annotated[
        str | None,
        typer.Option(
            "--alias",
            metavar="NAME",
            help="On a server: the alias that readers are to use from now on.",
            show_default=False,
        ),
    ] = None,
    drop_old: _DropOld = False,
    device: options.Device = "auto",
    dtype: options.Dtype = "auto",
    api_key: options.ApiKey = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Encode every stored text with another model.

    The new collection grows beside the old one and takes its name in one instant when it is whole.
    Until then the old one answers as before, and then it is kept as NAME.old. A run that was
    stopped goes on when it is run again.
    """
    from sbert_retriever.transfer import rebuild as run

    with (
        resumable(),
        naming_collections(location, collection, api_key),
        progress("rebuilding", total=None, quiet=quiet) as on_progress,
    ):
        report = run(
            location,
            model=model,
            collection_name=collection,
            alias=alias,
            drop_old=drop_old,
            device=device,
            dtype=dtype,
            api_key=api_key,
            on_progress=on_progress,
        )
    name = alias or collection
    if report.failed:
        say(f"collection {collection!r} was left as it is: not every text could be encoded")
    elif not (drop_old or quiet):
        say(_kept(location, name))
    print_report(report, as_json=json)


def switch(
    location: options.Location,
    to_collection: Annotated[
        str,
        typer.Option(
            "--to-collection", metavar="NAME", help="What it is to mean.", show_default=False
        ),
    ],
    collection: options.Collection = "default",
    drop_old: _DropOld = False,
    api_key: options.ApiKey = None,
    quiet: options.Quiet = False,
) -> None:
    """Let a name mean another collection, in one instant.

    The one before it is kept as NAME.old; switching to NAME.old goes back. On a server, the name
    is an alias, which is made where it is absent.
    """
    from sbert_retriever.transfer import switch_collection

    with naming_collections(location, to_collection, api_key):
        switch_collection(location, collection, to_collection, drop_old=drop_old, api_key=api_key)
    put(f"{collection!r} is now what {to_collection!r} was")
    if not (drop_old or quiet):
        say(_kept(location, collection))


def _kept(location: str, name: str) -> str:
    place, now, old = quote(location), quote(name), quote(f"{name}.old")
    return (
        f"what {name!r} was before is kept as '{name}.old': `sbert-retriever switch {place} "
        f"--collection {now} --to-collection {old}` goes back, `sbert-retriever drop "
        f"{place} --collection {old} --yes` deletes it"
    )


def drop(
    location: options.Location,
    collection: Annotated[
        str,
        typer.Option("--collection", metavar="NAME", help="Which one.", show_default=False),
    ],
    yes: _Confirm = False,
    api_key: options.ApiKey = None,
    json: options.Json = False,
) -> None:
    """Delete a collection with all it holds."""
    from sbert_retriever.transfer import drop_collection

    if not yes:
        count = _count(location, collection, api_key)
        raise InputError(
            f"this deletes {collection!r} with {counted(count, 'passage')}: add --yes to do it"
        )
    with naming_collections(location, collection, api_key):
        deleted = drop_collection(location, collection, api_key=api_key)
    if json:
        put_json({"dropped": collection, "passages": deleted})
    else:
        put(f"{collection!r} dropped, with {counted(deleted, 'passage')}")
