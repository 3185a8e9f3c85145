"""Texts to sparse vectors: a number for each term, for searches that find exact words."""

from __future__ import annotations

from sbert_retriever.sparse.bm25 import Bm25
from sbert_retriever.sparse.named import SparseSpec, as_sparse_encoder, encoder_of_identity

__all__ = ["Bm25", "SparseSpec", "as_sparse_encoder", "encoder_of_identity"]
