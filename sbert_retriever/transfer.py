"""Whole collections from one place, or one model, to another."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from os import PathLike
from pathlib import Path
from typing import Any, cast

from sbert_retriever.errors import ContractError, InputError, StoreError
from sbert_retriever.index.connection import connect
from sbert_retriever.index.embedded import EmbeddedClient
from sbert_retriever.index.steps import Steps
from sbert_retriever.index.store import PassageStore
from sbert_retriever.ingest.exchange import ExportFile, check_closed
from sbert_retriever.ingest.restore import import_entries
from sbert_retriever.retriever import Retriever
from sbert_retriever.types import Encoder, IndexReport, Passage

_PAGE = 500
_REBUILD = ".rebuild"
_MARK_KEY = "sbert_retriever_rebuild"

Model = str | PathLike[str] | Encoder
OnProgress = Callable[[IndexReport], None]


def import_file(
    file: Path,
    location: str | PathLike[str],
    *,
    model: Model | None = None,
    collection_name: str = "default",
    device: str = "auto",
    dtype: str = "auto",
    api_key: str | None = None,
    on_progress: OnProgress | None = None,
) -> IndexReport:
    """Bring what `export_passages` wrote into a collection, which is created where it is absent.

    Vectors are kept where the model is the same, and no model is then loaded; with another
    `model`, the texts are encoded anew. It can be killed and run again.

    Args:
        file: The export.
        location: A folder or a URL.
        model: Of the collection; None is the export's own.
        collection_name: Which collection there.
        device: For a model that is loaded.
        dtype: For a model that is loaded.
        api_key: For a URL; None reads QDRANT_API_KEY.
        on_progress: Called with the report so far.

    Returns:
        The report; lines that cannot be used are among its failures, and the rest went in.

    Raises:
        InputError: The file cannot be opened.
        ReadError: The file is no export, or was cut.
        ContractError: The collection's vectors are another model's, and no `model` was given.
    """
    try:
        check_closed(file)
        # A byte that is no UTF-8 fails its own line, and not the whole file.
        lines = file.open(encoding="utf-8", errors="surrogateescape", newline="\n")
    except OSError as error:
        raise InputError(f"{file} cannot be read: {error.strerror or error}") from error
    with lines:
        return import_lines(
            lines,
            location,
            name=str(file),
            model=model,
            collection_name=collection_name,
            device=device,
            dtype=dtype,
            api_key=api_key,
            on_progress=on_progress,
        )


def import_lines(
    lines: Iterable[str],
    location: str | PathLike[str],
    *,
    name: str = "stdin",
    model: Model | None = None,
    collection_name: str = "default",
    device: str = "auto",
    dtype: str = "auto",
    api_key: str | None = None,
    on_progress: OnProgress | None = None,
) -> IndexReport:
    """`import_file` for a stream, whose end is only known when it comes.

    Args:
        lines: The lines of an export.
        location: As for `import_file`.
        name: What to call the stream in messages.
        model: As for `import_file`.
        collection_name: As for `import_file`.
        device: As for `import_file`.
        dtype: As for `import_file`.
        api_key: As for `import_file`.
        on_progress: As for `import_file`.

    Raises:
        ReadError: It is no export.
        ContractError: As for `import_file`.
    """
    file = ExportFile(lines, name)
    if model is None:
        _create_as_exported(file, location, collection_name, api_key)
    filterable = file.header.contract.filterable if file.header.contract is not None else None
    with Retriever.open(
        location,
        model=model,
        collection_name=collection_name,
        device=device,
        dtype=dtype,
        api_key=api_key,
        filterable=filterable,
    ) as retriever:
        if _same_vectors(file, retriever):
            steps = import_entries(retriever.store, file, on_progress=on_progress)
            return retriever.store.connection.run(steps)
        if model is None:
            raise ContractError(_other_model(file, retriever))
        passages = (entry.passage for entry in file.entries())
        return retriever.index(passages, on_progress=on_progress, failures=file.failures)


def _create_as_exported(
    file: ExportFile, location: str | PathLike[str], collection_name: str, api_key: str | None
) -> None:
    """Create the collection from the header, without loading its model."""
    connection = connect(location, api_key=api_key)
    store = PassageStore(connection, collection_name)
    try:
        if connection.run(store.exists()):
            return
        if file.header.contract is None:
            raise InputError(
                "the export names no model: say with --model which one to encode its texts with"
            )
        connection.run(store.create(file.header.contract))
    finally:
        connection.close()


def _same_vectors(file: ExportFile, retriever: Retriever) -> bool:
    """Whether the export's vectors are what the collection's model would make."""
    exported = file.header.contract
    identity = retriever.info().identity
    if exported is None or identity is None or identity.dim != file.header.dim:
        return False
    return not exported.model.differences(identity)


def _other_model(file: ExportFile, retriever: Retriever) -> str:
    contract = file.header.contract
    theirs = contract.model.name if contract is not None else "an unknown model"
    ours = retriever.info().model
    return (
        f"the export's vectors were made with {theirs}, those of collection "
        f"{retriever.store.collection_name!r} with {ours}: give --model {ours} to encode the texts "
        "anew, or import into another --collection"
    )


def rebuild(
    location: str | PathLike[str],
    *,
    model: Model,
    collection_name: str = "default",
    device: str = "auto",
    dtype: str = "auto",
    on_progress: OnProgress | None = None,
) -> IndexReport:
    """Encode every stored text with another model; the outcome takes the collection's place.

    The new one grows beside the old, as "<name>.rebuild", and takes its name when it is whole. A
    run that was killed can be run again and goes on where it was; until the end the old
    collection answers as before.

    Args:
        location: A folder.
        model: The new model.
        collection_name: Which collection there.
        device: For the model.
        dtype: For the model.
        on_progress: Called with the report so far.

    Returns:
        The report of encoding; with failures in it, the old collection was left in its place.

    Raises:
        InputError: The location is a server's.
        CollectionNotFoundError: There is no such collection.
    """
    connection = connect(location)
    try:
        if not isinstance(connection.client, EmbeddedClient):
            raise InputError(
                "a collection on a server cannot be rebuilt in place: export it, import it with "
                "--model into another --collection, and switch to that"
            )
        client = connection.client
        report = _rebuilt(client, model, collection_name, device, dtype, on_progress)
        if not report.failed:
            client.replace_collection(collection_name, _beside(collection_name))
        return report
    finally:
        connection.close()


def _beside(collection_name: str) -> str:
    return f"{collection_name}{_REBUILD}"


def _rebuilt(
    client: EmbeddedClient,
    model: Model,
    collection_name: str,
    device: str,
    dtype: str,
    on_progress: OnProgress | None,
) -> IndexReport:
    # The parameter is typed for Qdrant's client; ours has its shape.
    shared = cast("Any", client)
    old = Retriever.open(client=shared, collection_name=collection_name, create=False).store
    facts = old.connection.run(old.facts())
    new = _open_new(
        shared,
        _beside(collection_name),
        model=model,
        device=device,
        dtype=dtype,
        filterable=facts.contract.filterable if facts.contract is not None else None,
    )
    report = new.index(_passages(old), on_progress=on_progress)
    stale = new.store.connection.run(_stale(new.store, old))
    if stale:
        new.delete(stale)
    if not report.failed and new.count() != facts.count:
        raise StoreError(
            f"{new.count():,} of {facts.count:,} passages were encoded: the collection was left as "
            "it is. If something else was writing to it, stop that and run it again"
        )
    return report


def _open_new(client: Any, name: str, **settings: Any) -> Retriever:
    """The collection in the making; one begun with another model is begun anew."""
    if client.collection_exists(name):
        _check_ours(client, name)
    try:
        retriever = Retriever.open(client=client, collection_name=name, **settings)
    except ContractError:
        client.delete_collection(name)
        retriever = Retriever.open(client=client, collection_name=name, **settings)
    client.update_collection(name, metadata={_MARK_KEY: True})
    return retriever


def _check_ours(client: EmbeddedClient, name: str) -> None:
    """Refuse to write over a collection that a user gave this name to."""
    info = client.get_collection(name)
    marked = (info.config.metadata or {}).get(_MARK_KEY) is True
    if info.points_count and not marked:
        raise InputError(
            f"there is a collection {name!r}, which was not made by a rebuild, and the rebuilt one "
            "would be written there. Move it away with export and import first"
        )


def _passages(store: PassageStore) -> Iterator[Passage]:
    offset: str | int | None = None
    while True:
        page, offset = store.connection.run(
            store.scroll(condition=None, limit=_PAGE, offset=offset)
        )
        yield from (passage for passage, _ in page)
        if offset is None:
            return


def _stale(new: PassageStore, old: PassageStore) -> Steps[list[str]]:
    """Ids that an earlier run took over and that the old collection has lost since."""
    stale: list[str] = []
    offset: str | int | None = None
    while True:
        page, offset = yield from new.scroll(condition=None, limit=_PAGE, offset=offset)
        ids = [passage.id for passage, _ in page]
        known = yield from old.fingerprints(ids)
        stale.extend(i for i in ids if i not in known)
        if offset is None:
            return stale
