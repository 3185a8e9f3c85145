"""The collection: whether it opens, its contract, its index."""

from __future__ import annotations

from sbert_retriever.counting import counted
from sbert_retriever.doctor.visit import Visit, ask
from sbert_retriever.errors import (
    CollectionNotFoundError,
    InputError,
    SbertError,
    StoreAccessError,
    StoreLockedError,
    StoreUnavailableError,
)
from sbert_retriever.index.connection import connect
from sbert_retriever.retriever import Retriever
from sbert_retriever.types import RetrieverInfo

_FEW_UNINDEXED_BYTES = 10_000 * 1024
"""The embedded engine leaves fewer bytes of vectors unindexed: exact search is fast enough."""
_MANY_UNINDEXED = 50_000
"""On a server, whose own threshold is not ours to set."""


def open_collection(visit: Visit) -> Retriever | None:
    """The collection, opened without a model, so that every other question can be asked."""
    try:
        retriever = Retriever.open(
            visit.location,
            collection_name=visit.collection_name,
            api_key=visit.api_key,
            create=False,
        )
    except InputError:
        raise
    except SbertError as error:
        visit.add("collection", "problem", str(error), _way_in(visit, error))
        return None
    facts = retriever.info()
    visit.add(
        "collection",
        "ok",
        f"{counted(facts.count, 'passage')} in {facts.collection_name!r}, {facts.dim}-d",
    )
    return retriever


def _way_in(visit: Visit, error: SbertError) -> str:
    """What to do where a collection cannot be opened."""
    if isinstance(error, StoreUnavailableError):
        return f"check that a Qdrant server runs at {visit.location}"
    if isinstance(error, StoreLockedError):
        return "close the other process, or wait for it to end"
    if isinstance(error, CollectionNotFoundError):
        connection = connect(visit.location, api_key=visit.api_key)
        try:
            there = connection.run(ask("get_collections")).collections
        finally:
            connection.close()
        names = ", ".join(repr(collection.name) for collection in there)
        return f"there are: {names}" if names else "index something there first"
    if isinstance(error, StoreAccessError):
        return "check the key, the certificate and the address"
    return (
        "where its files are damaged, restore the folder from a copy, or index the sources again "
        "into another one"
    )


def look_at_engine(visit: Visit, retriever: Retriever) -> None:
    """Which engine answers, and its version."""
    connection = retriever.store.connection
    if connection.engine != "server":
        visit.add("engine", "ok", f"{connection.engine}, in this process")
        return
    with visit.noting("engine", "check the server"):
        answer = connection.run(ask("info"))
        visit.add("engine", "ok", f"Qdrant {answer.version} at {connection.location}")


def look_at_contract(visit: Visit, facts: RetrieverInfo) -> None:
    """Whether the collection says which model made its vectors."""
    if facts.identity is None:
        visit.add(
            "contract",
            "problem" if visit.model is None else "warning",
            "another program made this collection, and it names no model",
            "say with --model which one made its vectors",
        )
        return
    identity = facts.identity
    if identity.dim != facts.dim:
        visit.add(
            "contract",
            "problem",
            f"it names a model of {identity.dim} dimensions, the vectors have {facts.dim}",
            "restore collection.json from a copy, or index the sources again",
        )
        return
    precision = f", {identity.precision}" if identity.precision else ""
    visit.add("contract", "ok", f"{identity.name} (weights {identity.weights}{precision})")


def look_at_index(visit: Visit, facts: RetrieverInfo) -> None:
    """How many vectors lie outside the HNSW graph."""
    unindexed = facts.count - facts.indexed
    most = (
        _FEW_UNINDEXED_BYTES // (4 * facts.dim) if facts.engine == "embedded" else _MANY_UNINDEXED
    )
    finding = f"{facts.indexed:,} of {facts.count:,} vectors in the HNSW graph"
    if unindexed < most:
        return visit.add("index", "ok", f"{finding}; the rest is few enough to compare one by one")
    return visit.add(
        "index",
        "problem",
        f"{finding}; the other {unindexed:,} are compared one by one, which is slow",
        "run `sbert-retriever index` on the sources again: it builds the graph at its end"
        if facts.engine == "embedded"
        else "wait for the server's optimiser, or look at its indexing_threshold",
    )
