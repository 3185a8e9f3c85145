"""Open a collection for a command, or say which collections there are."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from sbert_retriever.errors import CollectionNotFoundError, StoreUnavailableError

if TYPE_CHECKING:
    from sbert_retriever.retriever import Retriever
    from sbert_retriever.types import Scorer

NOBODY = "none"
"""In the place of a cross-encoder's name."""
_PATIENCE_S = 3.0
"""How long a server may fail to answer the first question."""


def open_existing(location: str, collection: str, **settings: Any) -> Retriever:
    """Open a collection that must be there.

    Args:
        location: A folder or a URL.
        collection: Its name.
        settings: Further arguments of `Retriever.open`.

    Raises:
        CollectionNotFoundError: It is not; with the names of those that are.
    """
    from sbert_retriever.retriever import Retriever

    with naming_collections(location, collection, settings.get("api_key")):
        return Retriever.open(location, collection_name=collection, create=False, **settings)


def open_scorer(name: str, *, device: str, dtype: str) -> Scorer | None:
    """The cross-encoder that `--reranker` names; None for "none".

    Raises:
        ModelNotFoundError: Nothing answers to the name.
    """
    if name == NOBODY:
        return None
    from sbert_retriever.encoder.cross_encoder import CrossEncoder

    return CrossEncoder.load(name, device=device, dtype=dtype, on_truncate="ignore")


@contextmanager
def naming_collections(
    location: str, collection: str, api_key: str | None = None
) -> Iterator[None]:
    """Add to "no such collection" which there are.

    Raises:
        CollectionNotFoundError: In the place of the one that came.
    """
    try:
        yield
    except CollectionNotFoundError as error:
        raise CollectionNotFoundError(_missing(location, collection, api_key)) from error


def collection_exists(location: str, collection: str, api_key: str | None) -> bool:
    """Whether a collection is there; creates nothing.

    Raises:
        StoreUnavailableError: No server answers there.
    """
    return bool(_asked(location, api_key, "collection_exists", collection_name=collection))


def collection_names(location: str, api_key: str | None) -> list[str]:
    """The names of the collections at a location."""
    answer = _asked(location, api_key, "get_collections")
    return sorted(collection.name for collection in answer.collections)


def _asked(location: str, api_key: str | None, method: str, **arguments: Any) -> Any:
    from sbert_retriever.index.connection import connect
    from sbert_retriever.index.steps import RetryPolicy, call

    def steps() -> Any:
        return (yield call(method, **arguments))

    connection = connect(location, api_key=api_key, retry=RetryPolicy(deadline_s=_PATIENCE_S))
    try:
        return connection.run(steps())
    except StoreUnavailableError as error:
        raise StoreUnavailableError(
            f"{error}. Check that a Qdrant server runs at {location}"
        ) from error
    finally:
        connection.close()


def _missing(location: str, collection: str, api_key: str | None) -> str:
    names = collection_names(location, api_key)
    if names:
        listed = ", ".join(map(repr, names))
        return (
            f"there is no collection {collection!r} at {location}; there are: {listed}. Choose one "
            "with --collection"
        )
    return (
        f"there is no collection at {location}: make one with "
        f"`sbert-retriever index PATH --to {location}`"
    )
