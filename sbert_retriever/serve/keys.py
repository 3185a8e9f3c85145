"""API keys: read from a file or the environment, compared in constant time, never shown."""

from __future__ import annotations

import hashlib
import hmac
import os
from collections.abc import Iterable, Mapping
from os import PathLike
from pathlib import Path

from sbert_retriever.errors import InputError, ReadError

VARIABLE = "SBERT_RETRIEVER_API_KEYS"
_SHORTEST = 16


class Keys:
    """The keys that a service accepts. Only their hashes are kept.

    Args:
        keys: Each 16 characters or more.

    Raises:
        InputError: One is shorter, or no plain text; it is named by its position.

    Examples:
        >>> keys = Keys(["a key of some length"])
        >>> keys.accept("a key of some length"), keys.accept("another"), keys
        (True, False, Keys(1))
    """

    def __init__(self, keys: Iterable[str] = ()) -> None:
        given = list(keys)
        for position, key in enumerate(given, 1):
            if len(key) < _SHORTEST or not key.isascii() or not key.isprintable():
                raise InputError(
                    f"API key {position} is too short or no printable ASCII: expected {_SHORTEST} "
                    "characters or more, such as `openssl rand -hex 24` prints"
                )
        self._hashes = tuple(_hash(key) for key in given)

    def __len__(self) -> int:
        return len(self._hashes)

    def __repr__(self) -> str:
        return f"Keys({len(self)})"

    def accept(self, key: str | None) -> bool:
        """Whether this is one of them; takes as long whichever it is, and however near it comes."""
        given = _hash(key or "")
        return bool(sum([hmac.compare_digest(given, known) for known in self._hashes]))


def read_keys(
    file: str | PathLike[str] | None = None, environment: Mapping[str, str] = os.environ
) -> Keys:
    """The keys of a file, one a line, and of SBERT_RETRIEVER_API_KEYS, separated by commas.

    Args:
        file: Empty lines and those that begin with "#" are skipped; None reads none.
        environment: Where the variable is looked up.

    Raises:
        InputError: The file, or the variable where it is set, has no key, or one that is too short.
        ReadError: The file cannot be read.
    """
    value = environment.get(VARIABLE)
    keys = [key.strip() for key in (value or "").split(",") if key.strip()]
    if value is not None and not keys:  # a secret that was not filled in
        raise InputError(f"{VARIABLE} is set and has no API key: fill it in, or unset it")
    if file is not None:
        found = _lines(file)
        if not found:
            raise InputError(f"{os.fspath(file)} has no API key: write one a line")
        keys += found
    return Keys(keys)


def _lines(file: str | PathLike[str]) -> list[str]:
    try:
        text = Path(file).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8"
        raise ReadError(f"the API keys of {os.fspath(file)} cannot be read: {reason}") from error
    lines = (line.strip() for line in text.splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def _hash(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()
