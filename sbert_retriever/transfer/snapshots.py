"""`snapshot` and `restore`: collections as one file with checksums, and back."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from os import PathLike
from pathlib import Path
from typing import Any

import portalocker

from sbert_retriever.counting import counted
from sbert_retriever.errors import InputError, ReadError, StoreError
from sbert_retriever.index.connection import Connection
from sbert_retriever.index.embedded import EmbeddedClient
from sbert_retriever.transfer.archive import Archive, opened, write_archive
from sbert_retriever.transfer.places import Place, aliases_at, connected, existing, is_there
from sbert_retriever.transfer.server_snapshots import check_server, fetch, server_version, upload

ENGINE = "qdrant-edge"
SERVER = "qdrant-server"
_STAGING = "+restoring."
_SERVER_FILE = "qdrant.snapshot"
_LOCK_FILE = "lock"
_SERVER_TIMEOUT_S = 3600


@dataclass(frozen=True, kw_only=True)
class SnapshotReport:
    """What a snapshot holds.

    Args:
        collections: {name: passages}.
        bytes: Of the file.
        engine: What the files are for.
    """

    collections: Mapping[str, int]
    bytes: int
    engine: str

    def __str__(self) -> str:
        held = ", ".join(
            f"{name!r} ({counted(count, 'passage')})" for name, count in self.collections.items()
        )
        return f"{held}; {self.bytes / 1e6:,.1f} MB, {self.engine}"


def snapshot(
    location: Place,
    file: str | PathLike[str],
    *,
    collection_name: str | None = None,
    api_key: str | None = None,
) -> SnapshotReport:
    """Write collections, index and all, into one file with the checksum of every part.

    A folder's collections are flushed and held still meanwhile; of a server, Qdrant's own snapshot
    is fetched. The file gets its name when it is whole.

    Args:
        location: A folder, a URL or a QdrantClient.
        file: The archive; compressed unless its name ends in ".tar".
        collection_name: Which one; None is every collection of a folder.
        api_key: For a URL; None reads QDRANT_API_KEY.

    Raises:
        CollectionNotFoundError: There is no such collection.
        InputError: The file would lie in a collection; or a server's collection is not named.
        StoreError: The file cannot be written; or the engine makes no snapshots.
    """
    target = Path(file)
    _check_place(target)
    with closing(_connected(location, api_key)) as connection:
        if not isinstance(connection.client, EmbeddedClient):
            return _of_server(connection, target, collection_name)
        names = _names(connection.client, collection_name)
        with connection.client.frozen(names) as folders:
            counts = {name: connection.client.count(name).count for name in names}
            _check_outside(target, folders.values())
            members = _members(folders)
            facts = _facts(counts, engine=f"{ENGINE} {version('qdrant-edge-py')}")
            size = write_archive(target, facts, members)
    return SnapshotReport(collections=counts, bytes=size, engine=facts["engine"])


def restore(
    file: str | PathLike[str],
    location: Place,
    *,
    replace: bool = False,
    api_key: str | None = None,
) -> SnapshotReport:
    """Bring the collections of a snapshot back, all of it or nothing.

    Everything is unpacked beside, checked against its checksum and opened by the engine before
    anything is put in place.

    Args:
        file: What `snapshot` wrote.
        location: A folder, a URL or a QdrantClient; of the kind that the snapshot was made of.
        replace: Drop collections of the same names. What reads them goes on until it is closed.
        api_key: For a URL; None reads QDRANT_API_KEY.

    Returns:
        What was restored.

    Raises:
        InputError: A collection of that name is there; or the snapshot is for the other engine.
        ReadError: The file is no snapshot, damaged, or would write outside its place.
        StoreError: The engine cannot use what was unpacked.
        StoreLockedError: Another process holds a collection that is to be replaced.
    """
    with (
        opened(Path(file)) as archive,
        closing(_connected(location, api_key)) as connection,
    ):
        counts = _counts(archive, str(file))
        _check_absent(connection, list(counts), replace=replace)
        if isinstance(connection.client, EmbeddedClient):
            _check_engine(archive, str(file), ENGINE)
            _into_folder(archive, connection.client, counts)
        else:
            check_server(connection)
            _check_engine(archive, str(file), SERVER)
            _onto_server(archive, connection, list(counts))
        return SnapshotReport(
            collections=counts,
            bytes=Path(file).stat().st_size,
            engine=str(archive.facts.get("engine")),
        )


def _connected(location: Place, api_key: str | None) -> Connection:
    return connected(location, api_key=api_key, timeout_s=_SERVER_TIMEOUT_S)


def _names(client: EmbeddedClient, collection_name: str | None) -> list[str]:
    if collection_name is not None:
        return [collection_name]
    names = [c.name for c in client.get_collections().collections]
    if not names:
        raise InputError(f"there is no collection in {client.folder}: nothing to take")
    return names


def _check_place(target: Path) -> None:
    """Refuse a place that takes no file before anything is asked of a server or read."""
    with _told(target):
        takes_one = not target.is_dir() and target.resolve().parent.is_dir()
    if not takes_one:
        raise StoreError(f"{target} cannot be written: name a file in a folder that is there")


@contextmanager
def _told(target: Path) -> Iterator[None]:
    """What the system refuses of a place, in a sentence."""
    try:
        yield
    except OSError as error:
        raise StoreError(f"{target} cannot be written: {error.strerror or error}") from error


def _check_outside(target: Path, folders: Any) -> None:
    for folder in folders:
        if folder in target.resolve().parents:
            raise InputError(f"{target} would lie in a collection's own folder: name another place")


def _members(folders: Mapping[str, Path]) -> dict[str, Path]:
    """{path in the archive: file}; each collection in a numbered folder."""
    return {
        f"{number}/{path.relative_to(folder).as_posix()}": path
        for number, folder in enumerate(folders.values())
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path != folder / _LOCK_FILE
    }


def _facts(counts: Mapping[str, int], *, engine: str) -> dict[str, Any]:
    return {
        "engine": engine,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "collections": [
            {"name": name, "folder": str(number), "count": count}
            for number, (name, count) in enumerate(counts.items())
        ],
    }


def _counts(archive: Archive, name: str) -> dict[str, int]:
    try:
        return {str(c["name"]): int(c["count"]) for c in archive.facts["collections"]}
    except (KeyError, TypeError, ValueError) as error:
        raise ReadError(f"{name}: the manifest is damaged ({error})") from error


def _check_absent(connection: Connection, names: Sequence[str], *, replace: bool) -> None:
    there = [] if replace else [name for name in names if is_there(connection, name)]
    if there:
        raise InputError(
            f"{connection.location} has a collection {there[0]!r} already: give --replace to drop "
            "it, or restore into another place"
        )


def _check_engine(archive: Archive, name: str, wanted: str) -> None:
    engine = str(archive.facts.get("engine"))
    if not engine.startswith(f"{wanted} "):
        kinds = {ENGINE: "a folder", SERVER: "a server"}
        other = SERVER if wanted == ENGINE else ENGINE
        raise InputError(
            f"{name} is a snapshot of {engine}, and this is {kinds[wanted]}: restore it into "
            f"{kinds[other]}, and `sbert-retriever copy` from there"
        )


def _into_folder(archive: Archive, client: EmbeddedClient, counts: Mapping[str, int]) -> None:
    with _staging(client.folder) as staging:
        archive.unpack(staging)
        folders = {name: str(number) for number, name in enumerate(counts)}
        _check_usable(staging, {folders[name]: count for name, count in counts.items()}, archive)
        client.adopt_collections({name: staging / folder for name, folder in folders.items()})


@contextmanager
def _staging(location: Path) -> Iterator[Path]:
    """A folder on the same disk that is no collection; what killed runs left is removed."""
    new = not location.exists()
    location.mkdir(parents=True, exist_ok=True)
    for left in location.glob(f"{_STAGING}*"):
        _remove_unheld(left)
    staging = Path(tempfile.mkdtemp(prefix=_STAGING, dir=location))
    with (staging / _LOCK_FILE).open("a+", encoding="utf-8") as lock:
        portalocker.lock(lock, portalocker.LOCK_EX | portalocker.LOCK_NB)
        try:
            yield staging
        finally:
            shutil.rmtree(staging, ignore_errors=True)
            if new and not any(location.iterdir()):
                location.rmdir()


def _remove_unheld(staging: Path) -> None:
    with suppress(OSError, portalocker.LockException):
        with (staging / _LOCK_FILE).open("r+", encoding="utf-8") as lock:
            portalocker.lock(lock, portalocker.LOCK_EX | portalocker.LOCK_NB)
        shutil.rmtree(staging)


def _check_usable(staging: Path, counts: Mapping[str, int], archive: Archive) -> None:
    """Let the engine open what was unpacked, and count."""
    with closing(EmbeddedClient(staging)) as client:
        for name, count in counts.items():
            try:
                found = client.get_collection(name).points_count
            except StoreError as error:
                raise StoreError(
                    f"the engine cannot open what was unpacked (made by {archive.facts['engine']}, "
                    f"this is {ENGINE} {version('qdrant-edge-py')}): {error}. Nothing was restored"
                ) from error
            if found != count:
                raise StoreError(
                    f"the snapshot says {counted(count, 'passage')}, and the engine finds "
                    f"{found:,}. "
                    "Nothing was restored"
                )


# Servers --------------------------------------------------------------------------------


def _of_server(connection: Connection, target: Path, name: str | None) -> SnapshotReport:
    check_server(connection)
    if name is None:
        raise InputError("a server may hold much else: name the collection with --collection")
    count = existing(connection, name)[1].count
    known = aliases_at(connection).get(name, name)
    engine = f"{SERVER} {server_version(connection)}"
    with ExitStack() as opened_files:
        with _told(target):
            parent = target.resolve().parent.resolve(strict=True)
            folder = opened_files.enter_context(_staging(parent))
        fetched = folder / _SERVER_FILE
        fetch(connection, known, fetched)
        facts = _facts({name: count}, engine=engine)
        size = write_archive(target, facts, {f"0/{_SERVER_FILE}": fetched})
    return SnapshotReport(collections={name: count}, bytes=size, engine=engine)


def _onto_server(archive: Archive, connection: Connection, names: Sequence[str]) -> None:
    aliases = aliases_at(connection)
    for name in names:
        if name in aliases:
            raise InputError(
                f"{name!r} is an alias on the server, of {aliases[name]!r}: restoring needs the "
                "name itself; drop the alias first"
            )
    with tempfile.TemporaryDirectory(prefix="sbert-retriever-") as folder:
        archive.unpack(Path(folder))
        for number, name in enumerate(names):
            path = f"{number}/{_SERVER_FILE}"
            checksum = archive.facts["files"][path]["sha256"]
            upload(connection, name, Path(folder) / path, checksum)
