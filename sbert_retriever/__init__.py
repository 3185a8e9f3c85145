"""Sentence-BERT retrieval: a bi-encoder over a real Qdrant engine, with a priced rerank.

Names are loaded when first used: importing this package loads neither torch nor qdrant_client.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sbert_retriever.encoder.bi_encoder import BiEncoder
    from sbert_retriever.encoder.cross_encoder import CrossEncoder
    from sbert_retriever.faq import Faq, FaqAnswer, FaqEntry
    from sbert_retriever.rerank import Reranker
    from sbert_retriever.retriever import Retriever
    from sbert_retriever.training.config import TrainConfig, TrainStep
    from sbert_retriever.training.data import TrainData
    from sbert_retriever.training.trainer import Trainer
    from sbert_retriever.types import Failure, Hit, IndexReport, Passage, Profile, SearchResult
else:
    _HOMES = {
        "BiEncoder": "sbert_retriever.encoder.bi_encoder",
        "CrossEncoder": "sbert_retriever.encoder.cross_encoder",
        "Faq": "sbert_retriever.faq",
        "FaqAnswer": "sbert_retriever.faq",
        "FaqEntry": "sbert_retriever.faq",
        "Reranker": "sbert_retriever.rerank",
        "Retriever": "sbert_retriever.retriever",
        "Trainer": "sbert_retriever.training.trainer",
        "TrainConfig": "sbert_retriever.training.config",
        "TrainStep": "sbert_retriever.training.config",
        "TrainData": "sbert_retriever.training.data",
        "Failure": "sbert_retriever.types",
        "Hit": "sbert_retriever.types",
        "IndexReport": "sbert_retriever.types",
        "Passage": "sbert_retriever.types",
        "Profile": "sbert_retriever.types",
        "SearchResult": "sbert_retriever.types",
    }

    def __getattr__(name: str) -> Any:
        """Load a public name from its room."""
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        value = getattr(import_module(_HOMES[name]), name)
        globals()[name] = value
        return value


__version__ = "0.1.0"

__all__ = [
    "BiEncoder",
    "CrossEncoder",
    "Reranker",
    "Retriever",
    "Passage",
    "Hit",
    "Profile",
    "SearchResult",
    "IndexReport",
    "Failure",
    "Faq",
    "FaqEntry",
    "FaqAnswer",
    "Trainer",
    "TrainConfig",
    "TrainStep",
    "TrainData",
]


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
