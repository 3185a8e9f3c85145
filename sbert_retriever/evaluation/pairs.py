"""Pairs of sentences with a gold score or a label, from the shapes in which corpora come."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sbert_retriever.counting import counted
from sbert_retriever.csv_fields import allow_long_fields
from sbert_retriever.errors import ReadError
from sbert_retriever.evaluation.lines import as_number, numbered_lines, place_of


@dataclass(frozen=True)
class ScoredPairs:
    """Pairs of sentences and how alike people found them.

    Args:
        name: Of the set.
        left: First sentences.
        right: Second sentences, one for each first.
        gold: What people said, one number a pair; bigger is more alike.
    """

    name: str
    left: tuple[str, ...]
    right: tuple[str, ...]
    gold: tuple[float, ...]

    def __len__(self) -> int:
        return len(self.gold)


@dataclass(frozen=True)
class LabelledPairs:
    """Pairs of sentences and a label each.

    Args:
        name: Of the set.
        left: First sentences.
        right: Second sentences, one for each first.
        labels: One a pair.
    """

    name: str
    left: tuple[str, ...]
    right: tuple[str, ...]
    labels: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.labels)


def scored(name: str, rows: Iterable[tuple[str, str, float]], *, source: Path) -> ScoredPairs:
    """Pairs out of rows of (left, right, gold).

    Raises:
        ReadError: There are fewer than two, of which no correlation can be taken.
    """
    found = list(rows)
    if len(found) < 2:
        raise ReadError(
            f"{source} holds {counted(len(found), 'pair')} with a gold score, expected 2 or more"
        )
    left, right, gold = zip(*found, strict=True)
    return ScoredPairs(name, left, right, gold)


def labelled(name: str, rows: Iterable[tuple[str, str, str]], *, source: Path) -> LabelledPairs:
    """Pairs out of rows of (left, right, label).

    Raises:
        ReadError: There are none.
    """
    found = list(rows)
    if not found:
        raise ReadError(f"{source} holds no labelled pair")
    left, right, labels = zip(*found, strict=True)
    return LabelledPairs(name, left, right, labels)


def merged(name: str, parts: Sequence[ScoredPairs]) -> ScoredPairs:
    """Several sets as one."""
    return ScoredPairs(
        name,
        tuple(text for part in parts for text in part.left),
        tuple(text for part in parts for text in part.right),
        tuple(gold for part in parts for gold in part.gold),
    )


def tab_fields(
    path: Path, columns: int, *, or_latin: bool = False
) -> Iterator[tuple[int, list[str]]]:
    """Fields parted by tabs, with the number of their line; quotes mean nothing.

    Raises:
        ReadError: A line has another number of fields.
    """
    for number, line in numbered_lines(path, or_latin=or_latin):
        fields = line.split("\t")
        if len(fields) != columns:
            raise ReadError(
                f"{place_of(path, number)}: {counted(len(fields), 'field')} parted by tabs, "
                f"expected {columns}"
            )
        yield number, fields


def tab_records(path: Path, needed: Sequence[str]) -> Iterator[tuple[int, Mapping[str, str]]]:
    """Rows of a file whose first line names its columns.

    Args:
        path: Fields parted by tabs; quotes mean nothing.
        needed: Names of columns that must be there.

    Raises:
        ReadError: The file is empty, a column is missing, or a line has another number of fields.
    """
    lines = numbered_lines(path)
    first = next(lines, None)
    if first is None:
        raise ReadError(f"{path} is empty: expected a line of column names")
    names = first[1].split("\t")
    if missing := [name for name in needed if name not in names]:
        raise ReadError(
            f"{place_of(path, first[0])}: no column {missing[0]!r}; the columns are: "
            f"{', '.join(map(repr, names))}"
        )
    for number, line in lines:
        fields = line.split("\t")
        if len(fields) != len(names):
            raise ReadError(
                f"{place_of(path, number)}: {counted(len(fields), 'field')}, expected "
                f"{len(names)} as in the "
                "first line"
            )
        yield number, dict(zip(names, fields, strict=True))


def comma_fields(path: Path, columns: int) -> Iterator[tuple[int, list[str]]]:
    """Fields of a CSV file in which a quoted field may hold commas and line breaks.

    Raises:
        ReadError: A record has another number of fields, or the quotes do not close.
    """
    allow_long_fields()
    reader = csv.reader(_with_empty_lines(path), strict=True)
    while True:
        try:
            fields = next(reader, None)
        except csv.Error as error:
            raise ReadError(f"{place_of(path, reader.line_num)}: {error}") from error
        if fields is None:
            return
        if fields and len(fields) != columns:
            raise ReadError(
                f"{place_of(path, reader.line_num)}: {counted(len(fields), 'field')} parted by "
                "commas, "
                f"expected {columns}"
            )
        if fields:
            yield reader.line_num, fields


def _with_empty_lines(path: Path) -> Iterator[str]:
    """The lines of a file, which a reader is to count as they are, and which quotes may hold."""
    last = 0
    for number, line in numbered_lines(path):
        yield from ["\n"] * (number - last - 1)
        yield f"{line}\n"
        last = number


def gold_score(value: str, where: str, *, low: float, high: float) -> float:
    """A gold score within its range.

    Raises:
        ReadError: It is no number, or lies outside.
    """
    score = as_number(float, value, "score", where)
    if not low <= score <= high:
        raise ReadError(f"{where}: the score is {score:g}, expected {low:g} to {high:g}")
    return score
