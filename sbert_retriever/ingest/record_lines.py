"""Lines of jsonl and csv to records, one at a time."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

from sbert_retriever.counting import counted
from sbert_retriever.csv_fields import allow_long_fields
from sbert_retriever.errors import ReadError
from sbert_retriever.ingest.record_fields import Fields, Record

_DELIMITERS = ",;\t|"
# The most that a C long holds on every platform.


@dataclass(frozen=True)
class BadLine:
    """A line that is no record, and why."""

    line: int
    reason: str


Parser: TypeAlias = Callable[[Iterable[str], str, Fields], Iterator[Record | BadLine]]
"""Lines, their source and what is looked for in them, to records."""


def json_records(lines: Iterable[str], source: str, fields: Fields) -> Iterator[Record | BadLine]:
    """(line number from 1, object) of each line that is not blank."""
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except json.JSONDecodeError as error:
            yield BadLine(number, f"not JSON at column {error.colno}: {error.msg}")
        except (RecursionError, ValueError) as error:
            yield BadLine(number, f"JSON that cannot be read: {error}")
        else:
            yield _object(number, value, line)


def _object(number: int, value: Any, line: str) -> Record | BadLine:
    if not isinstance(value, dict):
        return BadLine(number, f"{type(value).__name__}, expected an object with fields")
    if "\\ud" in line.lower() and not _is_unicode(value):
        return BadLine(
            number, "half a surrogate pair (\\ud800 to \\udfff), which is not a character"
        )
    return number, value


def _is_unicode(value: Any) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def csv_records(lines: Iterable[str], source: str, fields: Fields) -> Iterator[Record | BadLine]:
    """(line number of its first line, values by column) of each row that is not blank.

    Raises:
        ReadError: The header is missing, lacks a field that is asked for, or names one twice.
    """
    allow_long_fields()
    iterator = iter(lines)
    first = next(iterator, "")
    if not first:
        return
    reader = csv.reader(_again(first, iterator), delimiter=_delimiter(first, fields), strict=True)
    header = _header(reader, source, fields)
    line = reader.line_num + 1
    for row in _rows(reader, source):
        if row and len(row) != len(header):
            yield BadLine(
                line, f"{counted(len(row), 'value')}, expected {len(header)} as in the header"
            )
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
            f"{source}, line 1: no column {fields.of_text}; the first line "
            f"must name the columns, and holds {', '.join(map(repr, header))[:200]}{fields.way_out}"
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
