"""What a user's metadata becomes in the payload, the same in every mode.

| given | stored |
|---|---|
| str, bool, int (64 bits), float, None | itself |
| mapping with str keys | dict |
| list, tuple | list |
| set, frozenset | list, sorted |
| datetime | ISO 8601 text, with its offset; a naive one stays without, and ranges read it as UTC |
| date | ISO 8601 text |
| Decimal | float where the float prints as the same number, else its text |
| UUID | its text, lower case with hyphens |
| Enum | what its value becomes |
| numpy scalar | the Python value it holds |

All else is refused by key: NaN, infinity, bytes, integers beyond 64 bits, other objects, keys that
are not str, text that has no UTF-8 form (lone surrogates), and nesting beyond `MAX_DEPTH`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from datetime import date
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

import numpy as np

from sbert_retriever.errors import InputError

MAX_DEPTH = 32
"""Levels of mappings and lists, the metadata itself included.

The embedded engine acknowledges deeper payloads that it can never load again.
"""

_INT64 = range(-(2**63), 2**63)
_EXACT_INTEGER = 2**53
_EXACT_POWER = 22


def plain_metadata(metadata: Mapping[str, Any], *, passage_id: str) -> dict[str, Any]:
    """Copy metadata into what JSON carries; the input stays as it is.

    Args:
        metadata: As the user gave it.
        passage_id: Named in the error.

    Raises:
        InputError: A value or key that cannot be stored, with its path and the passage id.

    Examples:
        >>> from datetime import date
        >>> plain_metadata({"day": date(2024, 5, 1), "tags": {"b", "a"}}, passage_id="doc-1")
        {'day': '2024-05-01', 'tags': ['a', 'b']}
    """
    try:
        return _mapping(metadata, path="", depth=1)
    except _NotPlainError as error:
        raise InputError(
            f"metadata{error.path and ' '}{error.path} of passage {passage_id[:80]!r} "
            f"{error.reason}"
        ) from None


def plain_value(value: Any, *, where: str) -> Any:
    """What `plain_metadata` makes of one value.

    Args:
        value: Anything.
        where: The error's first words.

    Raises:
        InputError: The value cannot be stored.
    """
    try:
        return _plain(value, path="", depth=1)
    except _NotPlainError as error:
        raise InputError(f"{where} {error.reason}") from None


def exact_copy_needed(value: Any) -> bool:
    """Whether plain metadata holds a float that the engine may hand back one unit off.

    The engine keeps payloads as JSON text and reads floats with one multiplication or division
    by a power of ten. That is exact while the digits form an integer up to 2**53 and the power
    is at most 10**22 (Clinger 1990, "How to read floating point numbers accurately"); beyond,
    about a tenth of all values change in the last place.

    Examples:
        >>> exact_copy_needed({"price": 19.99, "n": 3}), exact_copy_needed([0.1 + 0.2])
        (False, True)
    """
    if isinstance(value, float):
        return not _reads_back(value)
    if isinstance(value, dict):
        return any(exact_copy_needed(item) for item in value.values())
    return isinstance(value, list) and any(exact_copy_needed(item) for item in value)


def _reads_back(value: float) -> bool:
    mantissa, _, exponent = repr(abs(value)).partition("e")
    whole, _, fraction = mantissa.partition(".")
    power = int(exponent or 0) - len(fraction)
    return int(whole + fraction) <= _EXACT_INTEGER and abs(power) <= _EXACT_POWER


class _NotPlainError(Exception):
    """A value that JSON does not carry; `path` leads to it."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(reason)
        self.path = repr(path) if path else ""
        self.reason = reason


def _plain(value: Any, *, path: str, depth: int) -> Any:
    exact = _EXACT_TYPES.get(type(value))
    if exact is not None:
        return exact(value, path)
    for kind, convert in _CONVERTERS:
        if isinstance(value, kind):
            return convert(value, path=path, depth=depth)
    raise _refused(value, path)


def _refused(value: Any, path: str) -> _NotPlainError:
    return _NotPlainError(
        path,
        f"is {type(value).__name__}, which cannot be stored: give text, a number, a bool, None, "
        "a date, or lists and dicts of them",
    )


def _none(value: None, path: str) -> None:
    return value


def _bool(value: Any, path: str) -> bool:
    return bool(value)


def _int(value: int, path: str) -> int:
    if value not in _INT64:
        raise _NotPlainError(
            path,
            f"is an integer of {value.bit_length() + 1} bits, and 64 is the most that is stored: "
            "give it as text",
        )
    return int(value)


def _float(value: float, path: str) -> float:
    if not math.isfinite(value):
        raise _NotPlainError(
            path, f"is {float(value)}, which JSON cannot carry: give None or leave the key out"
        )
    return float(value)


def _str(value: str, path: str) -> str:
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise _NotPlainError(
                path,
                f"is {_short(value)}, which has a lone surrogate and no UTF-8 form: "
                'clean it with .encode("utf-8", "replace").decode()',
            ) from None
    return str.__str__(value)


def _mapping(value: Mapping[Any, Any], *, path: str, depth: int) -> dict[str, Any]:
    _check_depth(path, depth)
    result = {}
    for raw, item in value.items():
        key = _key(raw, path)
        result[key] = _plain(item, path=f"{path}.{key}" if path else key, depth=depth + 1)
    return result


def _key(key: Any, path: str) -> str:
    plain = key.value if isinstance(key, Enum) else key
    if not isinstance(plain, str):
        raise _NotPlainError(
            path, f"has the key {_short(key)} of type {type(key).__name__}: keys must be str"
        )
    return _str(plain, f"{path}.{plain}" if path else plain)


def _list(value: Any, *, path: str, depth: int) -> list[Any]:
    _check_depth(path, depth)
    return [
        _plain(item, path=f"{path}[{position}]", depth=depth + 1)
        for position, item in enumerate(value)
    ]


def _set(value: Any, *, path: str, depth: int) -> list[Any]:
    items = _list(value, path=path, depth=depth)
    try:
        return sorted(items)
    except TypeError:
        return sorted(items, key=lambda item: (type(item).__name__, json.dumps(item)))


def _check_depth(path: str, depth: int) -> None:
    if depth > MAX_DEPTH:
        raise _NotPlainError(
            f"{path[:60]}...", f"is nested deeper than {MAX_DEPTH} levels: flatten it"
        )


def _decimal(value: Decimal, *, path: str, depth: int) -> float | str:
    number = _float(float(value), path) if not value.is_snan() else _float(math.nan, path)
    return number if Decimal(repr(number)) == value else str(value)


def _date(value: date, *, path: str, depth: int) -> str:
    if value != value:  # pandas' NaT calls itself a datetime
        raise _NotPlainError(path, "is not a time (NaT): give None or leave the key out")
    return value.isoformat()


def _enum(value: Enum, *, path: str, depth: int) -> Any:
    return _plain(value.value, path=path, depth=depth)


def _uuid(value: UUID, *, path: str, depth: int) -> str:
    return str(value)


def _numpy(value: np.generic, *, path: str, depth: int) -> Any:
    item = value.item()
    if isinstance(item, np.generic) or (isinstance(value, np.datetime64) and type(item) is int):
        raise _refused(value, path)
    if isinstance(value, np.datetime64) and item is None:
        raise _NotPlainError(path, "is not a time (NaT): give None or leave the key out")
    return _plain(item, path=path, depth=depth)


def _short(value: object) -> str:
    text = ascii(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


_EXACT_TYPES: dict[type, Callable[[Any, str], Any]] = {
    type(None): _none,
    bool: _bool,
    int: _int,
    float: _float,
    str: _str,
}

# Enum first: a str or int enum is stored as its value, whatever else it is.
_CONVERTERS: tuple[tuple[type | tuple[type, ...], Callable[..., Any]], ...] = (
    (Enum, _enum),
    (np.generic, _numpy),
    (str, lambda value, *, path, depth: _str(value, path)),
    (int, lambda value, *, path, depth: _int(value, path)),
    (float, lambda value, *, path, depth: _float(value, path)),
    (Mapping, _mapping),
    ((list, tuple), _list),
    ((set, frozenset), _set),
    (date, _date),
    (Decimal, _decimal),
    (UUID, _uuid),
)
