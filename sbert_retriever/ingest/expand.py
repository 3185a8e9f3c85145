"""Small to big: search over chunks, hand out the text around them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from qdrant_client import models

from sbert_retriever.index.steps import Steps
from sbert_retriever.index.store import PassageStore, source_is
from sbert_retriever.ingest.chunking import is_of_whole_source
from sbert_retriever.types import Hit, Passage

Expand = Literal["neighbours", "parent"]
_PAGE = 500


def expand(
    store: PassageStore, hits: Sequence[Hit], *, how: Expand, window: int
) -> Steps[list[Hit]]:
    """Hits with the text around their chunk; what is no chunk of a source stays as it is.

    Args:
        store: Where the chunks lie.
        hits: Best first.
        how: "neighbours" joins `window` chunks before and after; "parent" joins the section the
            chunk belongs to, and keeps the best hit of each section.
        window: Chunks on each side.
    """
    grown: list[Hit] = []
    parents: set[Any] = set()
    for hit in hits:
        around = _around(hit, how=how, window=window, metadata_key=store.layout.metadata_key)
        if around is None:
            grown.append(hit)
            continue
        if how == "parent":
            section = (hit.source, hit.metadata["parent"])
            if section in parents:
                continue
            parents.add(section)
        chunks = [p for p in (yield from _all(store, around)) if _is_chunk(p.metadata)]
        # None is left where the passage was deleted since it was found.
        grown.append(replace(hit, passage=_joined(hit.passage, chunks)) if chunks else hit)
    return grown


def _around(hit: Hit, *, how: Expand, window: int, metadata_key: str) -> models.Filter | None:
    """The filter for the chunks around a hit; None where it is no chunk."""
    if hit.source is None or not _is_chunk(hit.metadata):
        return None
    if how == "neighbours" and not is_of_whole_source(hit.metadata["parent"], hit.source):
        # A record that was cut, whose own field "chunk" is no position of ours.
        return None
    field = f"{metadata_key}.{'chunk' if how == 'neighbours' else 'parent'}"
    if how == "parent":
        match = models.MatchValue(value=hit.metadata["parent"])
        condition = models.FieldCondition(key=field, match=match)
    else:
        position = hit.metadata.get("chunk")
        if not isinstance(position, int):
            return None
        span = models.Range(gte=position - window, lte=position + window)
        condition = models.FieldCondition(key=field, range=span)
    return models.Filter(must=[source_is(hit.source), condition])


def _is_chunk(metadata: Mapping[str, Any]) -> bool:
    """Whether metadata says where a chunk stands; other programs may use the same names."""
    kinds = {"start": int, "end": int, "parent": str}
    return all(isinstance(metadata.get(name), kind) for name, kind in kinds.items())


def _all(store: PassageStore, condition: models.Filter) -> Steps[list[Passage]]:
    found: list[Passage] = []
    offset = None
    while True:
        page, offset = yield from store.scroll(condition=condition, limit=_PAGE, offset=offset)
        found.extend(passage for passage, _ in page)
        if offset is None:
            return found


def _joined(passage: Passage, chunks: Iterable[Passage]) -> Passage:
    """One passage over several chunks of a text, overlaps taken once."""
    ordered = sorted(chunks, key=lambda chunk: (chunk.metadata["start"], chunk.metadata["end"]))
    text, end = "", None
    for chunk in ordered:
        start, stop = chunk.metadata["start"], chunk.metadata["end"]
        if end is None or start > end:
            # What lay between is white space that belongs to no chunk.
            text += ("\n" if text else "") + chunk.text
        else:
            text += chunk.text[end - start :]
        end = max(stop, end or 0)
    span = {"start": ordered[0].metadata["start"], "end": end}
    return replace(passage, text=text, metadata={**passage.metadata, **span})
