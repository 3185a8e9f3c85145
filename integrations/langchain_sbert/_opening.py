"""Open a vector store by a model's name, embeddings, or what the collection remembers."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any

from langchain_core.embeddings import Embeddings
from qdrant_client import models

from langchain_sbert._adapters import encoder_of
from langchain_sbert.embeddings import SBERTEmbeddings
from langchain_sbert.vectorstore import SBERTVectorStore
from sbert_retriever import Retriever
from sbert_retriever.errors import InputError, StoreRequestError
from sbert_retriever.index.connection import MEMORY, connect
from sbert_retriever.index.steps import RetryPolicy, Steps, call
from sbert_retriever.index.storage import Quantization, Storage
from sbert_retriever.search.second_stage import LateSpec
from sbert_retriever.sparse import SparseSpec

if TYPE_CHECKING:
    from qdrant_client import AsyncQdrantClient, QdrantClient

_DEFAULT = "docs"
# A mistyped address should be told of before the long patience of a running job begins.
_PATIENCE = RetryPolicy(deadline_s=3.0)


def open_store(
    location: str | PathLike[str] | None,
    *,
    model: str | PathLike[str] | Embeddings | None,
    late_encoder: LateSpec | None,
    sparse: SparseSpec | None,
    quantization: Quantization | models.QuantizationConfig | None,
    storage: Storage | None,
    filterable: Mapping[str, str] | None,
    collection_name: str | None,
    tenant: str | None,
    device: str,
    dtype: str,
    api_key: str | None,
    client: QdrantClient | None,
    async_client: AsyncQdrantClient | None,
    timeout_s: int | None,
    prefer_grpc: bool,
    grpc_port: int | None,
) -> SBERTVectorStore:
    """A vector store; the arguments are those of `SBERTRetriever.open`."""
    place: dict[str, Any] = {
        "api_key": api_key,
        "client": client,
        "timeout_s": timeout_s,
        "prefer_grpc": prefer_grpc,
        "grpc_port": grpc_port,
    }
    embedding = _embedding(model, device, dtype)
    retriever = Retriever.open(
        location,
        model=None if embedding is None else encoder_of(embedding),
        collection_name=(
            _collection_at(location, place) if collection_name is None else collection_name
        ),
        late_encoder=late_encoder,
        sparse=sparse,
        quantization=quantization,
        storage=storage,
        filterable=filterable,
        tenant=tenant,
        device=device,
        dtype=dtype,
        async_client=async_client,
        **place,
    )
    return SBERTVectorStore.from_retriever(retriever, embedding)


def _embedding(
    model: str | PathLike[str] | Embeddings | None, device: str, dtype: str
) -> Embeddings | None:
    if isinstance(model, str | PathLike):
        return SBERTEmbeddings(model=fspath(model), device=device, dtype=dtype)
    return model


def _collection_at(location: str | PathLike[str] | None, place: dict[str, Any]) -> str:
    """The collection that is meant where none is named.

    Raises:
        InputError: There are several, none of them "docs".
        StoreUnavailableError: No server answers there.
    """
    if location == MEMORY:
        return _DEFAULT
    connection = connect(location, retry=_PATIENCE, **place)
    try:
        names = connection.run(_names(aliased=not connection.embedded))
    finally:
        connection.close()
    if len(names) > 1 and _DEFAULT not in names:
        raise InputError(
            f"there are {len(names)} collections at {connection.location} "
            f"({', '.join(repr(name) for name in names[:10])}): give collection_name"
        )
    return _DEFAULT if _DEFAULT in names or not names else names[0]


def _names(*, aliased: bool) -> Steps[list[str]]:
    """By which names a place is read: its aliases, and the collections that no alias means."""
    there: models.CollectionsResponse = yield call("get_collections")
    names = {collection.name for collection in there.collections}
    if not aliased:
        return sorted(names)
    try:
        known: models.CollectionsAliasesResponse = yield call("get_aliases")
    except StoreRequestError:  # a key for one collection may not be told of aliases
        return sorted(names)
    meant = {alias.collection_name for alias in known.aliases}
    return sorted(names - meant | {alias.alias_name for alias in known.aliases})
