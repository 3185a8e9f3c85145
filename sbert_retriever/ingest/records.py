"""Records of jsonl and csv files to passages, one a record, streamed."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from io import TextIOWrapper
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

from sbert_retriever.errors import InputError, ReadError
from sbert_retriever.ingest.decoding import (
    FALLBACK,
    Encoding,
    as_windows_1252,
    blocks_of,
    find_encoding,
)
from sbert_retriever.ingest.readers import OnNote, reading, source_of
from sbert_retriever.types import Failure, Passage

Record: TypeAlias = tuple[int, dict[str, Any]]
OnFailure: TypeAlias = Callable[[Failure], None]

_DELIMITERS = ",;\t|"
# The most that a C long holds on every platform.
_LONGEST_FIELD = 2**31 - 1


@dataclass(frozen=True, kw_only=True)
class Fields:
    """Which fields of a record become what.

    Args:
        text: The fields that make the text, joined by a space; at least one.
        id: The field that holds the id; None makes "<source>#<line>" of each.
        metadata: The fields kept as metadata; None keeps all others, () none.
    """

    text: tuple[str, ...] = ("text",)
    id: str | None = None
    metadata: tuple[str, ...] | None = None

    @classmethod
    def of(
        cls,
        text: str | Sequence[str],
        id_field: str | None,
        metadata: Sequence[str] | None,
    ) -> Fields:
        """From what a caller gives: one name or several.

        Raises:
            InputError: No text field is named.
        """
        names = (text,) if isinstance(text, str) else tuple(text)
        if not names or not all(names):
            raise InputError("text_field is empty: name the field that holds the text")
        kept = (metadata,) if isinstance(metadata, str) else metadata
        return cls(text=names, id=id_field, metadata=None if kept is None else tuple(kept))


def read_records(
    path: Path,
    *,
    text_field: str | Sequence[str] = "text",
    id_field: str | None = None,
    metadata_fields: Sequence[str] | None = None,
    on_failure: OnFailure | None = None,
    on_note: OnNote | None = None,
) -> Iterator[Passage]:
    """Read a .jsonl or .csv file, a passage a record; the file need not fit into memory.

    Values of a csv file stay strings. Its first line names the columns; the separator is the
    one of comma, semicolon, tab and bar that makes the text field a column.

    Args:
        path: The file.
        text_field: The field of the text; of several, those present are joined by a space.
        id_field: The field of the id, text or whole numbers; None makes "<source>#<line>".
        metadata_fields: What to keep beside the text; None keeps all other fields.
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
    source = source_of(path)
    with reading(source):
        encoding = find_encoding(blocks_of(path), source)
        if on_note and (note := encoding.note(source)):
            on_note(note)
        newline = "" if path.suffix.lower() == ".csv" else "\n"
        with path.open(encoding=_codec(encoding), newline=newline) as lines:
            records = _decoded_lines(lines, encoding)
            parse = csv_records if newline == "" else json_records
            yield from _passages(parse, records, source, fields, on_failure)


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
            yield from _passages(json_records, lines, source, fields, on_failure)
        finally:
            lines.detach()  # the stream is the caller's to close


def _codec(encoding: Encoding) -> str:
    return "utf-8-sig" if encoding.name == "utf-8" else encoding.name


def _decoded_lines(lines: Iterable[str], encoding: Encoding) -> Iterable[str]:
    return map(as_windows_1252, lines) if encoding.name == FALLBACK else lines


class _BadRecordError(Exception):
    """One record cannot be used; what is wrong with it."""


Parser: TypeAlias = Callable[[Iterable[str], str, Fields], Iterator["Record | _Bad"]]


@dataclass(frozen=True)
class _Bad:
    line: int
    reason: str


def _passages(
    parse: Parser,
    lines: Iterable[str],
    source: str,
    fields: Fields,
    on_failure: OnFailure | None,
) -> Iterator[Passage]:
    first = True
    for record in parse(lines, source, fields):
        try:
            if isinstance(record, _Bad):
                raise _BadRecordError(record.reason)
            if first:
                _expect_text_field(record, fields, source)
                first = False
            passage = _passage(record, source, fields)
        except _BadRecordError as error:
            line = record.line if isinstance(record, _Bad) else record[0]
            if on_failure is None:
                raise ReadError(f"{source}, line {line}: {error}") from error
            on_failure(Failure(f"{source}#{line}", f"{source}, line {line}: {error}"))
        else:
            yield passage


def _expect_text_field(record: Record, fields: Fields, source: str) -> None:
    """A wrong name would fail on every line: say it once, for the file."""
    line, values = record
    wanted = [*([] if any(name in values for name in fields.text) else fields.text)]
    if fields.id is not None and fields.id not in values:
        wanted.append(fields.id)
    if wanted:
        raise ReadError(
            f"{source}, line {line}: no field {' or '.join(map(repr, wanted))}; "
            f"the fields are {', '.join(map(repr, values)) or 'none'}"
        )


def _passage(record: Record, source: str, fields: Fields) -> Passage:
    line, values = record
    text = _text(values, fields.text)
    id_ = f"{source}#{line}" if fields.id is None else _id(values, fields.id)
    return Passage(id_, text, _metadata(values, fields), source)


def _text(values: dict[str, Any], names: tuple[str, ...]) -> str:
    found = {name: values[name] for name in names if values.get(name) is not None}
    if not found:
        missing = [name for name in names if name not in values]
        state = "is missing" if missing else "is null"
        raise _BadRecordError(f"the text field {' or '.join(map(repr, names))} {state}")
    for name, value in found.items():
        if not isinstance(value, str):
            kind = type(value).__name__
            raise _BadRecordError(f"the text field {name!r} is {kind}, expected str")
    return " ".join(part for part in found.values() if part)


def _id(values: dict[str, Any], name: str) -> str:
    value = values.get(name)
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str):
        kind = "missing" if name not in values else type(value).__name__
        raise _BadRecordError(f"the id field {name!r} is {kind}, expected str or int")
    if not value:
        raise _BadRecordError(f"the id field {name!r} is empty")
    return value


def _metadata(values: dict[str, Any], fields: Fields) -> dict[str, Any]:
    if fields.metadata is not None:
        return {name: values[name] for name in fields.metadata if name in values}
    taken = {*fields.text, fields.id}
    return {name: value for name, value in values.items() if name not in taken}


def json_records(lines: Iterable[str], source: str, fields: Fields) -> Iterator[Record | _Bad]:
    """(line number from 1, object) of each line that is not blank."""
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except json.JSONDecodeError as error:
            yield _Bad(number, f"not JSON at column {error.colno}: {error.msg}")
        except (RecursionError, ValueError) as error:
            yield _Bad(number, f"JSON that cannot be read: {error}")
        else:
            yield _object(number, value, line)


def _object(number: int, value: Any, line: str) -> Record | _Bad:
    if not isinstance(value, dict):
        return _Bad(number, f"{type(value).__name__}, expected an object with fields")
    if "\\ud" in line.lower() and not _is_unicode(value):
        return _Bad(number, "half a surrogate pair (\\ud800 to \\udfff), which is no character")
    return number, value


def _is_unicode(value: Any) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def csv_records(lines: Iterable[str], source: str, fields: Fields) -> Iterator[Record | _Bad]:
    """(line number of its first line, values by column) of each row that is not blank.

    Raises:
        ReadError: The header is missing, lacks a field that is asked for, or names one twice.
    """
    csv.field_size_limit(_LONGEST_FIELD)  # of the whole process: there is no other
    iterator = iter(lines)
    first = next(iterator, "")
    if not first:
        return
    reader = csv.reader(_again(first, iterator), delimiter=_delimiter(first, fields), strict=True)
    header = _header(reader, source, fields)
    line = reader.line_num + 1
    for row in _rows(reader, source):
        if row and len(row) != len(header):
            yield _Bad(line, f"{len(row)} values, expected {len(header)} as in the header")
        elif row:
            yield line, dict(zip(header, row, strict=True))
        line = reader.line_num + 1


def _again(first: str, rest: Iterator[str]) -> Iterator[str]:
    yield first
    yield from rest


def _delimiter(header: str, fields: Fields) -> str:
    for delimiter in _DELIMITERS:
        names = next(csv.reader([header], delimiter=delimiter), [])
        if any(name.strip() in fields.text for name in names):
            return delimiter
    return _DELIMITERS[0]


def _rows(reader: Iterator[list[str]], source: str) -> Iterator[list[str]]:
    try:
        yield from reader
    except csv.Error as error:
        line = getattr(reader, "line_num", 0)
        raise ReadError(f"{source}, line {line}: not csv: {error}") from error


def _header(reader: Iterator[list[str]], source: str, fields: Fields) -> list[str]:
    header = [name.strip() for name in next(_rows(reader, source), [])]
    if not any(name in header for name in fields.text):
        raise ReadError(
            f"{source}, line 1: no column {' or '.join(map(repr, fields.text))}; the first line "
            f"must name the columns, and holds {', '.join(map(repr, header))[:200]}"
        )
    needed = [*([fields.id] if fields.id is not None else []), *(fields.metadata or ())]
    missing = [name for name in needed if name not in header]
    twice = sorted({name for name in header if header.count(name) > 1})
    if missing:
        raise ReadError(
            f"{source}, line 1: no column {', '.join(map(repr, missing))}; "
            f"the columns are {', '.join(map(repr, header))[:200]}"
        )
    if twice:
        raise ReadError(f"{source}, line 1: two columns are named {', '.join(map(repr, twice))}")
    return header
