"""LangChain's documents to passages and back: the only file that knows both.

A document keeps its id and its metadata exactly. Its source, by which passages are pruned and
deleted, is `metadata["source"]` where that is a string; it stays in the metadata too. A passage
that others wrote, whose metadata names no source, brings its own under the same key. What a second
stage said is put under keys of its own, and left out when the document is added again.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, get_args

from langchain_core.documents import Document

from langchain_sbert._relevance import bounded_relevance
from sbert_retriever.errors import InputError, InputTypeError
from sbert_retriever.types import Hit, Passage, ScoreKind

SCORES_KEY = "_sbert"
"""In the metadata of a document that went through a second stage: its scores, and what was done."""
RELEVANCE_KEY = "relevance_score"
"""Beside it, the relevance from 0 to 1 where its score has one, under LangChain's usual key."""


RANK_KIND: ScoreKind = "rrf"
"""Of a document that nothing has scored yet: it has a rank."""
_KINDS: tuple[ScoreKind, ...] = get_args(ScoreKind)
_SCORE_FIELDS = (
    *("score", "score_kind", "first_score", "first_score_kind"),
    *("rerank_score", "rerank_score_kind"),
    *("reranked", "cut_short", "fallback", "truncated"),
)


def passages_of_texts(
    texts: Iterable[str],
    metadatas: Iterable[Mapping[str, Any] | None] | None,
    ids: Iterable[str | None] | None,
) -> list[Passage]:
    """Texts with their metadata and ids as passages; an id that is None gets a random one.

    Raises:
        InputError: The lengths differ.
        InputTypeError: Something has the wrong type, by its position.
    """
    contents = _drawn("texts", texts)
    _check_types("texts", contents, str)
    extras = [None] * len(contents) if metadatas is None else _drawn("metadatas", metadatas)
    names = [None] * len(contents) if ids is None else _drawn("ids", ids)
    _check_lengths("texts", contents, "metadatas", extras)
    _check_lengths("texts", contents, "ids", names)
    _check_types("metadatas", extras, Mapping, or_none=True)
    _check_types("ids", names, str, or_none=True)
    return [_passage(*fields) for fields in zip(names, contents, extras, strict=True)]


def passages_of_documents(
    documents: Iterable[Document], ids: Iterable[str | None] | None
) -> list[Passage]:
    """Documents as passages; `ids` come before the documents' own.

    Raises:
        InputError: The lengths differ.
        InputTypeError: Something has the wrong type, by its position.
    """
    given = _drawn("documents", documents)
    _check_types("documents", given, Document)
    names = [d.id for d in given] if ids is None else _drawn("ids", ids)
    _check_lengths("documents", given, "ids", names)
    _check_types("ids", names, str, or_none=True)
    return [
        _passage(name, document.page_content, document.metadata)
        for name, document in zip(names, given, strict=True)
    ]


def _passage(name: str | None, text: str, metadata: Mapping[str, Any] | None) -> Passage:
    kept = without_scores(metadata or {})
    source = kept.get("source")
    return Passage(
        str(uuid.uuid4()) if name is None else name,
        text,
        kept,
        source if isinstance(source, str) else None,
    )


def document(passage: Passage) -> Document:
    """A passage as a document: its source, where its metadata names none, is added."""
    metadata = dict(passage.metadata)
    if passage.source is not None:
        metadata.setdefault("source", passage.source)
    return Document(id=passage.id, page_content=passage.text, metadata=metadata)


def documents(hits: Iterable[Hit]) -> list[Document]:
    """Hits as documents, in their order; with their scores where a second stage took part."""
    found = list(hits)
    if not any(hit.reranked or hit.cut_short or hit.fallback is not None for hit in found):
        return [document(hit.passage) for hit in found]
    return [with_scores(document(hit.passage), hit) for hit in found]


def scored(hits: Iterable[Hit]) -> list[tuple[Document, float]]:
    """Hits as documents with their scores, in their order."""
    found = list(hits)
    return [(each, hit.score) for each, hit in zip(documents(found), found, strict=True)]


def with_scores(given: Document, hit: Hit, *, hidden: ScoreKind | None = None) -> Document:
    """A copy of a document, with what a second stage said of it in its metadata.

    Args:
        given: The document.
        hit: It, after the second stage.
        hidden: A kind of score that is left out.
    """
    scores = {name: getattr(hit, name) for name in _SCORE_FIELDS}
    for name in ("score", "first_score"):
        if hidden is not None and scores[f"{name}_kind"] == hidden:
            scores |= {name: None, f"{name}_kind": None}
    extra: dict[str, Any] = {SCORES_KEY: scores}
    if (relevance := bounded_relevance(hit)) is not None:
        extra[RELEVANCE_KEY] = relevance
    return given.model_copy(update={"metadata": without_scores(given.metadata) | extra})


def hits_of_documents(documents: Sequence[Document]) -> list[Hit]:
    """Documents as hits in their order, each with its position for an id.

    A document that a search has scored brings its score; another has none but its rank.

    Raises:
        InputTypeError: Something among them is no Document.
    """
    _check_types("documents", _drawn("documents", documents), Document)
    return [_hit(position, each) for position, each in enumerate(documents)]


def _hit(position: int, given: Document) -> Hit:
    passage = Passage(str(position), given.page_content)
    scores = given.metadata.get(SCORES_KEY)
    # Another program may have put something of its own under this key.
    if (
        isinstance(scores, Mapping)
        and isinstance(scores.get("score"), float)
        and scores.get("score_kind") in _KINDS
    ):
        return Hit(passage, scores["score"], scores["score_kind"])
    return Hit(passage, 1 / (1 + position), RANK_KIND)


def without_scores(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Metadata as it was before a second stage put its scores there."""
    if SCORES_KEY not in metadata:
        return dict(metadata)
    return {k: v for k, v in metadata.items() if k not in (SCORES_KEY, RELEVANCE_KEY)}


def _drawn(name: str, items: Any) -> list[Any]:
    """What any iterable holds; what only looks like many is refused."""
    if isinstance(items, str | bytes | Mapping | Document) or not isinstance(items, Iterable):
        raise InputTypeError(f"{name} is {type(items).__name__}, expected a list: put it into one")
    return list(items)


def _check_lengths(name: str, items: Sequence[Any], other: str, others: Sequence[Any]) -> None:
    if len(items) != len(others):
        raise InputError(
            f"got {len(items)} {name} and {len(others)} {other}: give one of {other} for each of "
            f"{name}, or leave {other} out"
        )


def _check_types(name: str, items: Sequence[Any], kind: type, *, or_none: bool = False) -> None:
    for position, item in enumerate(items):
        if not isinstance(item, kind) and not (or_none and item is None):
            raise InputTypeError(
                f"{name}[{position}] is {type(item).__name__}, expected {kind.__name__}"
            )
