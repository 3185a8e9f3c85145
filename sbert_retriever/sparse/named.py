"""Sparse encoders by name, and again from what a collection remembers."""

from __future__ import annotations

from typing import TypeAlias

from sbert_retriever.errors import InputTypeError, ModelError
from sbert_retriever.sparse.bm25 import NAME, Bm25
from sbert_retriever.types import SparseEncoder, SparseIdentity

SparseSpec: TypeAlias = str | SparseEncoder
"""'bm25', a SPLADE model's folder, packaged name or hub id, or an encoder."""


def as_sparse_encoder(
    sparse: SparseSpec, *, device: str = "auto", dtype: str = "auto"
) -> SparseEncoder:
    """An encoder as it is, or made by its name.

    Args:
        sparse: Which.
        device: For a model.
        dtype: For a model; "int8" is for other models beside it, and "auto" here.

    Raises:
        InputTypeError: It is no name and no encoder.
        ModelNotFoundError: Nothing holds a model of that name.
    """
    if sparse == NAME:
        return Bm25()
    if isinstance(sparse, str):
        from sbert_retriever.sparse.splade import Splade

        return Splade.load(sparse, device=device, dtype=_floating(dtype))
    if isinstance(sparse, type) or not isinstance(sparse, SparseEncoder):
        raise InputTypeError(
            f"sparse is {type(sparse).__name__}, expected 'bm25', a SPLADE model's name, or an "
            "encoder (identity, encode_queries, encode_passages)"
        )
    return sparse


def encoder_of_identity(
    identity: SparseIdentity, *, device: str = "auto", dtype: str = "auto"
) -> SparseEncoder:
    """The encoder that a collection was built with.

    Args:
        identity: What the collection remembers of it.
        device: For a model.
        dtype: For a model; "int8" is for other models beside it, and "auto" here.

    Raises:
        ModelError: It cannot be made from what is known of it.
        ModelNotFoundError: Nothing holds a model of its name.
    """
    if identity.name == NAME:
        try:
            return Bm25(**identity.settings)
        except TypeError as error:
            raise ModelError(
                f"the collection's BM25 has settings that this version does not know ({error}): "
                "upgrade sbert-retriever"
            ) from error
    if identity.weights is None:
        raise ModelError(
            f"the collection's sparse vectors were made by {identity.name!r}, which cannot be "
            "loaded by name: open it with sparse= and that encoder"
        )
    from sbert_retriever.sparse.splade import Splade

    encoder = Splade.load(
        identity.name,
        device=device,
        dtype=_floating(dtype),
        max_length=identity.settings.get("max_length"),
    )
    if encoder.identity != identity:
        raise ModelError(
            f"{identity.name!r} is not the model that made the collection's sparse vectors "
            f"(weights {encoder.identity.weights}, the collection has {identity.weights}): give "
            "sparse= with the right one"
        )
    return encoder


def _floating(dtype: str) -> str:
    return "auto" if dtype == "int8" else dtype
