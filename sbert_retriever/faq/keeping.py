"""Entries written to a collection, read back, and deleted."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from qdrant_client import models

from sbert_retriever.errors import InputError, InputTypeError, StoreRequestError
from sbert_retriever.faq.entries import FaqEntry
from sbert_retriever.faq.passages import HEAD, KIND, entry_of, head_id, passages_of
from sbert_retriever.index.points import SOURCE_KEY, draft
from sbert_retriever.retriever import Retriever
from sbert_retriever.retriever.writing import said_elsewhere
from sbert_retriever.types import IndexReport, Passage

_PAGE = 256
# Entries whose passages are written together.
_AT_ONCE = 256


class Shelf:
    """The entries of one collection.

    Args:
        retriever: Over the collection.
        answers: Whether the answers are passages too.
    """

    def __init__(self, retriever: Retriever, *, answers: bool) -> None:
        self._retriever = retriever
        self._answers = answers
        self._guard = threading.RLock()

    def get(self, ids: Sequence[str]) -> dict[str, FaqEntry]:
        """Entries by id; missing ones are left out."""
        found = self._retriever.get(map(head_id, ids))
        return {passage.metadata["entry"]: entry_of(passage) for passage in found}

    def all(self) -> Iterator[FaqEntry]:
        """Every entry, in no order of meaning."""
        offset: str | int | None = None
        while True:
            page, offset = self._retriever.scroll(filter={KIND: HEAD}, limit=_PAGE, offset=offset)
            yield from map(entry_of, page)
            if offset is None:
                return

    def ids(self) -> set[str]:
        """The ids of all that has a passage, the remains of a write that was cut off among them."""
        store = self._retriever.store
        return set(store.connection.run(store.sources()))

    def count(self) -> int:
        """How many entries there are."""
        return self._retriever.count({KIND: HEAD})

    def add(self, entries: Iterable[FaqEntry], *, replacing: bool) -> IndexReport:
        """Write entries; what it reports are passages.

        Raises:
            InputError: An id comes twice, or is there and may not be replaced, or a text is none.
            InputTypeError: One is no `FaqEntry`.
            StoreRequestError: One is too large for the engine.
        """
        given = checked(entries)
        parts = [given[start : start + _AT_ONCE] for start in range(0, len(given), _AT_ONCE)]
        total = IndexReport()
        with self._guard:
            # All before the first is written: those that were in would be in the way of a retry.
            for part in parts:
                self._check(part, replacing=replacing)
            for part in parts:
                total = _joined(total, self._write(part))
        return total

    def without(self, entries: Sequence[FaqEntry]) -> int:
        """How many phrasings that are kept these entries would drop, taking their place."""
        gone = 0
        for start in range(0, len(entries), _AT_ONCE):
            part = entries[start : start + _AT_ONCE]
            there = self.get([entry.id for entry in part])
            gone += sum(
                len(set(there[entry.id].phrasings) - set(entry.phrasings))
                for entry in part
                if entry.id in there
            )
        return gone

    def edit(
        self,
        entry_id: str,
        *,
        answer: str | None,
        phrasings: Iterable[str] | None,
        tags: Iterable[str] | None,
        language: str | None,
        links: Iterable[str] | None,
    ) -> FaqEntry:
        """Change what is not None of an entry.

        Raises:
            InputError: There is no such entry.
        """
        given: dict[str, Any] = {
            "answer": answer,
            "phrasings": phrasings,
            "tags": tags,
            "links": links,
        }
        changes = {name: value for name, value in given.items() if value is not None}
        if language is not None:
            changes["language"] = language or None
        with self._guard:
            old = self.get([entry_id]).get(entry_id)
            if old is None:
                raise InputError(f"there is no entry {entry_id[:80]!r}: add it")
            new = replace(old, **changes)
            self._check([new], replacing=True)
            self._write([new])
        return new

    def delete(self, ids: Iterable[str]) -> int:
        """Delete entries; how many of them were there."""
        with self._guard:
            return sum(self._retriever.delete(source=entry) > 0 for entry in dict.fromkeys(ids))

    def _check(self, entries: Sequence[FaqEntry], *, replacing: bool) -> None:
        """Refuse entries that are there, and those with a passage that cannot be kept.

        Raises:
            InputError: There is one.
        """
        if not replacing and (known := self.get([entry.id for entry in entries])):
            raise InputError(
                f"entry {next(iter(known))[:80]!r} is there already: edit it, or add with "
                "replace=True"
            )
        for passage in (each for entry in entries for each in self._passages(entry)):
            draft(passage, self._retriever.store.layout)

    def _write(self, entries: Sequence[FaqEntry]) -> IndexReport:
        new = [passage for entry in entries for passage in self._passages(entry)]
        # Phrasings that are gone go first: none may lead to an answer that is not theirs any more.
        # Which those are is asked of the collection: of a write that was cut off no entry tells.
        store = self._retriever.store
        theirs = models.MatchAny(any=[entry.id for entry in entries])
        kept = models.HasIdCondition(has_id=[store.point_id(passage.id) for passage in new])
        gone = self._retriever.delete(
            filter=models.Filter(
                must=[models.FieldCondition(key=SOURCE_KEY, match=theirs)], must_not=[kept]
            )
        )
        report = self._retriever.index(
            new, on_truncate=said_elsewhere(self._retriever) if self._answers else None
        )
        if report.failures:
            raise StoreRequestError(
                f"passage {report.failures[0].id[:80]!r} cannot be kept: "
                f"{report.failures[0].reason}"
            )
        return IndexReport(**{**vars(report), "deleted": gone})

    def _passages(self, entry: FaqEntry) -> list[Passage]:
        return list(passages_of(entry, answers=self._answers))


def checked(entries: Iterable[FaqEntry]) -> list[FaqEntry]:
    """Entries as a list, each id once.

    Raises:
        InputError: An id comes twice.
        InputTypeError: One is no `FaqEntry`.
    """
    if isinstance(entries, str | bytes) or not isinstance(entries, Iterable):
        raise InputTypeError(f"entries is {type(entries).__name__}, expected FaqEntry or several")
    given: dict[str, FaqEntry] = {}
    for entry in entries:
        if not isinstance(entry, FaqEntry):
            raise InputTypeError(f"an entry is {type(entry).__name__}, expected FaqEntry")
        if entry.id in given:
            raise InputError(f"two entries have the id {entry.id[:80]!r}: give each its own")
        given[entry.id] = entry
    return list(given.values())


def _joined(one: IndexReport, other: IndexReport) -> IndexReport:
    numbers = ("added", "updated", "unchanged", "deleted", "encoded", "truncated", "seconds")
    sums = {name: getattr(one, name) + getattr(other, name) for name in numbers}
    return IndexReport(**sums, longest=max(one.longest, other.longest))
