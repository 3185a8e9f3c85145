"""Where a text may be cut without breaking what a reader sees as one character."""

from __future__ import annotations

import unicodedata

_JOINER = "\u200d"
_EXTENDING = frozenset("\u200c\u200d\u0e33\u0eb3")  # joiners; Thai and Lao AM
_VIRAMA_CLASS = 9


def is_border(text: str, at: int, start: int = 0) -> bool:
    """Whether a cut before `text[at]` keeps every grapheme whole.

    The rules of Unicode's annex 29, on the safe side: a few borders that the annex allows are
    not taken.

    Args:
        text: The text.
        at: The offset to cut at.
        start: A known border before `at`; flags are counted from here.

    Examples:
        >>> is_border("e\u0301a", 1), is_border("e\u0301a", 2)
        (False, True)
    """
    if at <= start or at >= len(text):
        return True
    before, after = text[at - 1], text[at]
    if before < "\u0300" and after < "\u0300":
        return not (before == "\r" and after == "\n")
    if _extends(after) or _is_surrogate_pair(before, after):
        return False
    if before == _JOINER:
        return after.isspace()
    if _is_flag(before) and _is_flag(after):
        return _flags_before(text, at, start) % 2 == 0
    return not (_is_conjunct(before, after) or _is_jamo_pair(before, after))


def _extends(char: str) -> bool:
    return (
        unicodedata.category(char) in {"Mn", "Me", "Mc"}
        or char in _EXTENDING
        or "\U0001f3fb" <= char <= "\U0001f3ff"  # skin tones
        or "\U000e0020" <= char <= "\U000e007f"  # tags of subdivision flags
    )


def _is_surrogate_pair(before: str, after: str) -> bool:
    return "\ud800" <= before <= "\udbff" and "\udc00" <= after <= "\udfff"


def _is_flag(char: str) -> bool:
    return "\U0001f1e6" <= char <= "\U0001f1ff"


def _flags_before(text: str, at: int, start: int) -> int:
    n = 0
    while at - n > start and _is_flag(text[at - n - 1]):
        n += 1
    return n


def _is_conjunct(before: str, after: str) -> bool:
    virama = unicodedata.combining(before) == _VIRAMA_CLASS
    return virama and unicodedata.category(after) == "Lo"


def _is_jamo_pair(before: str, after: str) -> bool:
    """Hangul written in parts: a leading consonant, a vowel or syllable, a trailing one."""
    if "\u1160" <= after <= "\u11ff" or "\ud7b0" <= after <= "\ud7fb":
        return "\u1100" <= before <= "\u11ff" or "\ua960" <= before <= "\ud7fb"
    leading = "\u1100" <= before <= "\u115f" or "\ua960" <= before <= "\ua97c"
    return leading and ("\u1100" <= after <= "\u115f" or "\ua960" <= after <= "\ud7a3")
