"""What a step learns from: files or rows, their kind, and their columns."""

from __future__ import annotations

import codecs
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, get_args

from sbert_retriever.errors import InputError, InputTypeError
from sbert_retriever.training.kinds import DataKind, Format
from sbert_retriever.training.objectives.settings import one_of, switch
from sbert_retriever.types.checks import in_range

ROLES: dict[DataKind, tuple[str, ...]] = {
    "sts": ("first", "second", "score"),
    "nli": ("first", "second", "label"),
    "pairs": ("first", "second"),
    "triplets": ("anchor", "positive", "negative"),
    "ranking": ("query", "positive", "negatives"),
    "margins": ("query", "positive", "negative", "margin"),
    "parallel": ("source", "translation"),
    "texts": ("text",),
    "labelled": ("text", "label"),
}
"""What each kind of data needs."""

_PUBLISHED = {"first": "sentence1", "second": "sentence2", "label": "gold_label"}
"""The columns of SNLI and MultiNLI as published, in JSON lines."""


@dataclass(frozen=True, kw_only=True)
class TrainData:
    """Files, or rows, of one kind.

    | kind | columns |
    |---|---|
    | sts | first, second, score |
    | nli | first, second, label; a label "-" is skipped, as annotators disagreed |
    | pairs | first, second |
    | triplets | anchor, positive, negative |
    | ranking | query, positive (one or a list), negatives (one or a list) |
    | margins | query, positive, negative, margin |
    | parallel | source, translation |
    | texts | text |
    | labelled | text, label |

    Args:
        kind: One of these.
        files: Their paths, or the path of one; a relative one is looked for in the trainer's data
            folder.
        rows: In the place of files: mappings, or one; a generator is read when this is made.
        columns: {what it is: the file's name for it, or its number from 0 without a header};
            those not named keep their own name. SNLI's names hold for nli in JSON lines.
        format: "tsv", "csv", "jsonl", "parquet"; None goes by each file's ending.
        header: Whether the first line of a tsv or csv file names the columns.
        encoding: Of text files.
        score_range: The least and the most that a score may be; they become 0 and 1.
        limit: Use no more than so many examples, the first.

    Raises:
        InputError: The kind, a column or the encoding is unknown, or neither files nor rows, or
            both, are given.
        InputTypeError: A row is no mapping.
    """

    kind: DataKind
    files: tuple[str, ...] = ()
    rows: tuple[Mapping[str, Any], ...] = ()
    columns: Mapping[str, str | int] = field(default_factory=dict)
    format: Format | None = None
    header: bool = True
    encoding: str = "utf-8"
    score_range: tuple[float, float] = (0.0, 5.0)
    limit: int | None = None

    def __post_init__(self) -> None:
        given: Any = self.files
        files = (given,) if isinstance(given, str | os.PathLike) else given
        object.__setattr__(self, "files", tuple(os.fspath(file) for file in files))
        object.__setattr__(self, "rows", _checked_rows(self.rows))
        one_of("kind", self.kind, get_args(DataKind))
        switch("header", self.header)
        _check_encoding(self.encoding)
        if self.format is not None:
            one_of("format", self.format, get_args(Format))
        if bool(self.files) == bool(self.rows):
            raise InputError("give data either files or rows, one of them")
        if unknown := set(self.columns) - set(ROLES[self.kind]):
            raise InputError(
                f"columns name {sorted(unknown)[0]!r}, and {self.kind} data has "
                f"{', '.join(ROLES[self.kind])}"
            )
        if self.limit is not None:
            in_range("limit", self.limit, least=1, of="TrainData")
        _check_range(self.score_range)

    def column(self, role: str, used: Format | None) -> str:
        """What a file of a format calls a column."""
        published = _PUBLISHED if self.kind == "nli" and used == "jsonl" else {}
        return str(self.columns.get(role, published.get(role, role)))


def _checked_rows(given: Any) -> tuple[Mapping[str, Any], ...]:
    rows = (given,) if isinstance(given, Mapping) else tuple(given)
    for number, row in enumerate(rows, 1):
        if not isinstance(row, Mapping):
            raise InputTypeError(
                f"row {number} is {row!r:.60}, expected a mapping of columns to values"
            )
    return rows


def _check_encoding(name: str) -> None:
    try:
        codecs.lookup(name)
    except LookupError as error:
        raise InputError(
            f"encoding is {name!r}, which Python does not know: give one such as 'latin-1'"
        ) from error


def _check_range(given: tuple[float, float]) -> None:
    numbers = len(given) == 2 and all(isinstance(x, int | float) for x in given)
    if not numbers or not given[0] < given[1]:
        raise InputError(f"score_range is {list(given)}, expected the least and the most score")
