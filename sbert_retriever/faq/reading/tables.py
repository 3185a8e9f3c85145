"""csv and jsonl: an entry, or one phrasing of it, a row."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from io import StringIO

from sbert_retriever.errors import ReadError
from sbert_retriever.faq.reading.records import COLUMNS, Draft, draft_of
from sbert_retriever.ingest.record_fields import Fields
from sbert_retriever.ingest.record_lines import BadLine, Parser, csv_records, json_records

_FIELDS = Fields(
    text=tuple(n for name in COLUMNS for n in (name, name.title(), name.upper())),
    called=f"{COLUMNS[0]!r} (in any case; also {', '.join(COLUMNS[1:])})",
    way_out=": rename one",
)


def csv_drafts(text: str, source: str) -> Iterator[Draft | ReadError]:
    """The rows of a csv file, whose first line names the columns."""
    return _drafts(csv_records, text, source, split=True)


def json_drafts(text: str, source: str) -> Iterator[Draft | ReadError]:
    """The lines of a jsonl file."""
    return _drafts(json_records, text, source, split=False)


def _drafts(parse: Parser, text: str, source: str, *, split: bool) -> Iterator[Draft | ReadError]:
    # Lines end with "\n" alone: other marks, such as Word's vertical tab, stand inside a cell.
    lines: Iterable[str] = StringIO(text) if split else text.split("\n")
    for found in parse(lines, source, _FIELDS):
        if isinstance(found, BadLine):
            yield ReadError(f"{source}, line {found.line}: {found.reason}")
            continue
        line, record = found[0], found[1]
        try:
            yield draft_of(line, record, source, split=split)
        except ReadError as error:
            yield error
