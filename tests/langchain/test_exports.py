"""The front door: its names, their signatures, and what importing them loads."""

from __future__ import annotations

import inspect
import subprocess
import sys

import langchain_sbert


def _signature(function: object) -> str:
    """Names with their defaults, in order; "*" begins the keywords."""
    parts: list[str] = []
    for p in inspect.signature(function).parameters.values():  # type: ignore[arg-type]  # any callable
        if p.kind is p.KEYWORD_ONLY and "*" not in parts:
            parts.append("*")
        sign = {p.VAR_KEYWORD: "**", p.VAR_POSITIONAL: "*"}.get(p.kind, "")
        default = "" if p.default is p.empty else f"={p.default!r}"
        parts.append(f"{sign}{p.name}{default}")
    return ", ".join(parts)


def test_names() -> None:
    assert langchain_sbert.__all__ == [
        *("SBERTEmbeddings", "SBERTVectorStore", "SBERTRetriever"),
        *("SBERTReranker", "SBERTCrossEncoder", "SBERTFaqTool", "SBERTFaqFirst"),
    ]
    assert dir(langchain_sbert) == sorted(langchain_sbert.__all__)


def test_embeddings_signature() -> None:
    assert _signature(langchain_sbert.SBERTEmbeddings) == (
        "*, model='all-MiniLM-L6-v2', device='auto', dtype='auto', query_prompt=None, "
        "passage_prompt=None, max_length=None, truncate_dim=None, pooling=None, normalize=None, "
        "on_truncate='warn', batch_tokens=None, show_progress=False, revision=None, "
        "cache_dir=None, token=None, local_files_only=None, lazy=False"
    )


def test_store_signatures() -> None:
    store = langchain_sbert.SBERTVectorStore
    assert _signature(store) == (
        "embedding, location=None, *, late_encoder=None, sparse=None, quantization=None, "
        "storage=None, "
        "collection_name='docs', tenant=None, "
        "client=None, async_client=None, api_key=None, filterable=None, timeout_s=None, "
        "prefer_grpc=False, grpc_port=None"
    )
    assert _signature(store.from_existing_collection) == (
        "embedding, location=None, *, collection_name, client=None, async_client=None, "
        "api_key=None, vector_name='', content_payload_key='page_content', "
        "metadata_payload_key='metadata', timeout_s=None, prefer_grpc=False, grpc_port=None"
    )
    assert (
        _signature(store.from_texts) == "texts, embedding, metadatas=None, *, ids=None, **settings"
    )
    assert _signature(store.from_documents) == "documents, embedding, *, ids=None, **settings"
    assert _signature(store.add_texts) == (
        "self, texts, metadatas=None, *, ids=None, batch_size=None"
    )
    assert _signature(store.add_documents) == "self, documents, *, ids=None, batch_size=None"
    assert _signature(store.delete) == "self, ids=None, *, filter=None, source=None"
    assert _signature(store.similarity_search) == "self, query, k=4, **options"
    assert _signature(store.max_marginal_relevance_search) == (
        "self, query, k=4, fetch_k=None, lambda_mult=0.5, **options"
    )


def test_retriever_signatures() -> None:
    retriever = langchain_sbert.SBERTRetriever
    assert {"vectorstore", "k", "filter", "score_threshold", "search_type", "search_kwargs"} <= set(
        retriever.model_fields
    )
    assert retriever.model_config["extra"] == "forbid"
    assert _signature(retriever.open) == (
        "location=None, *, model=None, sparse=None, k=4, filter=None, score_threshold=None, "
        "search_type='similarity', search_kwargs=None, reranker=None, candidates=None, "
        "rerank_mode=None, budget_ms=None, profile=None, rerank_threshold=None, "
        "late_encoder=None, quantization=None, storage=None, filterable=None, "
        "collection_name=None, tenant=None, device='auto', dtype='auto', api_key=None, "
        "client=None, async_client=None, timeout_s=None, prefer_grpc=False, grpc_port=None"
    )
    assert _signature(langchain_sbert.SBERTReranker) == (
        "*, model='ms-marco-MiniLM-L12-v2', reranker=None, top_n=5, candidates=None, "
        "budget_ms=None, min_score=None, on_failure='fallback', device='auto', dtype='auto'"
    )
    assert _signature(langchain_sbert.SBERTCrossEncoder) == (
        "*, model='ms-marco-MiniLM-L12-v2', device='auto', dtype='auto', max_length=None, "
        "label=None, scale='logit'"
    )


def test_each_method_has_its_twin() -> None:
    """What works has an asynchronous twin with the same arguments."""
    store = langchain_sbert.SBERTVectorStore
    twins = [name for name in dir(store) if not name.startswith("_") and hasattr(store, f"a{name}")]
    assert len(twins) >= 16
    for name in twins:
        assert _signature(getattr(store, name)) == _signature(getattr(store, f"a{name}")), name


def _loaded_by(code: str) -> set[str]:
    script = f"{code}\nimport sys\nprint(*sorted(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": ":".join(filter(None, sys.path)), "HF_HUB_OFFLINE": "1"},
    )
    return set(done.stdout.split())


def test_importing_loads_little() -> None:
    assert not {"torch", "qdrant_client", "langchain_core"} & _loaded_by("import langchain_sbert")


def test_the_core_never_loads_langchain() -> None:
    loaded = _loaded_by(
        "from sbert_retriever import Retriever, Passage\n"
        "from sbert_retriever.testing import HashEncoder\n"
        "with Retriever.open(':memory:', model=HashEncoder()) as r:\n"
        "    r.index([Passage('1', 'cats')])\n"
        "    r.search('cats')\n"
    )
    assert not [name for name in loaded if name.startswith("langchain")]
