"""Headings of Markdown and reStructuredText as sections."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from sbert_retriever.ingest.source_text import Section

_ATX = re.compile(r"[ ]{0,3}(#{1,6})(?=[ \t]|$)")
_FENCE = re.compile(r"[ ]{0,3}(`{3,}|~{3,})")
_RULE = re.compile(r"([=\-~^\"'`#*+.:_!$%&,/;<>?@\\|(){}\[\]])\1+\s*$")
_LONGEST = 500
_INLINE = re.compile(r"!?\[([^\]]*)\]\([^)]*\)|[*`]+|[ \t]#+[ \t]*$")


class Heading(NamedTuple):
    """One heading: where it starts, where its text ends, how deep, and what it says."""

    start: int
    end: int
    level: int
    text: str


def sections(headings: Iterable[Heading], text: str) -> tuple[Section, ...]:
    """Sections of a text, each with the path of headings that lead to it.

    What stands before the first heading is a section with an empty path.
    """
    found = list(headings)
    result = [] if found and not text[: found[0].start].strip() else [Section(0, ())]
    path: list[Heading] = []
    ends = [*(heading.start for heading in found[1:]), len(text)]
    for here, end in zip(found, ends, strict=False):
        path = [*(above for above in path if above.level < here.level), here]
        names = tuple(above.text for above in path if above.text)
        result.append(Section(here.start, names, bool(text[here.end : end].strip())))
    return tuple(result)


def _lines(text: str) -> Iterator[tuple[int, str]]:
    r"""(offset, line without its newline); only "\n" ends a line."""
    start = 0
    for line in text.split("\n"):
        yield start, line
        start += len(line) + 1


def markdown_headings(text: str, *, start: int = 0) -> Iterator[Heading]:
    """ATX ("# Title") and underlined headings, but not those in fenced code.

    Args:
        text: The whole text.
        start: Where to begin, e.g. after front matter.
    """
    fence = ""
    fresh = True  # whether a paragraph may begin here
    title: tuple[int, str] | None = None
    for offset, line in _lines(text):
        if offset < start:
            continue
        fence, was_fenced = _fence_after(line, fence), bool(fence)
        heading = None if fence or was_fenced else _heading(offset, line, title)
        if heading:
            yield heading
        title = (offset, line) if fresh and not fence and _may_be_title(line) else None
        fresh = bool(heading or was_fenced or not line.strip())


def _heading(offset: int, line: str, title: tuple[int, str] | None) -> Heading | None:
    end = offset + len(line)
    if match := _ATX.match(line):
        return Heading(offset, end, len(match[1]), clean(line[match.end() :]))
    if title and (level := _setext_level(line)):
        return Heading(title[0], end, level, clean(title[1]))
    return None


def _fence_after(line: str, fence: str) -> str:
    """The fence that is open after a line: a marker, or "" for none."""
    match = _FENCE.match(line)
    if not match:
        return fence
    if not fence:
        return match[1]
    closes = match[1][0] == fence[0] and len(match[1]) >= len(fence)
    return "" if closes and not line.strip().strip(fence[0]) else fence


def _setext_level(line: str) -> int:
    stripped = line.strip()
    if len(stripped) < 2 or line.startswith("    "):
        return 0
    return {"=": 1, "-": 2}.get(stripped[0], 0) if len(set(stripped)) == 1 else 0


def _may_be_title(line: str) -> bool:
    stripped = line.strip()
    return bool(stripped) and not line.startswith("    ") and stripped[0] not in "|>-*+=#"


def clean(heading: str) -> str:
    """A heading without its Markdown marks, on one line."""
    return " ".join(_INLINE.sub(lambda m: m[1] or "", heading[:_LONGEST]).split())


def rst_headings(text: str) -> Iterator[Heading]:
    """Titles underlined (and perhaps overlined); levels by the order the styles appear in."""
    lines = list(_lines(text))
    styles: list[tuple[str, bool]] = []
    for n in range(1, len(lines)):
        offset, title = lines[n - 1]
        under = lines[n][1]
        if not _is_title(title, under):
            continue
        over = n > 1 and lines[n - 2][1].rstrip() == under.rstrip()
        if not over and title[0].isspace():
            continue
        style = (under[0], over)
        if style not in styles:
            styles.append(style)
        start = lines[n - 2][0] if over else offset
        end = lines[n][0] + len(under)
        yield Heading(start, end, styles.index(style) + 1, " ".join(title.split()))


def _is_title(title: str, under: str) -> bool:
    return bool(
        title.strip()
        and _RULE.fullmatch(under)
        and len(under.rstrip()) >= len(title.rstrip())
        and not _RULE.fullmatch(title)
    )
