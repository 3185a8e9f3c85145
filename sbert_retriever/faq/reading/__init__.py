"""Files to FAQ entries: csv, jsonl, yaml, markdown, and a saved web page's FAQPage."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from sbert_retriever.errors import ReadError
from sbert_retriever.faq.entries import FaqEntry
from sbert_retriever.faq.reading.markdown import markdown_drafts
from sbert_retriever.faq.reading.page import page_drafts
from sbert_retriever.faq.reading.records import Draft, Placed, check_apart, entries_of
from sbert_retriever.faq.reading.tables import csv_drafts, json_drafts
from sbert_retriever.faq.reading.yaml import yaml_drafts
from sbert_retriever.ingest.decoding import decode
from sbert_retriever.ingest.readers import reading, source_of
from sbert_retriever.types import IndexReport


@dataclass(frozen=True, kw_only=True)
class ImportReport:
    """What `Faq.load` did.

    Args:
        entries: How many were read and written.
        deleted: How many were deleted, being in no file.
        passages: What that came to, in passages: one a phrasing.
        dropped: How many phrasings of entries that were there are in no file, and are gone.
    """

    entries: int
    deleted: int
    passages: IndexReport
    dropped: int = 0

    def __str__(self) -> str:
        gone = f", {self.deleted} deleted" if self.deleted else ""
        what = "entry" if self.entries == 1 else "entries"
        return f"{self.entries} {what}{gone}; passages: {self.passages}"


_READERS: dict[str, Callable[[str, str], Iterator[Draft | ReadError]]] = {
    ".csv": csv_drafts,
    ".jsonl": json_drafts,
    ".yaml": yaml_drafts,
    ".yml": yaml_drafts,
    ".md": markdown_drafts,
    ".html": page_drafts,
    ".htm": page_drafts,
}


def read_entries(path: str | PathLike[str]) -> list[FaqEntry]:
    """The entries of a file, by its suffix.

    Raises:
        ReadError: It cannot be read, with the line; or it holds no entry.
    """
    return [each.entry for each in _placed(Path(path))]


def read_all(paths: Iterable[str | PathLike[str]]) -> list[FaqEntry]:
    """The entries of several files.

    Raises:
        ReadError: As for `read_entries`; or two files have entries of one id, with both lines.
    """
    placed = [each for path in paths for each in _placed(Path(path))]
    check_apart(placed)
    return [each.entry for each in placed]


def _placed(file: Path) -> list[Placed]:
    reader = _READERS.get(file.suffix.lower())
    source = source_of(file)
    if reader is None:
        known = " ".join(sorted(_READERS))
        raise ReadError(f"{source}: an FAQ is read from files with the suffixes {known}")
    with reading(source):
        text, _ = decode(file.read_bytes(), source)
        entries = entries_of(reader(text, source), source)
    if not entries:
        raise ReadError(f"{source} holds no entry: is it the right file, and whole?")
    return entries
