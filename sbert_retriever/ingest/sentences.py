"""Where sentences, paragraphs and lines begin, as exact offsets.

Rules, not a model: a full stop ends a sentence unless what stands before it is an abbreviation,
an initial or a list number, or what follows is in lower case. A border missed costs a longer
unit, a false one cuts a thought, so doubtful cases are no border.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

# Full stop, marks, ellipsis; Arabic question mark and stop; danda; Armenian, Ethiopic, Burmese,
# Khmer stops: white space follows.
_STOPS = ".!?\u2026\u061f\u06d4\u0964\u0965\u0589\u1362\u104b\u17d4"
# CJK full stops and marks: the next sentence may follow at once.
_WIDE_STOPS = "\u3002\uff01\uff1f\uff61"
_CLOSERS = "\"'\u201d\u2019\u00bb)\\]}*_`\u300d\u300f\uff09\u3011\u300b\u3009"
# The look-behind keeps a long run of dots from being tried once for each of its dots.
_END = re.compile(f"(?<![{_STOPS}{_WIDE_STOPS}])[{_STOPS}{_WIDE_STOPS}]++[{_CLOSERS}]*+")
_SPACE = re.compile(r"\s++")
_PARAGRAPH = re.compile(r"\n[ \t\f]*+\n\s*+|\f\s*+")
_ITEM = re.compile(r"\n(?=[ \t]*+(?:(?:[-*+\u2022\u2023\u2013]|\d{1,3}[.)])[ \t]|\|))[ \t]*+")
_WORD_BEFORE = re.compile(r"[^\W_](?:[\w.]*[^\W_])?$")
_LIST_NUMBER = re.compile(r"(?:^|\n)[ \t>*#-]*(?:\d{1,3}|[A-Za-z])$")


def _words(listed: str) -> frozenset[str]:
    return frozenset(listed.split())


_ABBREVIATIONS = _words(
    "mr mrs ms dr prof st gen col capt lt sgt rev hon sr jr mt messrs vs cf approx ca resp al viz "
    "dept est inc ltd corp co bros ed eds esp incl excl max min "
    "bzw ggf usf evtl vgl sog inkl exkl mme mlle sra srta dra"
)
_BEFORE_NUMBER = _words(
    "no nos nr fig figs eq eqs sec sect ch chap p pp vol vols art ref refs tab par para app "
    "jan feb mar apr jun jul aug sep sept oct nov dec abb kap bd"
)


def paragraph_starts(text: str, start: int, end: int) -> Iterator[int]:
    """Offsets in (start, end) where a paragraph begins: after blank lines and page breaks."""
    return (m.end() for m in _PARAGRAPH.finditer(text, start, end) if start < m.end() < end)


def line_starts(text: str, start: int, end: int) -> Iterator[int]:
    """Offsets in (start, end) where a line begins."""
    position = text.find("\n", start, end) + 1
    while 0 < position < end:
        yield position
        position = text.find("\n", position, end) + 1


def sentence_starts(text: str, start: int, end: int) -> Iterator[int]:
    """Offsets in (start, end) where a sentence, a list item or a table row begins.

    Paragraph starts are left to `paragraph_starts`. In no particular order.

    Examples:
        >>> text = "Dr. Who paid 3.50, e.g. for tea. Then he left."
        >>> [text[i:] for i in sentence_starts(text, 0, len(text))]
        ['Then he left.']
    """
    yield from (m.end() for m in _ITEM.finditer(text, start, end) if start < m.end() < end)
    for match in _END.finditer(text, start, end):
        border = _border_after(text, match, start, end)
        if border is not None and start < border < end:
            yield border


def _border_after(text: str, match: re.Match[str], start: int, end: int) -> int | None:
    space = _SPACE.match(text, match.end(), end)
    if any(stop in match[0] for stop in _WIDE_STOPS):
        return space.end() if space else match.end()
    if not space or space.end() >= end:
        return None
    following = text[space.end()]
    if following.islower():
        return None
    if match[0].startswith(".") and not match[0].startswith(".."):
        before = text[max(start, match.start() - 40) : match.start()]
        if _is_abbreviated(before, following):
            return None
    return space.end()


def _is_abbreviated(before: str, following: str) -> bool:
    if _LIST_NUMBER.search(before):
        return True
    match = _WORD_BEFORE.search(before)
    if not match:
        return False
    word = match[0].lower()
    if len(word) == 1 and match[0].isupper():
        return match[0] != "I"  # "than I. Then" against "J. Smith"
    if "." in word:
        return all(len(part) == 1 for part in word.split("."))  # e.g. i.e. U.S. z.B. a.m.
    return word in _ABBREVIATIONS or (word in _BEFORE_NUMBER and following.isdigit())
