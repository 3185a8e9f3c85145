"""Rows to examples: texts and a target, checked, each error with its place."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from sbert_retriever.errors import ReadError
from sbert_retriever.training.data import ROLES, TrainData
from sbert_retriever.training.readers.rows import Row, RowOptions, file_format, read_rows

Target: TypeAlias = float | int | tuple[float, ...] | npt.NDArray[np.float32] | None


@dataclass(frozen=True, slots=True)
class Example:
    """What is learned from at once.

    Args:
        texts: One a column: a pair, a triplet, a query with its positive and its negatives.
        target: A score from 0 to 1, the number of a label, margins, a
            teacher's numbers; None where there is none.
    """

    texts: tuple[str, ...]
    target: Target = None


class Labels:
    """Names to numbers.

    Args:
        known: In the order of their numbers; None numbers each name as it comes.
    """

    def __init__(self, known: Sequence[str] | None) -> None:
        self._open = known is None
        self._names = tuple(known or ())
        self._numbers = {name.casefold(): number for number, name in enumerate(self._names)}

    def number(self, value: Any, place: str) -> int:
        """The number of a label.

        Raises:
            ReadError: It is not among those known, or there is none.
        """
        if value is None or (isinstance(value, float) and math.isnan(value)):
            raise ReadError(f"{place}: the label is {value!r}, expected a name or a number")
        name = str(value).strip().casefold()
        if self._open and name:
            return self._numbers.setdefault(name, len(self._numbers))
        if name not in self._numbers:
            raise ReadError(
                f"{place}: the label {value!r} is not one of {', '.join(self._names)}: name the "
                "objective's labels, or mend the line"
            )
        return self._numbers[name]


@dataclass(frozen=True)
class Context:
    """What turning a row into examples needs.

    Args:
        data: The settings.
        labels: Of nli and labelled data.
        negatives: How many negatives of a ranking an example has; None is all of its row.
        names: {role: column}.
    """

    data: TrainData
    labels: Labels
    negatives: int | None
    names: Mapping[str, str]


def read_examples(
    data: TrainData,
    *,
    folder: Path | None = None,
    labels: Sequence[str] | Labels | None = None,
    negatives: int | None = 1,
) -> list[Example]:
    """All examples of some data, checked.

    Args:
        data: Files or rows.
        folder: Where relative paths start; None is the current folder.
        labels: The names of nli data's labels; None numbers them as they come. `Labels` that
            several data share give a name the same number in all of them.
        negatives: How many negatives of a ranking each example has; None is all of its row.

    Raises:
        ReadError: A file is absent, empty or damaged; a column is missing; a text is empty; a
            score is out of range; a label is unknown. With file and line.
    """
    numbers = labels if isinstance(labels, Labels) else Labels(labels)
    found = _examples(data, folder or Path(), numbers, negatives)
    examples = list(islice(found, data.limit))
    if not examples:
        names = ", ".join(data.files) or "the rows"
        raise ReadError(f"{names}: no {data.kind} example in it, expected one or more")
    return examples


def _examples(
    data: TrainData, folder: Path, labels: Labels, negatives: int | None
) -> Iterator[Example]:
    if data.rows:
        names = {role: data.column(role, None) for role in ROLES[data.kind]}
        rows = (Row(f"row {n}", fields) for n, fields in enumerate(data.rows, 1))
        yield from _of_rows(rows, Context(data, labels, negatives, names))
    options = RowOptions(format=data.format, header=data.header, encoding=data.encoding)
    for file in data.files:
        path = folder / Path(file).expanduser()
        used = file_format(path, data.format)
        names = {role: data.column(role, used) for role in ROLES[data.kind]}
        yield from _of_rows(read_rows(path, options), Context(data, labels, negatives, names))


def _of_rows(rows: Iterator[Row], context: Context) -> Iterator[Example]:
    make = _MAKERS.get(context.data.kind, _plain)
    for row in rows:
        yield from make(row, context)


def _value(row: Row, role: str, context: Context) -> Any:
    name = context.names[role]
    if name not in row.fields and role in row.fields and role not in context.data.columns:
        name = role  # not named as it is published
    if name not in row.fields:
        has = ", ".join(map(str, row.fields))
        raise ReadError(
            f"{row.place}: there is no column {name!r} for the {role}, only {has}: name it under "
            "columns"
        )
    return row.fields[name]


def _text(row: Row, role: str, context: Context) -> str:
    return _checked_text(_value(row, role, context), role, row.place)


def _checked_text(value: Any, role: str, place: str) -> str:
    if not isinstance(value, str):
        raise ReadError(f"{place}: the {role} is {value!r:.60}, expected a text")
    if not value.strip():
        raise ReadError(f"{place}: the {role} is empty, expected a text")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ReadError(
            f"{place}: the {role} holds half a surrogate pair at character {error.start}, which is "
            "no character: mend the line, which may be cut in the middle of one"
        ) from error
    return value


def _texts(row: Row, role: str, context: Context) -> list[str]:
    value = _value(row, role, context)
    values = list(value) if isinstance(value, list | tuple) else [value]
    if not values:
        raise ReadError(f"{row.place}: {role} is an empty list, expected one text or more")
    return [_checked_text(text, role, row.place) for text in values]


def _number(row: Row, role: str, context: Context) -> float:
    value = _value(row, role, context)
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if isinstance(value, bool) or not math.isfinite(number):
        raise ReadError(f"{row.place}: the {role} is {value!r:.60}, expected a number")
    return number


def _plain(row: Row, context: Context) -> Iterator[Example]:
    """Texts alone."""
    roles = ROLES[context.data.kind]
    yield Example(tuple(_text(row, role, context) for role in roles))


def _sts(row: Row, context: Context) -> Iterator[Example]:
    least, most = context.data.score_range
    score = _number(row, "score", context)
    if not least <= score <= most:
        raise ReadError(
            f"{row.place}: the score is {score:g}, expected {least:g} to {most:g}: mend it, or "
            "give score_range"
        )
    pair = (_text(row, "first", context), _text(row, "second", context))
    yield Example(pair, (score - least) / (most - least))


def _nli(row: Row, context: Context) -> Iterator[Example]:
    label = _value(row, "label", context)
    if label != "-":
        number = context.labels.number(label, row.place)
        yield Example((_text(row, "first", context), _text(row, "second", context)), number)


def _labelled(row: Row, context: Context) -> Iterator[Example]:
    number = context.labels.number(_value(row, "label", context), row.place)
    yield Example((_text(row, "text", context),), number)


def _margins(row: Row, context: Context) -> Iterator[Example]:
    texts = tuple(_text(row, role, context) for role in ("query", "positive", "negative"))
    yield Example(texts, (_number(row, "margin", context),))


def _ranking(row: Row, context: Context) -> Iterator[Example]:
    """An example a positive, its negatives taken in turn; too few come round again."""
    query = _text(row, "query", context)
    positives = _texts(row, "positive", context)
    negatives = [] if context.negatives == 0 else _texts(row, "negatives", context)
    count = len(negatives) if context.negatives is None else context.negatives
    for number, positive in enumerate(positives):
        start = number * count
        taken = [negatives[(start + i) % len(negatives)] for i in range(count)]
        yield Example((query, positive, *taken))


_MAKERS: dict[str, Callable[[Row, Context], Iterator[Example]]] = {
    "sts": _sts,
    "nli": _nli,
    "labelled": _labelled,
    "margins": _margins,
    "ranking": _ranking,
}
