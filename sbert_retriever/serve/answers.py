"""Results as they go out, over HTTP and to an assistant, which needs no web framework."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from sbert_retriever.faq import FaqAnswer, FaqEntry
from sbert_retriever.types import Hit


def hit_answer(hit: Hit) -> dict[str, Any]:
    """A hit as it goes out."""
    return {
        "id": hit.id,
        "text": hit.text,
        "metadata": dict(hit.metadata),
        "score": hit.score,
        "score_kind": hit.score_kind,
        "first_score": hit.first_score,
        "first_score_kind": hit.first_score_kind,
        "rerank_score": hit.rerank_score,
        "rerank_score_kind": hit.rerank_score_kind,
        "source": hit.source,
        "reranked": hit.reranked,
        "cut_short": hit.cut_short,
        "fallback": hit.fallback,
        "truncated": hit.truncated,
    }


def faq_answer(answer: FaqAnswer, waited_ms: float = 0.0) -> dict[str, Any]:
    """An answer as it goes out."""
    timings = {"wait": waited_ms, **answer.timings_ms}
    timings["total"] = timings.get("total", 0.0) + waited_ms
    return {
        "outcome": answer.outcome,
        "answer": answer.answer,
        "confidence": answer.confidence,
        "candidates": [
            {
                "entry": entry_answer(each.entry),
                "phrasing": each.phrasing,
                "score": each.score,
                "score_kind": each.score_kind,
                "first_score": each.first_score,
            }
            for each in answer.candidates
        ],
        "entry": None if answer.entry is None else entry_answer(answer.entry),
        "phrasing": answer.phrasing,
        "question": answer.question,
        "exact": answer.exact,
        "fallback": answer.fallback,
        "timings_ms": {stage: round(ms, 3) for stage, ms in timings.items()},
    }


def entry_answer(entry: FaqEntry) -> dict[str, Any]:
    """An entry as it goes out."""
    return asdict(entry)
