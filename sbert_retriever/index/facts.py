"""What is settled when a collection is made, and what the engine says of it later: pure functions.

The only place that translates between an engine's parameters of vectors and ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from qdrant_client import models

from sbert_retriever.errors import InputError
from sbert_retriever.index.contract import Contract
from sbert_retriever.index.points import SPARSE_NAME, TOKENS_NAME
from sbert_retriever.index.storage import Storage, named_vectors, storage_of
from sbert_retriever.types import ScoreKind, SparseIdentity

_DISTANCES: dict[ScoreKind, models.Distance] = {
    "cosine": models.Distance.COSINE,
    "dot": models.Distance.DOT,
    "neg_l2": models.Distance.EUCLID,
    "neg_l1": models.Distance.MANHATTAN,
}
_SIMILARITIES = {distance: kind for kind, distance in _DISTANCES.items()}


@dataclass(frozen=True, kw_only=True)
class Shape:
    """What does not change while a collection lives.

    Args:
        dim: Width of the vectors.
        score_kind: Which score its distance gives.
        storage: How it keeps its vectors.
        sparse: What makes its sparse vectors; None where it has none.
        token_width: Of its token vectors; None where it keeps none.
    """

    dim: int = 0
    score_kind: ScoreKind = "cosine"
    storage: Storage = field(default_factory=Storage)
    sparse: SparseIdentity | None = None
    token_width: int | None = None

    @property
    def half(self) -> bool:
        """Whether numbers are kept as they are in float16; under cosine they are small."""
        return self.storage.datatype == "float16" and self.score_kind != "cosine"


@dataclass(frozen=True, kw_only=True)
class CollectionFacts:
    """What the engine says of a collection.

    Args:
        count: Passages.
        indexed: Vectors in the HNSW graph; the rest is searched exactly.
        dim: Width of the vectors.
        score_kind: Which score its distance gives.
        contract: What it was built with; None where another program made it.
        filterable: Payload fields with an index.
        metadata: Of the collection, as it lies there.
        storage: How it keeps its vectors.
        token_width: Of its token vectors; None where it keeps none.
    """

    count: int
    indexed: int
    dim: int
    score_kind: ScoreKind
    contract: Contract | None
    filterable: Mapping[str, str]
    metadata: Mapping[str, Any]
    storage: Storage
    token_width: int | None = None


def planned(contract: Contract, storage: Storage, *, token_width: int | None) -> Shape:
    """The shape of a collection that is about to be made."""
    return Shape(
        dim=contract.model.dim,
        score_kind=contract.model.similarity,
        storage=replace(storage, tokens=token_width is not None),
        sparse=contract.sparse,
        token_width=token_width,
    )


def creation(shape: Shape, *, vector_name: str, server: bool) -> dict[str, Any]:
    """The arguments of `create_collection` for a shape.

    Raises:
        InputError: The storage asks for what this engine has not.
    """
    storage = shape.storage
    distance = _DISTANCES[shape.score_kind]
    vectors = {vector_name: storage.vector_params(size=shape.dim, distance=distance)}
    if shape.token_width is not None:
        vectors[TOKENS_NAME] = storage.token_params(width=shape.token_width)
    asked: dict[str, Any] = {"vectors_config": vectors, **storage.cluster_params(server=server)}
    if shape.sparse is not None:
        modifier = models.Modifier.IDF if shape.sparse.idf else models.Modifier.NONE
        params = models.SparseVectorParams(modifier=modifier)
        asked["sparse_vectors_config"] = {SPARSE_NAME: params}
    return asked


def shape_of(info: models.CollectionInfo, *, name: str, vector_name: str, server: bool) -> Shape:
    """The shape of a collection that is there.

    Args:
        info: What the engine says.
        name: The collection's.
        vector_name: Of its dense vectors.
        server: Whether copies and parts mean something.

    Raises:
        ContractError: Its contract is damaged, or newer than this version.
        InputError: It has no vectors of that name.
    """
    vectors = named_vectors(info.config)
    if vector_name not in vectors:
        raise InputError(
            f"collection {name!r} has no vector {vector_name!r} "
            f"(it has: {', '.join(map(repr, vectors)) or 'none'}): name another"
        )
    params, tokens = vectors[vector_name], vectors.get(TOKENS_NAME)
    contract = Contract.from_metadata(info.config.metadata)
    return Shape(
        dim=params.size,
        score_kind=_SIMILARITIES[params.distance],
        storage=storage_of(info.config, vector_name=vector_name, server=server),
        sparse=contract.sparse if contract is not None else None,
        token_width=tokens.size if tokens is not None else None,
    )


def facts_of(info: models.CollectionInfo, shape: Shape, *, count: int) -> CollectionFacts:
    """What the engine says of a collection of that shape, with so many passages in sight."""
    # Sparse vectors are indexed as they come, and counted with the others.
    sparse = (info.points_count or 0) if info.config.params.sparse_vectors else 0
    indexed = max((info.indexed_vectors_count or 0) - sparse, 0)
    return CollectionFacts(
        count=count,
        # A server counts vectors that were deleted or replaced until it tidies up.
        indexed=min(indexed, count),
        dim=shape.dim,
        score_kind=shape.score_kind,
        contract=Contract.from_metadata(info.config.metadata),
        filterable={k: str(v.data_type) for k, v in (info.payload_schema or {}).items()},
        metadata=info.config.metadata or {},
        storage=shape.storage,
        token_width=shape.token_width,
    )
