"""Hits to better hits, at a price that is set beforehand."""

from __future__ import annotations

from sbert_retriever.rerank.cost import CostModel
from sbert_retriever.rerank.fusion import fit_weight, reciprocal_rank_fusion, weighted_sum
from sbert_retriever.rerank.options import EarlyStop, RerankOptions, RerankResult
from sbert_retriever.rerank.reranker import Reranker

__all__ = [
    "CostModel",
    "EarlyStop",
    "RerankOptions",
    "RerankResult",
    "Reranker",
    "fit_weight",
    "reciprocal_rank_fusion",
    "weighted_sum",
]
