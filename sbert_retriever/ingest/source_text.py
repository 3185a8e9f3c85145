"""What a reader hands to the chunker."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Section:
    """A part of a text under one heading; it ends where the next one starts.

    Args:
        start: Offset of its first character, the heading included.
        path: The headings above it, outermost first: ("Install", "Linux").
        has_body: Whether anything stands between its heading and the next.
    """

    start: int
    path: tuple[str, ...]
    has_body: bool = True


@dataclass(frozen=True)
class SourceText:
    r"""The text of one file, with what is needed to cite a piece of it.

    Args:
        source: The path as it was given, with forward slashes.
        text: The text, newlines as "\n"; all offsets count its characters.
        title: The document's own title, where it has one.
        metadata: Copied into every chunk.
        pages: (page number from 1, start offset, end offset) of each page, in order.
        sections: Where the headings are, in order.
        by_line: Whether a line is the smallest unit (code), rather than a sentence.
    """

    source: str
    text: str
    title: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    pages: tuple[tuple[int, int, int], ...] = ()
    sections: tuple[Section, ...] = ()
    by_line: bool = False
