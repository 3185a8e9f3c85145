"""`copy_collection`: from one place to another, or to another model."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from sbert_retriever.errors import ContractError, InputError
from sbert_retriever.index.connection import Connection
from sbert_retriever.index.contract import Contract, companions, profile_from_metadata
from sbert_retriever.index.facts import CollectionFacts
from sbert_retriever.index.payload_indexes import index_fields
from sbert_retriever.index.steps import Steps
from sbert_retriever.index.store import PassageStore
from sbert_retriever.ingest.restore import import_entries
from sbert_retriever.retriever import Retriever
from sbert_retriever.sparse.identities import described_sparse, same_sparse
from sbert_retriever.transfer.checking import Checked, check
from sbert_retriever.transfer.places import (
    Model,
    OnProgress,
    Place,
    check_apart,
    client_of,
    connected,
    existing,
    is_there,
    same_server,
    words_of,
)
from sbert_retriever.transfer.walking import Sample, entries, missing_from, passages
from sbert_retriever.types import IndexReport

TO_API_KEY = "QDRANT_TO_API_KEY"


@dataclass(frozen=True, kw_only=True)
class CopyReport:
    """What a copy did, and how it was checked.

    Args:
        index: What was written.
        checked: What was compared afterwards.
        encoded_anew: Whether the texts were encoded with another model.
        profile: Whether a saved profile went along.
    """

    index: IndexReport
    checked: Checked
    encoded_anew: bool
    profile: bool

    def __str__(self) -> str:
        return f"{self.index}; {self.checked}"


def copy_collection(
    source: Place,
    target: Place,
    *,
    collection_name: str = "default",
    to_collection_name: str | None = None,
    model: Model | None = None,
    device: str = "auto",
    dtype: str = "auto",
    api_key: str | None = None,
    to_api_key: str | None = None,
    prune: bool = False,
    sample: int = 100,
    on_progress: OnProgress | None = None,
) -> CopyReport:
    """Copy a collection: folder or server to folder or server, or to another model.

    Contract, filterable fields and saved profile go along. Vectors are kept where the model is the
    same, and no model is then loaded. It can be killed and run again, and goes on where it was.

    Args:
        source: A folder, a URL or a QdrantClient.
        target: Likewise.
        collection_name: Which collection at the source.
        to_collection_name: What it is to be called at the target; None is the same name.
        model: Encode the texts anew with this one; None keeps the vectors.
        device: For a model that is loaded.
        dtype: For a model that is loaded.
        api_key: For the source's URL; None reads QDRANT_API_KEY.
        to_api_key: For the target's URL; None reads QDRANT_TO_API_KEY, and QDRANT_API_KEY unless
            the source is another server, whose key it is then.
        prune: Delete what the target holds and the source does not.
        sample: How many passages are compared on both sides at the end.
        on_progress: Called with the report so far.

    Returns:
        What was written and compared.

    Raises:
        CollectionNotFoundError: There is no such collection at the source.
        ContractError: The target holds another model's vectors.
        InputError: Both are one collection; or the source names no model and none was given.
        StoreError: The copy differs from the original; with the difference.
    """
    to_name = collection_name if to_collection_name is None else to_collection_name
    with closing(connected(source, api_key=api_key)) as here:
        key = _target_key(here, target, to_api_key)
        with closing(connected(target, api_key=key)) as there:
            check_apart(here, collection_name, there, to_name)
            original, facts = existing(here, collection_name)
            here.run(original.refuse_tenants("a copy"))
            settings = {"model": model, "device": device, "dtype": dtype}
            copy = _opened(there, to_name, facts, settings)
            return _copied(original, facts, copy, prune, sample, on_progress)


def _target_key(here: Connection, target: Place, given: str | None) -> str | None:
    """The target's key; the one in QDRANT_API_KEY is never sent to a second server."""
    if given is not None:
        return given
    if (own := os.environ.get(TO_API_KEY)) is not None:
        return own
    if here.engine != "server":
        return None
    with closing(connected(target, api_key="")) as there:
        return None if same_server(here, there) else ""


def _opened(
    there: Connection, name: str, facts: CollectionFacts, settings: dict[str, Any]
) -> Retriever:
    """The target, created where it is absent."""
    contract = facts.contract
    if settings["model"] is None:
        if contract is None:
            raise InputError(
                "the collection was made by another program and names no model: say with --model "
                "which one to encode its texts with"
            )
        if not is_there(there, name):
            new = PassageStore(there, name)
            there.run(new.create(contract, facts.storage.moved(), token_width=facts.token_width))
    filterable = contract.filterable if contract is not None else None
    where = {name: settings[name] for name in ("device", "dtype")}
    words = None if is_there(there, name) else words_of(facts, **where)
    copy = Retriever.open(
        client=client_of(there),
        collection_name=name,
        filterable=filterable,
        sparse=words,
        storage=facts.storage.moved(),
        retry=there.retry,
        **settings,
    )
    if settings["model"] is None and not _same_vectors(contract, copy):
        raise ContractError(
            f"collection {name!r} at {there.location} was built with {copy.info().model}, the "
            f"original with {facts.contract.model.name if facts.contract else None}: give --model "
            f"{copy.info().model} to encode the texts anew, or another --to-collection"
        )
    _check_words(contract, copy)
    there.run(_indexed(copy.store, filterable or {}))
    return copy


def _check_words(contract: Contract | None, copy: Retriever) -> None:
    """Refuse a target that keeps words where the original does not, or other ones.

    Raises:
        ContractError: With both sides.
    """
    words = contract.sparse if contract is not None else None
    there = copy.store.sparse_identity
    if not same_sparse(words, there):
        raise ContractError(
            f"collection {copy.store.collection_name!r} at {copy.store.connection.location} keeps "
            f"words by {described_sparse(there)}, the original by {described_sparse(words)}: "
            "searches would not find the same. Give another --to-collection, which is made as the "
            "original is"
        )


def _same_vectors(contract: Contract | None, copy: Retriever) -> bool:
    identity = copy.info().identity
    return (
        contract is not None and identity is not None and not contract.model.differences(identity)
    )


def _indexed(store: PassageStore, filterable: Mapping[str, str]) -> Steps[None]:
    """Index what the original has indexed, where the copy was made without."""
    facts = yield from store.facts()
    yield from index_fields(store, filterable, there=facts.filterable)


def _copied(
    original: PassageStore,
    facts: CollectionFacts,
    copy: Retriever,
    prune: bool,
    sample: int,
    on_progress: OnProgress | None,
) -> CopyReport:
    same, drawn = _same_vectors(facts.contract, copy), Sample(sample)
    report = _written(original, copy, same, drawn, on_progress)
    if prune:
        stale = copy.store.connection.run(missing_from(original, copy.store))
        report = IndexReport(**{**vars(report), "deleted": copy.delete(stale) if stale else 0})
    profile = profile_from_metadata(facts.metadata)
    if profile is not None:
        copy.save_profile(profile)
    copy.store.connection.run(copy.store.save_companions(companions(facts.metadata)))
    checked = check(original, copy.store, drawn.ids, same_vectors=same, failures=report.failures)
    return CopyReport(
        index=report, checked=checked, encoded_anew=not same, profile=profile is not None
    )


def _written(
    original: PassageStore,
    copy: Retriever,
    same: bool,
    drawn: Sample,
    on_progress: OnProgress | None,
) -> IndexReport:
    if not same:
        return copy.index(passages(original, drawn), on_progress=on_progress)
    failures: list[Any] = []
    steps = import_entries(
        copy.store,
        entries(original, drawn, failures),
        failures=failures,
        on_progress=on_progress,
    )
    return copy.store.connection.run(steps)
