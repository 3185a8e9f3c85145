"""The model: found, the right one, and what it makes of the texts."""

from __future__ import annotations

from time import perf_counter
from typing import Any

from sbert_retriever.doctor.visit import Sample, Status, Visit
from sbert_retriever.ingest.files import room_for_text
from sbert_retriever.retriever import Retriever
from sbert_retriever.types import RetrieverInfo

_TRUNCATION_WARNING, _TRUNCATION_PROBLEM = 0.02, 0.2
_SLOW_MS = 2000.0


def look_at_model(visit: Visit, facts: RetrieverInfo, sample: Sample) -> None:
    """The model asked for: found, the collection's own, right for the texts, and working."""
    with (
        visit.noting("model", "give --model with the model that made the vectors, or rebuild"),
        Retriever.open(
            visit.location,
            model=visit.model,
            collection_name=visit.collection_name,
            device=visit.device,
            dtype=visit.dtype,
            api_key=visit.api_key,
            create=False,
        ) as retriever,
    ):
        encoder: Any = retriever.encoder
        visit.add("model", "ok", f"{encoder.identity.name}, the same as the collection's")
        visit.add("device", "ok", f"{encoder.device}, {encoder.dtype}")
        _truncation(visit, encoder, sample)
        _smoke(visit, retriever, facts, sample)


def _truncation(visit: Visit, encoder: Any, sample: Sample) -> None:
    limit = encoder.max_length
    if not sample.passages or limit is None:
        return
    counts = encoder.token_counts([p.text for p in sample.passages], role="passage")
    share = float((counts > limit).mean())
    finding = (
        f"{share:.0%} of {len(counts)} texts looked at are longer than the {limit} tokens the "
        f"model reads (longest: {counts.max()})"
    )
    status: Status = (
        "ok"
        if share < _TRUNCATION_WARNING
        else "warning"
        if share < _TRUNCATION_PROBLEM
        else "problem"
    )
    way_out = (
        "the ends of those texts are not searched: index again with --chunk-tokens "
        f"{room_for_text(encoder)} or less"
    )
    visit.add("truncation", status, finding, way_out)


def _smoke(visit: Visit, retriever: Retriever, facts: RetrieverInfo, sample: Sample) -> None:
    """One search for a text that is there."""
    if not sample.passages:
        return
    asked = next((p.text for p in sample.passages if p.text.strip()), "text")
    encoder: Any = retriever.encoder
    encoder.encode_queries(["the first call loads the weights"], on_truncate="ignore")
    started = perf_counter()
    (vector,) = encoder.encode_queries([asked[:500]], on_truncate="ignore")
    encoded = perf_counter()
    hits = retriever.search_by_vector(vector, 10)
    ended = perf_counter()
    encode, search, elapsed = (
        1e3 * span for span in (encoded - started, ended - encoded, ended - started)
    )
    finding = f"{elapsed:.0f} ms (encoding {encode:.0f}, search {search:.1f})"
    if not hits:
        visit.add(
            "search", "problem", f"{finding}, and nothing was found", "export and import again"
        )
    elif elapsed > _SLOW_MS:
        visit.add("search", "warning", finding, "see index and device above")
    else:
        visit.add("search", "ok", f"{finding}, {len(hits)} of {facts.count:,} passages")
