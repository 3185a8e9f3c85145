"""Where a collection lies: a folder, a URL or a client, and whether two of them are one."""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias, cast
from urllib.parse import urlsplit

from qdrant_client import QdrantClient

from sbert_retriever.errors import CollectionNotFoundError, InputError, StoreUnavailableError
from sbert_retriever.index.connection import Connection, connect
from sbert_retriever.index.facts import CollectionFacts
from sbert_retriever.index.steps import Steps, call
from sbert_retriever.index.store import PassageStore
from sbert_retriever.sparse import encoder_of_identity
from sbert_retriever.types import Encoder, IndexReport, SparseEncoder

Place: TypeAlias = str | PathLike[str] | QdrantClient
Model: TypeAlias = str | PathLike[str] | Encoder
OnProgress: TypeAlias = Callable[[IndexReport], None]

_PORTS = {"http": 6333, "https": 6333}
_LOOPBACK = {"127.0.0.1", "::1", "localhost"}


def connected(
    place: Place, *, api_key: str | None = None, timeout_s: int | None = None
) -> Connection:
    """Connect to a place; a client that was given stays open when the connection is closed."""
    if isinstance(place, str | PathLike):
        return connect(place, api_key=api_key, timeout_s=timeout_s)
    return connect(None, client=place)


def client_of(connection: Connection) -> QdrantClient:
    """The client, in the type that a `Retriever` is opened with; the embedded one has its shape."""
    return cast("QdrantClient", connection.client)


def aliases_at(connection: Connection) -> dict[str, str]:
    """The aliases of a server, and the collections they mean; a folder has none."""

    def steps() -> Steps[Any]:
        return (yield call("get_aliases"))

    if connection.embedded:
        return {}
    return {a.alias_name: a.collection_name for a in connection.run_first(steps()).aliases}


def is_there(connection: Connection, collection_name: str) -> bool:
    """Whether a place has a collection, or an alias, of that name.

    Raises:
        StoreUnavailableError: No server answered within a few seconds.
    """
    try:
        return connection.run_first(PassageStore(connection, collection_name).exists())
    except StoreUnavailableError as error:
        raise StoreUnavailableError(
            f"{error}. Check that a Qdrant server runs at {connection.location}"
        ) from error


def existing(connection: Connection, collection_name: str) -> tuple[PassageStore, CollectionFacts]:
    """A collection that must be there, and what its engine says of it.

    Raises:
        CollectionNotFoundError: It is not.
        StoreUnavailableError: No server answered within a few seconds.
    """
    store = PassageStore(connection, collection_name)
    if not is_there(connection, collection_name):
        raise CollectionNotFoundError(
            f"there is no collection {collection_name!r} at {connection.location}: name one that "
            "is there"
        )
    connection.run(store.pin())
    return store, connection.run(store.facts())


def words_of(
    facts: CollectionFacts, *, device: str = "auto", dtype: str = "auto"
) -> SparseEncoder | None:
    """What makes a collection's sparse vectors, for another that is to have the same.

    Args:
        facts: Of the collection.
        device: For a model that is loaded.
        dtype: For a model that is loaded.

    Raises:
        ModelError: It cannot be made from what the collection remembers.
    """
    contract = facts.contract
    if contract is None or contract.sparse is None:
        return None
    return encoder_of_identity(contract.sparse, device=device, dtype=dtype)


def check_apart(source: Connection, name: str, target: Connection, to_name: str) -> None:
    """Refuse two names of one collection.

    Raises:
        InputError: They are one.
    """
    if _where(source) != _where(target):
        return
    known = aliases_at(source) if name != to_name else {}
    if known.get(name, name) == known.get(to_name, to_name):
        raise InputError(
            f"{source.location} and {target.location} are one place, and {name!r} there would be "
            "copied onto itself: name another --to-collection, or another place"
        )


def same_server(source: Connection, target: Connection) -> bool:
    """Whether both ends are one place."""
    return _where(source) == _where(target)


def _where(connection: Connection) -> object:
    if connection.embedded:
        return Path(connection.client.folder).resolve()
    if not connection.location.startswith(("http://", "https://")):
        return id(connection.client)
    parts = urlsplit(connection.location)
    host = (parts.hostname or "").rstrip(".")
    port = parts.port or _PORTS[parts.scheme]
    return ("loopback" if host in _LOOPBACK else host, port, parts.path.rstrip("/"))
