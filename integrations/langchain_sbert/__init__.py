"""Sentence-BERT retrieval in LangChain: embeddings, vector store, retriever, reranker, FAQ.

Names are loaded when first used, so importing this package loads neither torch nor langchain_core.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from langchain_sbert.embeddings import SBERTEmbeddings
    from langchain_sbert.faq import SBERTFaqFirst, SBERTFaqTool
    from langchain_sbert.reranker import SBERTCrossEncoder, SBERTReranker
    from langchain_sbert.retriever import SBERTRetriever
    from langchain_sbert.vectorstore import SBERTVectorStore
else:
    _HOMES = {
        "SBERTEmbeddings": "langchain_sbert.embeddings",
        "SBERTCrossEncoder": "langchain_sbert.reranker",
        "SBERTFaqFirst": "langchain_sbert.faq",
        "SBERTFaqTool": "langchain_sbert.faq",
        "SBERTReranker": "langchain_sbert.reranker",
        "SBERTRetriever": "langchain_sbert.retriever",
        "SBERTVectorStore": "langchain_sbert.vectorstore",
    }

    def __getattr__(name: str) -> Any:
        """Load a public name from its room."""
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        value = getattr(import_module(_HOMES[name]), name)
        globals()[name] = value
        return value


__all__ = [
    "SBERTEmbeddings",
    "SBERTVectorStore",
    "SBERTRetriever",
    "SBERTReranker",
    "SBERTCrossEncoder",
    "SBERTFaqTool",
    "SBERTFaqFirst",
]


def __dir__() -> list[str]:
    return sorted(__all__)
