"""Give a collection's name to another collection, in one instant, and keep the old one.

A folder keeps pointers, a server has aliases. Who reads through the switch goes on reading what it
opened, until it opens the name again.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from shlex import quote
from typing import Any, Protocol

from qdrant_client import models

from sbert_retriever.errors import InputError, StoreError, StoreRequestError
from sbert_retriever.index.connection import Connection
from sbert_retriever.index.embedded import EmbeddedClient
from sbert_retriever.index.steps import call
from sbert_retriever.transfer.places import Place, aliases_at, connected, existing, is_there


def switch_collection(
    location: Place,
    collection_name: str,
    to_collection_name: str,
    *,
    drop_old: bool = False,
    api_key: str | None = None,
) -> None:
    """Let a name mean another collection from now on; the one before it becomes "<name>.old".

    Switching to "<name>.old" goes back. On a server the name is an alias, which is made where it
    is absent; it cannot be the name that a collection there was created with.

    Args:
        location: A folder, a URL or a QdrantClient.
        collection_name: The name that readers use.
        to_collection_name: What it is to mean. In a folder, that collection loses its own name.
        drop_old: Delete the one before, and an older one that is still kept.
        api_key: For a URL; None reads QDRANT_API_KEY.

    Raises:
        CollectionNotFoundError: There is no collection to switch to.
        InputError: An older one is still kept, or the name cannot be switched.
    """
    with closing(connected(location, api_key=api_key)) as connection:
        existing(connection, to_collection_name)
        chosen = switch_at(connection, collection_name)
        if to_collection_name == collection_name:
            raise InputError(f"{collection_name!r} is what it means already: name another")
        chosen.check(drop_old=drop_old, back=to_collection_name == old_name(collection_name))
        chosen.make(to_collection_name, drop_old=drop_old)


def drop_collection(location: Place, collection_name: str, *, api_key: str | None = None) -> int:
    """Delete a collection with all it holds; how many passages there were, 0 of a damaged one.

    Args:
        location: A folder, a URL or a QdrantClient.
        collection_name: Its name, or an alias of it.
        api_key: For a URL; None reads QDRANT_API_KEY.

    Raises:
        CollectionNotFoundError: There is none.
    """
    with closing(connected(location, api_key=api_key)) as connection:
        try:
            count = existing(connection, collection_name)[1].count
        except StoreRequestError:
            if not connection.embedded:
                raise
            count = 0  # its engine cannot open it
        name = aliases_at(connection).get(collection_name, collection_name)
        connection.perform(call("delete_collection", collection_name=name))
        return count


def old_name(collection_name: str) -> str:
    """What the collection is called that a switch took the name from."""
    return f"{collection_name}.old"


class Switch(Protocol):
    """How a place gives a name to another collection."""

    def check(self, *, drop_old: bool, back: bool = False) -> None:
        """Refuse before anything is done what `make` would refuse.

        Raises:
            InputError: An older collection is still kept, or the name cannot be switched.
        """

    def free_name(self, wanted: str) -> str:
        """The first of "<wanted>", "<wanted>.2", ... that no alias means."""

    def make(self, to: str, *, drop_old: bool, unwritten: Mapping[str, int] | None = None) -> bool:
        """Switch; False where something was written since `unwritten` was counted.

        Raises:
            StoreError: The names mean something else than when this was made.
        """

    def now_named(self, to: str) -> str:
        """The name, after `make`, of the collection that was called `to`."""


def switch_at(connection: Connection, collection_name: str, *, old: str | None = None) -> Switch:
    """The switch of a place.

    Args:
        connection: To the place.
        collection_name: The name that readers use.
        old: On a server, the collection to keep as the old one where the name is new.
    """
    if isinstance(connection.client, EmbeddedClient):
        return _Pointer(connection.client, collection_name)
    return _Alias(connection, collection_name, old)


class _Pointer:
    def __init__(self, client: EmbeddedClient, name: str) -> None:
        self._client = client
        self._name = name
        self._old = old_name(name)

    def check(self, *, drop_old: bool, back: bool = False) -> None:
        if not (drop_old or back) and self._client.collection_exists(self._old):
            raise _still_kept(self._name)

    def free_name(self, wanted: str) -> str:
        return wanted

    def make(self, to: str, *, drop_old: bool, unwritten: Mapping[str, int] | None = None) -> bool:
        client = self._client
        if drop_old and to != self._old:
            client.delete_collection(self._old)
        names = {self._name: to}
        if client.collection_exists(self._name):
            names[self._old] = self._name
        if not client.rename_collections(names, unwritten=unwritten):
            return False
        if drop_old:
            client.delete_collection(self._old)
        return True

    def now_named(self, to: str) -> str:
        return self._name


class _Alias:
    def __init__(self, connection: Connection, name: str, old: str | None) -> None:
        self._connection = connection
        self._name = name
        self._old = old_name(name)
        self._known = aliases_at(connection)
        self._before = self._known.get(name, self._known.get(old or "", old))

    def check(self, *, drop_old: bool, back: bool = False) -> None:
        if self._name not in self._known and is_there(self._connection, self._name):
            raise InputError(
                f"{self._name!r} is the name that a collection on the server was created with, and "
                "only an alias can be switched: give another name as --alias, and let readers use "
                "that"
            )
        if drop_old or back:
            return
        if is_there(self._connection, self._old):
            raise _still_kept(self._name)

    def free_name(self, wanted: str) -> str:
        meant = {*self._known.values()}
        name, number = wanted, 2
        while name in meant:
            name, number = f"{wanted}.{number}", number + 1
        return name

    def make(self, to: str, *, drop_old: bool, unwritten: Mapping[str, int] | None = None) -> bool:
        known, target = self._known, self._known.get(to, to)
        self._check_unchanged()
        changes: list[Any] = [_unalias(n) for n in (self._name, self._old) if n in known]
        changes.append(_alias(self._name, target))
        if self._before is not None:
            changes.append(_alias(self._old, self._before))
        self._connection.perform(
            call("update_collection_aliases", change_aliases_operations=changes)
        )
        older = known.get(self._old) if to != self._old else None
        for name in dict.fromkeys((older, self._before)):
            if drop_old and name not in (None, target):
                self._connection.perform(call("delete_collection", collection_name=name))
        return True

    def now_named(self, to: str) -> str:
        return to

    def _check_unchanged(self) -> None:
        """Refuse where the names mean something else by now: hours may lie between.

        Raises:
            StoreError: Somebody switched them meanwhile.
        """
        now = aliases_at(self._connection)
        for name in (self._name, self._old):
            if now.get(name) != self._known.get(name):
                raise StoreError(
                    f"{name!r} means {now.get(name)!r} by now, and meant {self._known.get(name)!r} "
                    "when this began: nothing was switched. Look which collection it is to mean, "
                    "and run this again"
                )


def _still_kept(name: str) -> InputError:
    return InputError(
        f"the collection that {name!r} meant before is still kept as {old_name(name)!r}: drop it "
        f"first (`sbert-retriever drop LOCATION --collection {quote(old_name(name))} --yes`), or "
        "give --drop-old"
    )


def _alias(name: str, collection_name: str) -> models.CreateAliasOperation:
    made = models.CreateAlias(alias_name=name, collection_name=collection_name)
    return models.CreateAliasOperation(create_alias=made)


def _unalias(name: str) -> models.DeleteAliasOperation:
    return models.DeleteAliasOperation(delete_alias=models.DeleteAlias(alias_name=name))
