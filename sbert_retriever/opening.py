"""A collection that is being opened, and the encoder it was, or will be, built with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sbert_retriever.errors import (
    CollectionNotFoundError,
    InputError,
    StoreRequestError,
    StoreUnavailableError,
)
from sbert_retriever.index.contract import Contract
from sbert_retriever.index.declaring import checked_filterable
from sbert_retriever.index.facts import CollectionFacts
from sbert_retriever.index.payload_indexes import index_fields
from sbert_retriever.index.steps import Steps
from sbert_retriever.index.storage import Storage
from sbert_retriever.index.store import PassageStore
from sbert_retriever.lazy_encoder import LazyEncoder
from sbert_retriever.types import SparseEncoder


def settle(
    store: PassageStore,
    encoder: LazyEncoder,
    *,
    sparse: SparseEncoder | None,
    storage: Storage,
    filterable: Mapping[str, str],
    create: bool,
) -> Mapping[str, Any]:
    """Hold an encoder to the collection's contract, or create the collection with the encoder's.

    A collection whose creation was cut short gets the payload indexes that its contract declares.

    Args:
        store: The collection, which may not be there yet.
        encoder: What it is opened with.
        sparse: What makes sparse vectors; None is what the collection has.
        storage: How it keeps its vectors where it is created.
        filterable: Metadata fields to index where it is created.
        create: Whether to create what is not there.

    Returns:
        The metadata of the collection that was there.

    Raises:
        CollectionNotFoundError: It is not there, and may not or cannot be created.
        ContractError: It was built with another encoder.
        InputError: It has no contract, and the encoder is missing or of another width.
        StoreUnavailableError: No server answered within a few seconds.
    """
    store.encode_tokens = encoder.encode_passage_tokens
    facts = _first_answer(store)
    if facts is not None:
        _hold_to(store, encoder, facts)
        if sparse is not None:
            store.bind_sparse(sparse)
        if store.tenant is not None:
            store.connection.run(store.index_tenants())
        if create:
            store.connection.run(_mended(store, facts))
        return facts.metadata
    if not create:
        raise CollectionNotFoundError(
            f"there is no collection {store.collection_name!r} at {store.connection.location}: "
            "name one that is there"
        )
    _create(store, encoder, sparse, storage, filterable)
    return {}


def _first_answer(store: PassageStore) -> CollectionFacts | None:
    """What is known of the collection; None where it is not there."""
    try:
        there = store.connection.run_first(store.exists())
    except StoreUnavailableError as error:
        raise StoreUnavailableError(
            f"{error}. Check that a Qdrant server runs at {store.connection.location}"
        ) from error
    # A server that answers gets its time: it counts all passages now.
    return store.connection.run(_facts(store)) if there else None


def _facts(store: PassageStore) -> Steps[CollectionFacts]:
    yield from store.pin()
    return (yield from store.facts())


def _mended(store: PassageStore, facts: CollectionFacts) -> Steps[None]:
    """Create the payload indexes that a run which was killed while creating it left out."""
    if facts.contract is None:
        return  # another program's
    try:
        yield from index_fields(store, facts.contract.filterable, there=facts.filterable)
    except (InputError, StoreRequestError):
        return  # a kind that a later version knows; a key that may only read


def _create(
    store: PassageStore,
    encoder: LazyEncoder,
    sparse: SparseEncoder | None,
    storage: Storage,
    filterable: Mapping[str, str],
) -> None:
    if not encoder.given:
        raise CollectionNotFoundError(
            f"there is no collection {store.collection_name!r} at {store.connection.location}: "
            "index something first, or give model= to create it"
        )
    contract = Contract(
        model=encoder.identity,
        filterable=checked_filterable(filterable),
        sparse=sparse.identity if sparse is not None else None,
    )
    width = encoder.token_width() if storage.tokens else None
    store.connection.run(store.create(contract, storage, token_width=width))
    if sparse is not None:
        store.bind_sparse(sparse)
    encoder.bind(contract)


def _hold_to(store: PassageStore, encoder: LazyEncoder, facts: CollectionFacts) -> None:
    if facts.contract is not None:
        encoder.bind(facts.contract)
        return
    if not encoder.given:
        raise InputError(
            f"collection {store.collection_name!r} was made by another program and names no model: "
            "give model= with the encoder that made its vectors"
        )
    dim = encoder.identity.dim
    if dim != facts.dim:
        raise InputError(
            f"the encoder's vectors have {dim} dimensions, those of collection "
            f"{store.collection_name!r} have {facts.dim}: give the encoder that made them"
        )
