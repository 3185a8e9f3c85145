"""Rows of a file with the place of each: tab- or comma-separated, JSON lines, parquet.

Lines end at a line feed alone: published sets hold other characters that Python takes for line
breaks inside their sentences.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from sbert_retriever.counting import counted
from sbert_retriever.csv_fields import allow_long_fields
from sbert_retriever.errors import InputError, MissingExtraError, ReadError
from sbert_retriever.training.kinds import Format

_SUFFIXES: dict[str, Format] = {
    ".tsv": "tsv",
    ".txt": "tsv",
    ".csv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
}


class Row(NamedTuple):
    """A row's fields by column, and where it stands.

    Args:
        place: "FILE, line 7".
        fields: By the column's name; by its number from 0, as text, where there is no header.
    """

    place: str
    fields: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class RowOptions:
    """How a file is read.

    Args:
        format: None goes by the file's ending.
        header: Whether the first line of a tsv or csv file names the columns.
        encoding: Of a text file; a byte order mark is dropped.
    """

    format: Format | None = None
    header: bool = True
    encoding: str = "utf-8"


def read_rows(path: Path, options: RowOptions) -> Iterator[Row]:
    """The rows of a file.

    Raises:
        ReadError: It is absent, empty, or a line of it cannot be read.
        InputError: Its ending says no format, and none is given.
        MissingExtraError: It is parquet, and pyarrow is not installed.
    """
    kind = file_format(path, options.format)
    if not path.is_file():
        raise ReadError(f"{path} does not exist: name a file of training data")
    if path.stat().st_size == 0:
        raise ReadError(f"{path}, line 1: the file is empty, expected training data")
    return _READERS[kind](path, options)


def file_format(path: Path, given: Format | None) -> Format:
    """The format of a file.

    Raises:
        InputError: Its ending says none, and none is given.
    """
    if given is not None:
        return given
    if path.suffix.lower() not in _SUFFIXES:
        raise InputError(
            f"{path.name} has an ending that names no format: give format = tsv, csv, jsonl or "
            "parquet"
        )
    return _SUFFIXES[path.suffix.lower()]


def _lines(path: Path, encoding: str) -> Iterator[tuple[int, str]]:
    """Lines with their numbers from 1, without their ends."""
    number = 0
    try:
        with path.open(encoding=encoding, newline="\n") as file:
            for number, line in enumerate(file, 1):
                text = line.removesuffix("\n").removesuffix("\r")
                yield number, text.removeprefix("\ufeff") if number == 1 else text
    except UnicodeError as error:  # UTF-16 without its mark is no UnicodeDecodeError
        reason = getattr(error, "reason", error)
        raise ReadError(
            f"{path}, after line {number}: not {encoding} ({reason}): give its encoding"
        ) from error


def _tsv(path: Path, options: RowOptions) -> Iterator[Row]:
    """Tab-separated, where quotes are characters like others."""
    lines = _lines(path, options.encoding)
    return _table(path, ((n, text.split("\t")) for n, text in lines if text), options)


def _csv(path: Path, options: RowOptions) -> Iterator[Row]:
    """Comma-separated, with quotes; a quoted field may hold line breaks."""
    return _table(path, _csv_records(path, options.encoding), options)


def _csv_records(path: Path, encoding: str) -> Iterator[tuple[int, list[str]]]:
    allow_long_fields()
    reader = csv.reader((text + "\n" for _, text in _lines(path, encoding)), strict=True)
    start = 1
    try:
        for fields in reader:
            if fields:
                yield start, fields
            start = reader.line_num + 1
    except csv.Error as error:
        raise ReadError(f"{path}, line {start}: no comma-separated line ({error})") from error


def _table(
    path: Path, records: Iterable[tuple[int, list[str]]], options: RowOptions
) -> Iterator[Row]:
    names: list[str] | None = None
    for number, fields in records:
        if names is None:
            names = [n.strip() for n in fields] if options.header else _numbers(fields)
            if options.header:
                continue
        if len(fields) != len(names):
            raise ReadError(
                f"{path}, line {number}: {counted(len(fields), 'column')}, expected {len(names)} "
                "as in the "
                "first line"
            )
        yield Row(f"{path}, line {number}", dict(zip(names, fields, strict=True)))


def _numbers(fields: list[str]) -> list[str]:
    return [str(n) for n in range(len(fields))]


def _jsonl(path: Path, options: RowOptions) -> Iterator[Row]:
    for number, line in _lines(path, options.encoding):
        if not line.strip():
            continue
        try:
            fields = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise ReadError(f"{path}, line {number}: no JSON ({error})") from error
        if not isinstance(fields, dict):
            raise ReadError(
                f"{path}, line {number}: a JSON {type(fields).__name__}, expected an object"
            )
        yield Row(f"{path}, line {number}", fields)


def _parquet(path: Path, options: RowOptions) -> Iterator[Row]:
    del options
    try:
        import pyarrow as arrow
        from pyarrow import parquet
    except ImportError as error:
        raise MissingExtraError("pyarrow", extra="train", purpose="read parquet files") from error
    try:
        number = 0
        with parquet.ParquetFile(path) as file:
            for batch in file.iter_batches():
                for fields in batch.to_pylist():
                    number += 1
                    yield Row(f"{path}, row {number}", fields)
    except (arrow.ArrowException, OSError) as error:
        raise ReadError(f"{path}, after row {number}: no parquet ({error})") from error


_READERS: dict[str, Callable[[Path, RowOptions], Iterator[Row]]] = {
    "tsv": _tsv,
    "csv": _csv,
    "jsonl": _jsonl,
    "parquet": _parquet,
}
