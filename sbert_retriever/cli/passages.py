"""Passages as a person reads them: where each comes from, and the beginning of its text."""

from __future__ import annotations

import shutil
import textwrap
from typing import TYPE_CHECKING, Any

from sbert_retriever.cli.output import printable

if TYPE_CHECKING:
    from sbert_retriever.types import Passage

SNIPPET_LINES = 3
INDENT = " " * 4


def place(passage: Passage) -> str:
    """Where a passage comes from, as one would cite it."""
    metadata = passage.metadata
    heading = metadata.get("section") or metadata.get("title")
    page = metadata.get("page")
    chunk = passage.source is not None and passage.id.startswith(f"{passage.source}#")
    parts = [
        str(heading)[:80] if heading is not None else None,
        passage.source,
        f"page {page}" if page is not None else None,
        None if chunk else passage.id[:200],
    ]
    return " | ".join(" ".join(part.split()) for part in parts if part)


def body(text: str, *, full: bool = False, lines: int = SNIPPET_LINES) -> str:
    """A text, indented: whole, or as many lines of it as are given."""
    if full:
        return textwrap.indent(printable(text), INDENT)
    width = max(20, shutil.get_terminal_size().columns - 1)
    return textwrap.fill(
        printable(" ".join(text.split())),
        width=width,
        initial_indent=INDENT,
        subsequent_indent=INDENT,
        max_lines=lines,
        placeholder=" ...",
    )


def passage_as_dict(passage: Passage) -> dict[str, Any]:
    """A passage for JSON."""
    return {
        "id": passage.id,
        "text": passage.text,
        "metadata": dict(passage.metadata),
        "source": passage.source,
    }
