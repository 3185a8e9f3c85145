"""`rebuild`: another model for a collection, while the old one goes on answering."""

from __future__ import annotations

import shutil
from contextlib import closing
from dataclasses import replace
from typing import Any

from sbert_retriever.errors import ContractError, InputError, StoreError
from sbert_retriever.index.connection import Connection
from sbert_retriever.index.contract import REBUILD_KEY, companions, profile_from_metadata
from sbert_retriever.index.edge.description import NOTES_FILE
from sbert_retriever.index.facts import CollectionFacts
from sbert_retriever.index.steps import call
from sbert_retriever.index.store import PassageStore
from sbert_retriever.retriever import Retriever
from sbert_retriever.transfer.places import (
    Model,
    OnProgress,
    Place,
    client_of,
    connected,
    existing,
    is_there,
    words_of,
)
from sbert_retriever.transfer.switching import Switch, switch_at
from sbert_retriever.transfer.walking import missing_from, passages
from sbert_retriever.types import IndexReport

_REBUILD = ".rebuild"
_CATCH_UPS = 5


def rebuild(
    location: Place,
    *,
    model: Model,
    collection_name: str = "default",
    alias: str | None = None,
    drop_old: bool = False,
    device: str = "auto",
    dtype: str = "auto",
    api_key: str | None = None,
    on_progress: OnProgress | None = None,
) -> IndexReport:
    """Encode every stored text with another model; the outcome takes the collection's place.

    The new one grows beside the old, as "<name>.rebuild", and takes its name in one instant when
    it is whole; the old one is kept as "<name>.old". A run that was killed can be run again and
    goes on where it was. Readers see no gap: what has the collection open goes on with the old
    one, what opens it after the switch gets the new one.

    Args:
        location: A folder, a URL or a QdrantClient.
        model: The new model.
        collection_name: Which collection there; on a server, the alias that readers use.
        alias: On a server, where the collection goes by the name that it was created with: the
            alias that readers are to use from now on.
        drop_old: Delete the old one after the switch, and an older one that is still kept.
        device: For the model.
        dtype: For the model.
        api_key: For a URL; None reads QDRANT_API_KEY.
        on_progress: Called with the report so far.

    Returns:
        The report of encoding; with failures in it, the old collection was left in its place.

    Raises:
        CollectionNotFoundError: There is no such collection.
        InputError: The name cannot be switched, or an older one is still kept.
        StoreError: Something keeps writing to the old one.
    """
    with closing(connected(location, api_key=api_key)) as connection:
        old, facts = existing(connection, collection_name)
        connection.run(old.refuse_tenants("a rebuild"))
        if alias is not None and connection.embedded:
            raise InputError("a folder's collection keeps its name: leave the alias out")
        name = collection_name if alias is None else alias
        switch = switch_at(connection, name, old=collection_name)
        switch.check(drop_old=drop_old)
        new = _open_new(
            connection,
            switch.free_name(f"{name}{_REBUILD}"),
            model=model,
            device=device,
            dtype=dtype,
            filterable=facts.contract.filterable if facts.contract is not None else None,
            sparse=words_of(facts, device=device, dtype=dtype),
            storage=facts.storage,
        )
        return _rebuilt(old, facts, new, switch, drop_old, on_progress)


def _rebuilt(
    old: PassageStore,
    facts: CollectionFacts,
    new: Retriever,
    switch: Switch,
    drop_old: bool,
    on_progress: OnProgress | None,
) -> IndexReport:
    """Bring the new one in line until nothing was written to the old one meanwhile; switch."""
    profile = profile_from_metadata(facts.metadata)
    report, first = IndexReport(), True
    for _ in range(_CATCH_UPS):
        unwritten = _writes(old)
        report = _joined(report, _brought_in_line(old, new, on_progress), first=first)
        if report.failed:
            return report
        if unwritten is None and first:
            first = False
            continue  # a server counts no writes: look once more
        first = False
        _check_count(old, new, unwritten)
        if profile is not None:
            new.save_profile(profile)
        new.store.connection.run(new.store.save_companions(companions(facts.metadata)))
        _take_notes_along(old, new.store)
        to = new.store.collection_name
        if switch.make(to, drop_old=drop_old, unwritten=unwritten):
            _mark(old.connection, switch.now_named(to), in_the_making=False)
            return report
    raise StoreError(
        f"something keeps writing to {old.collection_name!r}, and the new collection never caught "
        "up: stop that and run this again; what was encoded is kept"
    )


def _take_notes_along(old: PassageStore, new: PassageStore) -> None:
    """Copy what users said of an FAQ: it is deleted with the old collection's folder."""
    if not old.connection.embedded:
        return
    names = [old.collection_name, new.collection_name]
    with old.connection.client.frozen(names) as folders:
        notes = folders[old.collection_name] / NOTES_FILE
        if notes.is_file():
            shutil.copy(notes, folders[new.collection_name] / NOTES_FILE)


def _writes(old: PassageStore) -> dict[str, int] | None:
    if not old.connection.embedded:
        return None
    return {old.collection_name: old.connection.client.writes(old.collection_name)}


def _brought_in_line(
    old: PassageStore, new: Retriever, on_progress: OnProgress | None
) -> IndexReport:
    report = new.index(passages(old), on_progress=on_progress)
    stale = new.store.connection.run(missing_from(old, new.store))
    return replace(report, deleted=new.delete(stale) if stale else 0)


def _joined(before: IndexReport, report: IndexReport, *, first: bool) -> IndexReport:
    if first:
        return report
    return replace(
        report,
        unchanged=before.unchanged,
        **{
            name: getattr(before, name) + getattr(report, name)
            for name in ("added", "updated", "deleted", "encoded", "truncated", "seconds")
        },
    )


def _check_count(old: PassageStore, new: Retriever, unwritten: dict[str, int] | None) -> None:
    count = old.connection.run(old.count(None))
    if new.count() != count and _writes(old) == unwritten:
        raise StoreError(
            f"{new.count():,} of {count:,} passages were encoded: the collection was left as it "
            "is. If something else was writing to it, stop that and run it again"
        )


def _open_new(connection: Connection, name: str, **settings: Any) -> Retriever:
    """The collection in the making; one begun with another model is begun anew."""
    client = client_of(connection)
    if is_there(connection, name):
        _check_ours(connection, name)
    try:
        retriever = Retriever.open(
            client=client, collection_name=name, retry=connection.retry, **settings
        )
    except ContractError:
        connection.perform(call("delete_collection", collection_name=name))
        retriever = Retriever.open(
            client=client, collection_name=name, retry=connection.retry, **settings
        )
    _mark(connection, name, in_the_making=True)
    return retriever


def _mark(connection: Connection, name: str, *, in_the_making: bool) -> None:
    """Say that a collection is a rebuild's, which may write over it, or that it is one's own."""
    marked = {REBUILD_KEY: in_the_making}
    connection.perform(call("update_collection", collection_name=name, metadata=marked))


def _check_ours(connection: Connection, name: str) -> None:
    """Refuse to write over a collection that a user gave this name to."""
    _, facts = existing(connection, name)
    if facts.count and facts.metadata.get(REBUILD_KEY) is not True:
        raise InputError(
            f"there is a collection {name!r}, which was not made by a rebuild, and the rebuilt one "
            "would be written there. Move it away with copy and drop first"
        )
