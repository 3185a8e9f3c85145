"""The nouns that pass between rooms.

Stdlib only; numpy is imported for type checking alone, so that `import sbert_retriever` stays
cheap.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sbert_retriever.types.encoders import (
    Encoder,
    ModelIdentity,
    Scorer,
    ScorerIdentity,
    SparseEncoder,
    SparseIdentity,
    SparseVector,
)
from sbert_retriever.types.kinds import (
    FusionMethod,
    OnTruncate,
    RerankMode,
    Role,
    ScoreKind,
    SearchMode,
)
from sbert_retriever.types.passages import Hit, Passage, SearchResult
from sbert_retriever.types.profile import DEFAULT_RERANKER, Fusion, Profile
from sbert_retriever.types.reports import Failure, IndexReport, RetrieverInfo

if TYPE_CHECKING:
    from sbert_retriever.types.encoders import Vectors as Vectors

__all__ = [
    "DEFAULT_RERANKER",
    "Encoder",
    "Failure",
    "Fusion",
    "FusionMethod",
    "Hit",
    "IndexReport",
    "ModelIdentity",
    "OnTruncate",
    "Passage",
    "Profile",
    "RerankMode",
    "RetrieverInfo",
    "Role",
    "ScoreKind",
    "Scorer",
    "ScorerIdentity",
    "SearchMode",
    "SearchResult",
    "SparseEncoder",
    "SparseIdentity",
    "SparseVector",
]
