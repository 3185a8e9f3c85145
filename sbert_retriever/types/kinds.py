"""The words that settings are chosen from."""

from __future__ import annotations

from typing import Literal, TypeAlias

ScoreKind: TypeAlias = Literal[
    "cosine",
    "dot",
    "neg_l2",
    "neg_l1",
    "rrf",
    "dbsf",
    "bm25",
    "maxsim",
    "logit",
    "probability",
    "fused",
]
"""The scale of a score. Bigger is better on each; scores compare only within one kind."""
Role: TypeAlias = Literal["query", "passage"]
OnTruncate: TypeAlias = Literal["warn", "error", "ignore"]
RerankMode: TypeAlias = Literal["replace", "fuse"]
SearchMode: TypeAlias = Literal["dense", "sparse", "hybrid"]
FusionMethod: TypeAlias = Literal["boost", "weighted", "rrf", "dbsf"]
