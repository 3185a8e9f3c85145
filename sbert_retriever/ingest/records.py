"""Records of jsonl and csv files to passages, one a record, streamed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from io import TextIOWrapper
from pathlib import Path
from typing import BinaryIO, TypeAlias

from sbert_retriever.errors import ReadError
from sbert_retriever.ingest.cells import typed_columns
from sbert_retriever.ingest.decoding import (
    FALLBACK,
    Encoding,
    as_windows_1252,
    blocks_of,
    find_encoding,
)
from sbert_retriever.ingest.readers import OnNote, reading, source_of
from sbert_retriever.ingest.record_fields import (
    BadRecordError,
    Fields,
    Record,
    expect_fields,
    passage_of,
)
from sbert_retriever.ingest.record_lines import BadLine, csv_records, json_records
from sbert_retriever.types import Failure, Passage

OnFailure: TypeAlias = Callable[[Failure], None]


def read_records(
    path: Path,
    *,
    text_field: str | Sequence[str] = "text",
    id_field: str | None = None,
    metadata_fields: Sequence[str] | None = None,
    kinds: Mapping[str, str] | None = None,
    source: str | None = None,
    on_failure: OnFailure | None = None,
    on_note: OnNote | None = None,
) -> Iterator[Passage]:
    """Read a .jsonl or .csv file, a passage a record; the file need not fit into memory.

    Values of a csv file are strings, but for the columns in `kinds`. Its first line names the
    columns; the separator is the one of comma, semicolon, tab and bar that makes the text field a
    column.

    Args:
        path: The file.
        text_field: The field of the text; of several, those present are joined by a space.
        id_field: The field of the id, text or whole numbers; None makes "<source>#<line>".
        metadata_fields: What to keep beside the text; None keeps all other fields.
        kinds: Of csv, the columns to read as "integer", "float", "bool" or "datetime" (ISO 8601
            text); a blank cell is None. Other kinds of `filterable` leave the text as it is.
        source: The passages' source; None is the path as it is given.
        on_failure: Told of each record that cannot be used, and the rest go on; where it is
            None, the first such record raises.
        on_note: Told what the user should know of the file.

    Yields:
        Passages, in the order of the file.

    Raises:
        ReadError: The file cannot be read, has no header, or its first record lacks the text
            field; or, without `on_failure`, a record cannot be used (the line is named).
    """
    fields = Fields.of(text_field, id_field, metadata_fields)
    source = source_of(path) if source is None else source
    with reading(source):
        encoding = find_encoding(blocks_of(path), source)
        if on_note and (note := encoding.note(source)):
            on_note(note)
        newline = "" if path.suffix.lower() == ".csv" else "\n"
        if newline == "":
            fields = replace(fields, kinds=typed_columns(kinds or {}))
        with path.open(encoding=_codec(encoding), newline=newline) as lines:
            parse = csv_records if newline == "" else json_records
            records = parse(_decoded_lines(lines, encoding), source, fields)
            yield from record_passages(records, source, fields, on_failure)


def read_json_stream(
    stream: BinaryIO, source: str, *, fields: Fields, on_failure: OnFailure | None = None
) -> Iterator[Passage]:
    """Read jsonl that can be read only once, such as the standard input; UTF-8 only.

    Raises:
        ReadError: As `read_records`.
    """
    with reading(source):
        lines = TextIOWrapper(stream, encoding="utf-8-sig", newline="\n")
        try:
            records = json_records(lines, source, fields)
            yield from record_passages(records, source, fields, on_failure)
        finally:
            lines.detach()  # the stream is the caller's to close


def _codec(encoding: Encoding) -> str:
    return "utf-8-sig" if encoding.name == "utf-8" else encoding.name


def _decoded_lines(lines: Iterable[str], encoding: Encoding) -> Iterable[str]:
    return map(as_windows_1252, lines) if encoding.name == FALLBACK else lines


def record_passages(
    records: Iterable[Record | BadLine],
    source: str,
    fields: Fields,
    on_failure: OnFailure | None = None,
) -> Iterator[Passage]:
    """Passages of records, however they were read.

    Raises:
        ReadError: As `read_records`.
    """
    first = True
    for record in records:
        try:
            if isinstance(record, BadLine):
                raise BadRecordError(record.reason)
            if first:
                expect_fields(record, fields, source)
                first = False
            passage = passage_of(record, source, fields)
        except BadRecordError as error:
            line = record.line if isinstance(record, BadLine) else record[0]
            if on_failure is None:
                raise ReadError(f"{source}, line {line}: {error}") from error
            on_failure(Failure(f"{source}#{line}", f"{source}, line {line}: {error}"))
        else:
            yield passage
