"""Lines of data files with their numbers, so that an error can name the place."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

from sbert_retriever.errors import ReadError

T = TypeVar("T", int, float)


def place_of(path: str | PathLike[str], number: int) -> str:
    """How an error names a line.

    Examples:
        >>> place_of("pairs.tsv", 3)
        'pairs.tsv, line 3'
    """
    return f"{path}, line {number}"


def numbered_lines(path: Path, *, or_latin: bool = False) -> Iterator[tuple[int, str]]:
    r"""Non-empty lines with their numbers; only "\n" ends one, as texts may hold odd characters.

    Args:
        path: In UTF-8, with or without a byte order mark.
        or_latin: Whether bytes that are no UTF-8 are read as latin-1, as old corpora need.

    Raises:
        ReadError: It cannot be read, or is not UTF-8.
    """
    try:
        with path.open("rb") as file:
            for number, raw in enumerate(file, 1):
                if stripped := _decoded(path, number, raw, or_latin=or_latin).rstrip("\r\n"):
                    yield number, stripped
    except OSError as error:
        raise ReadError(f"{path} cannot be read: {error.strerror or error}") from error


def _decoded(path: Path, number: int, raw: bytes, *, or_latin: bool) -> str:
    try:
        return raw.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as error:
        if or_latin:
            return raw.decode("latin-1")
        raise ReadError(
            f"{place_of(path, number)}: not UTF-8 ({error.reason} at byte {error.start})"
        ) from error


def as_number(kind: Callable[[Any], T], value: object, name: str, where: str) -> T:
    """A finite number of a kind; "1.0" is a whole one, and 1.5 is not.

    Args:
        kind: `int` or `float`.
        value: What a file holds.
        name: What it is, for the error.
        where: As `place_of` gives it.

    Raises:
        ReadError: It is none.
    """
    try:
        found = float(value)  # type: ignore[arg-type]  # what does not fit is refused below
        if math.isfinite(found) and kind(found) == found:
            return kind(found)
    except (TypeError, ValueError, OverflowError):
        pass
    whole = "a whole number" if kind is int else "a number"
    raise ReadError(f"{where}: the {name} is {value!r}, expected {whole}")
