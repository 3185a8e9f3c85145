"""Qdrant's own snapshot of a collection: made by the server, fetched, and brought back."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
from qdrant_client import models

from sbert_retriever.errors import StoreError, StoreRequestError, StoreUnavailableError
from sbert_retriever.index.connection import Connection
from sbert_retriever.index.steps import Call, call, translated

_BLOCK = 2**20
_WAY_OUT = (
    "take the collection along with `sbert-retriever copy LOCATION FOLDER`, or write it to a file "
    "with `sbert-retriever export`"
)


def check_server(connection: Connection) -> None:
    """Refuse an engine that makes no snapshots.

    Raises:
        StoreError: It is the client's local mode.
    """
    if connection.engine != "server":
        raise StoreError(f"the client's local mode makes no snapshots: {_WAY_OUT}")


def server_version(connection: Connection) -> str:
    """Of the Qdrant that answers."""
    return str(connection.perform(call("info")).version)


def fetch(connection: Connection, collection_name: str, target: Path) -> None:
    """Have a snapshot made, fetch it, check it, and delete it on the server.

    Raises:
        StoreError: The server makes none, or what came is not what it made.
    """
    made = _made(connection, collection_name)
    try:
        path = (
            f"collections/{quote(collection_name, safe='')}/snapshots/{quote(made.name, safe='')}"
        )
        found = _download(connection.client.http.client, path, target)
        if made.checksum not in (None, found):
            raise StoreError(
                f"the snapshot that came has the checksum {found[:12]}..., the server said "
                f"{str(made.checksum)[:12]}...: run it again"
            )
    finally:
        connection.perform(
            call("delete_snapshot", collection_name=collection_name, snapshot_name=made.name)
        )


def upload(connection: Connection, collection_name: str, file: Path, checksum: str) -> None:
    """Bring a collection back from a snapshot, in the place of one of that name.

    Raises:
        StoreRequestError: The server refuses it.
        StoreUnavailableError: The server does not answer.
    """
    with file.open("rb") as snapshot:
        try:
            connection.client.http.snapshots_api.recover_from_uploaded_snapshot(
                collection_name=collection_name,
                wait=True,
                priority=models.SnapshotPriority.SNAPSHOT,
                checksum=checksum,
                snapshot=snapshot,
            )
        except Exception as error:
            raise translated(error) from error


def _made(connection: Connection, collection_name: str) -> models.SnapshotDescription:
    """A new snapshot; it is asked for once: a server whose answer is late makes it all the same.

    Raises:
        StoreError: It makes none, or does not answer in the client's time.
    """
    once = Call("create_snapshot", {"collection_name": collection_name, "wait": True}, deadline_s=0)
    try:
        made = connection.perform(once)
    except StoreUnavailableError as error:
        raise StoreUnavailableError(
            f"{error}. The server may be making the snapshot still, and keeps it then: the "
            "client's list_snapshots and delete_snapshot find and remove it. Give the URL in the "
            "place of the client, or a client with a longer timeout="
        ) from error
    except StoreRequestError as error:
        raise StoreRequestError(f"{error}. Without a snapshot: {_WAY_OUT}") from error
    if made is None:
        raise StoreError(f"the server made no snapshot: {_WAY_OUT}")
    return made  # type: ignore[no-any-return]  # what the client's call returns


def _download(api: Any, path: str, target: Path) -> str:
    """Stream it to a file; its SHA-256.

    The client's own call would read all of it into memory and expect JSON; what lies below that
    call knows the key, the certificates and the time limit.
    """
    digest = hashlib.sha256()
    url = f"{api.host.rstrip('/')}/{path}"
    try:
        with api._client.stream("GET", url) as response, target.open("wb") as file:
            if response.status_code != httpx.codes.OK:
                raise StoreRequestError(
                    f"the server refused to hand out its snapshot ({response.status_code}): "
                    f"{_WAY_OUT}"
                )
            for block in response.iter_bytes(_BLOCK):
                digest.update(block)
                file.write(block)
    except httpx.HTTPError as error:
        raise translated(error) from error
    return digest.hexdigest()
