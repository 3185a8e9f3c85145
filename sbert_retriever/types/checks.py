"""Checks of values that users give."""

from __future__ import annotations

import math
from numbers import Integral, Real

from sbert_retriever.errors import InputError, InputTypeError


def expect(value: object, kind: type, name: str) -> None:
    """Refuse a value of another type, by name."""
    if not isinstance(value, kind):
        raise InputTypeError(f"{name} is {type(value).__name__}, expected {kind.__name__}")


def whole(name: str, value: object, *, least: int) -> int:
    """A whole number of at least `least`; numpy's count too.

    Raises:
        InputTypeError: It is no whole number.
        InputError: It is too small.
    """
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise InputTypeError(f"{name} is {value!r}, expected a whole number")
    if value < least:
        raise InputError(f"{name} is {value}, expected {least} or more")
    return int(value)


def seconds(name: str, value: object) -> None:
    """Refuse what is no time above 0; numpy's numbers count too.

    Raises:
        InputTypeError: It is no number.
        InputError: It is 0 or less, NaN, infinite, or too large.
    """
    if isinstance(value, bool) or not isinstance(value, Real):
        raise InputTypeError(f"{name} is {value!r}, expected a number of seconds")
    try:
        number = float(value)
    except OverflowError:
        raise InputError(f"{name} is too large for a float: give another") from None
    if not 0 < number < math.inf:
        raise InputError(f"{name} is {number:g}, expected seconds above 0")


def in_range(
    name: str,
    value: object,
    *,
    least: float,
    most: float = math.inf,
    whole: bool = True,
    of: str = "Profile",
) -> None:
    """Refuse a field that is no number, or out of range."""
    kinds = int if whole else int | float
    if isinstance(value, bool) or not isinstance(value, kinds):
        raise InputTypeError(
            f"{of}.{name} is {value!r}, expected a {'whole ' if whole else ''}number"
        )
    if not (math.isfinite(value) and least <= value <= most):
        limit = "or more" if most == math.inf else f"to {most:g}"
        raise InputError(f"{of}.{name} is {value}, expected {least:g} {limit}")
