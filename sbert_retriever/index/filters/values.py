"""Operands of a dict filter: numbers, times, and what wraps them."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from typing import Any

import numpy as np

from sbert_retriever.errors import InputError


def unwrap(value: Any) -> Any:
    """The plain Python value inside an Enum or a numpy scalar."""
    if isinstance(value, Enum):
        return unwrap(value.value)
    if isinstance(value, np.datetime64):
        return value.astype("datetime64[us]").item()
    return value.item() if isinstance(value, np.generic) else value


def bound(name: str, operator: str, value: Any) -> float | datetime:
    """A finite number, or a time with its offset.

    Raises:
        InputError: Anything else, by the field's name.
    """
    raw = unwrap(value)
    if isinstance(raw, datetime) and raw == raw:
        return raw if raw.tzinfo else raw.replace(tzinfo=UTC)
    if isinstance(raw, date) and raw == raw:
        return datetime(raw.year, raw.month, raw.day, tzinfo=UTC)
    if isinstance(raw, str):
        return _iso_time(name, operator, raw)
    if isinstance(raw, (int, float, Decimal)) and not isinstance(raw, bool):
        return finite(f"filter on {name!r}: {operator!r}", raw)
    raise InputError(
        f"filter on {name!r}: {operator!r} is {raw!r:.60}, expected a number or a time"
    )


def _iso_time(name: str, operator: str, text: str) -> datetime:
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise InputError(
            f"filter on {name!r}: {operator!r} is {text!r:.60}, expected a number, a datetime "
            "or ISO 8601 text such as '2024-05-01T12:00:00Z'"
        ) from None
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def number(name: str, operator: str, value: Any) -> float:
    """A finite number.

    Raises:
        InputError: Anything else, by the field's name.
    """
    raw = unwrap(value)
    where = f"filter on {name!r}: {operator!r}"
    if isinstance(raw, bool) or not isinstance(raw, (int, float, Decimal)):
        raise InputError(f"{where} has {raw!r:.60} where a number is expected")
    return finite(where, raw)


def finite(where: str, value: float | Decimal) -> float:
    """As a double.

    Raises:
        InputError: NaN, infinity, or an integer beyond a double's range.
    """
    try:
        result = float(value)
    except (OverflowError, ValueError):  # a huge integer; a signalling NaN
        result = math.inf
    if not math.isfinite(result):
        raise InputError(f"{where} is {value!r:.60}, expected a finite number")
    return result
