"""Entries as passages of a collection, and back: the only place that knows their metadata.

Each phrasing is a passage; the first, the head, carries the whole entry. All of an entry's
passages have its id as their source, so that they are found, replaced and deleted together.
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from sbert_retriever.errors import StoreRequestError
from sbert_retriever.faq.entries import FaqEntry
from sbert_retriever.types import Hit, Passage

HEAD, PHRASING, ANSWER = "head", "phrasing", "answer"
KIND, ENTRY, EXACT, RECORD = "kind", "entry", "exact", "record"
FILTERABLE = {KIND: "keyword", EXACT: "keyword", "tags": "keyword", "language": "keyword"}
"""Metadata fields that get a payload index."""


def head_id(entry_id: str) -> str:
    """The passage that carries an entry."""
    return f"{entry_id}#{HEAD}"


def passages_of(entry: FaqEntry, *, answers: bool) -> Iterator[Passage]:
    """The passages of an entry: its head, its other phrasings, and its answer where asked for."""
    yield _passage(entry, HEAD, entry.title, {RECORD: asdict(entry)})
    for phrasing in entry.phrasings[1:]:
        yield _passage(entry, PHRASING, phrasing, {})
    if answers:
        yield _passage(entry, ANSWER, entry.answer, {})


def _passage(entry: FaqEntry, kind: str, text: str, more: Mapping[str, Any]) -> Passage:
    # A phrasing's id follows from its text: one that stays is not encoded again.
    own = head_id(entry.id) if kind == HEAD else f"{entry.id}#{kind}-{_digest(text)}"
    metadata: dict[str, Any] = {ENTRY: entry.id, KIND: kind, **more}
    if kind != ANSWER and (plain := normalised(text)):
        metadata[EXACT] = _digest(plain)
    if entry.tags:
        metadata["tags"] = list(entry.tags)
    if entry.language is not None:
        metadata["language"] = entry.language
    return Passage(own, text, metadata, entry.id)


def entry_of(passage: Passage) -> FaqEntry:
    """The entry that a head carries.

    Raises:
        StoreRequestError: It carries none.
    """
    record = passage.metadata.get(RECORD)
    if not isinstance(record, Mapping):
        raise StoreRequestError(
            f"passage {passage.id[:80]!r} is not the head of an FAQ entry: was it written by "
            "another program? Import the entries again"
        )
    return FaqEntry(**record)


def entry_id_of(hit: Hit) -> str:
    """The id of the entry that a passage belongs to."""
    return str(hit.metadata.get(ENTRY, ""))


def exact_key(question: str) -> str | None:
    """What questions share that are one but for case, width and punctuation; None for no words."""
    plain = normalised(question)
    return _digest(plain) if plain else None


def normalised(text: str) -> str:
    """A text in one case and one width, its words alone, one space between them.

    Letters keep their marks: "año" is not "ano".

    Examples:
        >>> normalised("  What's  your Address?! ")
        'whats your address'
        >>> normalised("\uff28\uff45\uff4c\uff50 me, PLEASE\u2026")
        'help me please'
    """
    wide = unicodedata.normalize("NFKC", text).casefold().replace("\u2019", "'").replace("'", "")
    kept = (c if _of_word(c) else " " for c in unicodedata.normalize("NFKC", wide))
    return " ".join("".join(kept).split())


def _of_word(character: str) -> bool:
    # Letters, marks, numbers, and symbols such as + and #, which tell C, C++ and C# apart.
    return unicodedata.category(character)[0] in "LMN" or character in "+#$€£%"


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()
