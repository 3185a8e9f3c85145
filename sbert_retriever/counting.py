"""How many there are of something, in words that fit."""

from __future__ import annotations


def counted(n: int, noun: str, several: str | None = None) -> str:
    """A number with its noun, which gets an s where there is not one.

    Args:
        n: How many.
        noun: One of them.
        several: Its plural, where that is not made by an s.

    Examples:
        >>> counted(1, "passage"), counted(0, "passage"), counted(1200, "file")
        ('1 passage', '0 passages', '1,200 files')
        >>> counted(2, "entry", "entries")
        '2 entries'
    """
    return f"{n:,} {noun if n == 1 else several or noun + 's'}"
