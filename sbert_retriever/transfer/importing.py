"""An export into a collection."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing
from os import PathLike
from pathlib import Path
from typing import Protocol

from sbert_retriever.errors import ContractError, InputError
from sbert_retriever.index.connection import connect
from sbert_retriever.index.store import PassageStore
from sbert_retriever.ingest.exchange import Entry, ExportFile, ExportHeader, check_closed
from sbert_retriever.ingest.restore import import_entries
from sbert_retriever.retriever import Retriever
from sbert_retriever.sparse import encoder_of_identity
from sbert_retriever.transfer.places import Model, OnProgress, is_there
from sbert_retriever.types import Failure, IndexReport


class Exported(Protocol):
    """Passages with the vectors that one model made, and what is known of it.

    Attributes:
        failures: What is wrong with entries read so far.
    """

    failures: list[Failure]

    @property
    def header(self) -> ExportHeader:
        """What made the vectors."""

    def entries(self) -> Iterator[Entry]:
        """The passages; what cannot be used is added to `failures`, and the rest goes on."""


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
    `model`, the texts are encoded anew. A collection that is created keeps the words (BM25,
    SPLADE) that the exported one kept. It can be killed and run again.

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
    return import_exported(
        ExportFile(lines, name),
        location,
        model=model,
        collection_name=collection_name,
        device=device,
        dtype=dtype,
        api_key=api_key,
        on_progress=on_progress,
    )


def import_exported(
    file: Exported,
    location: str | PathLike[str],
    *,
    model: Model | None = None,
    collection_name: str = "default",
    device: str = "auto",
    dtype: str = "auto",
    api_key: str | None = None,
    on_progress: OnProgress | None = None,
) -> IndexReport:
    """`import_file` for passages and vectors of any file format.

    Args:
        file: An export that is open.
        location: As for `import_file`.
        model: As for `import_file`.
        collection_name: As for `import_file`.
        device: As for `import_file`.
        dtype: As for `import_file`.
        api_key: As for `import_file`.
        on_progress: As for `import_file`.

    Raises:
        ContractError: As for `import_file`.
    """
    contract = file.header.contract
    there = _there(file, location, collection_name, api_key, create=model is None)
    filterable = contract.filterable if contract is not None else None
    words = contract.sparse if contract is not None and not there else None
    sparse = None if words is None else encoder_of_identity(words, device=device, dtype=dtype)
    with Retriever.open(
        location,
        model=model,
        collection_name=collection_name,
        device=device,
        dtype=dtype,
        api_key=api_key,
        filterable=filterable,
        sparse=sparse,
    ) as retriever:
        if _same_vectors(file, retriever):
            steps = import_entries(
                retriever.store, file.entries(), failures=file.failures, on_progress=on_progress
            )
            return retriever.store.connection.run(steps)
        if model is None:
            raise ContractError(_other_model(file, retriever))
        passages = (entry.passage for entry in file.entries())
        return retriever.index(passages, on_progress=on_progress, failures=file.failures)


def _there(
    file: Exported,
    location: str | PathLike[str],
    collection_name: str,
    api_key: str | None,
    *,
    create: bool,
) -> bool:
    """Whether the collection is there; where asked, it is created from the header, by no model."""
    with closing(connect(location, api_key=api_key)) as connection:
        there = is_there(connection, collection_name)
        if there or not create:
            return there
        if file.header.contract is None:
            raise InputError(
                "the export names no model: say with --model which one to encode its texts with"
            )
        connection.run(PassageStore(connection, collection_name).create(file.header.contract))
        return True


def _same_vectors(file: Exported, retriever: Retriever) -> bool:
    """Whether the export's vectors are what the collection's model would make."""
    exported = file.header.contract
    identity = retriever.info().identity
    if exported is None or identity is None or identity.dim != file.header.dim:
        return False
    return not exported.model.differences(identity)


def _other_model(file: Exported, retriever: Retriever) -> str:
    contract = file.header.contract
    theirs = contract.model.name if contract is not None else "an unknown model"
    ours = retriever.info().model
    return (
        f"the export's vectors were made with {theirs}, those of collection "
        f"{retriever.store.collection_name!r} with {ours}: give --model {ours} to encode the texts "
        "anew, or import into another --collection"
    )
