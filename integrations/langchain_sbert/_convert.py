"""LangChain's documents to passages and back: the only file that knows both.

A document keeps its id and its metadata exactly. Its source, by which passages are pruned and
deleted, is `metadata["source"]` where that is a string; it stays in the metadata too.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from langchain_core.documents import Document

from sbert_retriever.errors import InputError, InputTypeError
from sbert_retriever.types import Hit, Passage


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
    source = (metadata or {}).get("source")
    return Passage(
        str(uuid.uuid4()) if name is None else name,
        text,
        metadata or {},
        source if isinstance(source, str) else None,
    )


def document(passage: Passage) -> Document:
    """A passage as a document, with nothing added."""
    return Document(id=passage.id, page_content=passage.text, metadata=dict(passage.metadata))


def documents(hits: Iterable[Hit]) -> list[Document]:
    """Hits as documents, in their order."""
    return [document(hit.passage) for hit in hits]


def scored(hits: Iterable[Hit]) -> list[tuple[Document, float]]:
    """Hits as documents with their scores, in their order."""
    return [(document(hit.passage), hit.score) for hit in hits]


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
