"""Checks of an objective's settings."""

from __future__ import annotations

import math
from collections.abc import Sequence

from sbert_retriever.errors import InputError


def one_of(name: str, value: object, known: Sequence[str]) -> None:
    """Refuse a word that is not known.

    Raises:
        InputError: It is not.
    """
    if value not in known:
        raise InputError(f"{name} is {value!r}, expected one of {', '.join(known)}")


def switch(name: str, value: object) -> None:
    """Refuse what is neither True nor False: the text "false" would count as True.

    Raises:
        InputError: It is not.
    """
    if not isinstance(value, bool):
        raise InputError(f"{name} is {value!r}, expected true or false")


def positive(name: str, value: object) -> None:
    """Refuse what is no number above 0.

    Raises:
        InputError: It is not.
    """
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not (math.isfinite(value) and value > 0):  # type: ignore[arg-type,operator]  # a number
        raise InputError(f"{name} is {value!r}, expected a number above 0")
