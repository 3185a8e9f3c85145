"""Cells of a csv file, which are all text, to the values that a field was declared to have."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from datetime import date, datetime
from typing import Any

_WHOLE = re.compile(r"[+-]?[0-9]{1,19}")
_BOOLS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def typed_cell(cell: str, kind: str) -> Any:
    """The value of a cell of a declared kind; None where it is blank.

    Args:
        cell: As it stands in the file.
        kind: Of `PayloadKind`; those that are kept as text leave the cell as it is.

    Raises:
        ValueError: The cell is no such value; the message says what was expected.

    Examples:
        >>> typed_cell("499", "integer"), typed_cell(" 12.5 ", "float"), typed_cell("No", "bool")
        (499, 12.5, False)
        >>> typed_cell("2024-05-01 12:30", "datetime"), typed_cell("", "float")
        ('2024-05-01T12:30:00', None)
    """
    if kind not in _READERS:
        return cell
    stripped = cell.strip()
    if not stripped:
        return None
    read, expected = _READERS[kind]
    try:
        return read(stripped)
    except (ValueError, KeyError, OverflowError):
        raise ValueError(f"{cell!r:.60}, expected {expected}") from None


def typed_columns(kinds: Mapping[str, str]) -> dict[str, str]:
    """Those of the declared fields whose cells are read as something else than text."""
    return {name: kind for name, kind in kinds.items() if kind in _READERS}


def _integer(cell: str) -> int:
    if not _WHOLE.fullmatch(cell) or not -(2**63) <= int(cell) < 2**63:
        raise ValueError
    return int(cell)


def _float(cell: str) -> float:
    value = float(cell)
    if "_" in cell or not math.isfinite(value):
        raise ValueError
    return value


def _bool(cell: str) -> bool:
    return _BOOLS[cell.lower()]


def _time(cell: str) -> str:
    """ISO 8601 text: the engine reads fewer of its forms than Python does."""
    try:
        return date.fromisoformat(cell).isoformat()
    except ValueError:
        return datetime.fromisoformat(cell).isoformat()


_READERS: dict[str, tuple[Callable[[str], Any], str]] = {
    "integer": (_integer, "a whole number such as 12"),
    "float": (_float, "a number such as 12.5"),
    "bool": (_bool, "true or false"),
    "datetime": (_time, "a time in ISO 8601 such as 2024-05-01 or 2024-05-01T12:00:00Z"),
}
