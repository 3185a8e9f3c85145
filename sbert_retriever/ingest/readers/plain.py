"""Plain text, Markdown and reStructuredText."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from sbert_retriever.index.metadata import plain_value
from sbert_retriever.ingest.decoding import decode
from sbert_retriever.ingest.headings import markdown_headings, rst_headings, sections
from sbert_retriever.ingest.source_text import SourceText

# A first line that names a field tells front matter from a page that begins with a rule.
_FRONT_MATTER = re.compile(
    r"---[ \t]*\n(?=[A-Za-z_][\w-]*[ \t]*:)(.*?)^(?:---|\.\.\.)[ \t]*$\n?",
    re.DOTALL | re.MULTILINE,
)
_FIELD = re.compile(r"([A-Za-z_][\w-]*)[ \t]*:[ \t]+(\S.*)")


def decoded(data: bytes, source: str, on_note: Callable[[str], None]) -> str:
    """The text of a file; a fallback of the encoding is noted."""
    text, encoding = decode(data, source)
    if note := encoding.note(source):
        on_note(note)
    return text


def read_text(data: bytes, source: str, on_note: Callable[[str], None]) -> SourceText:
    """Plain text has no title and no sections."""
    return SourceText(source, decoded(data, source, on_note))


def read_markdown(data: bytes, source: str, on_note: Callable[[str], None]) -> SourceText:
    """Headings are sections; front matter stays in the text and its fields are metadata.

    The title is that of the front matter, else the first heading.
    """
    text = decoded(data, source, on_note)
    matter = _FRONT_MATTER.match(text)
    if not matter:
        return markdown_text(text, source)
    fields = front_matter(matter[1])
    title = fields.pop("title", None)
    read = markdown_text(text, source, title=str(title) if title else None, start=matter.end())
    return replace(read, metadata=fields)


def markdown_text(
    text: str, source: str, *, title: str | None = None, start: int = 0
) -> SourceText:
    """Markdown, wherever it comes from; headings are looked for from `start` on."""
    headings = list(markdown_headings(text, start=start))
    first = next((heading.text for heading in headings if heading.text), None)
    return SourceText(source, text, title=title or first, sections=sections(headings, text))


def front_matter(block: str) -> dict[str, Any]:
    r"""The plain fields of front matter: numbers, booleans, strings and one-line lists.

    Anything nested stays in the text alone.

    Examples:
        >>> front_matter("lang: en\nyear: 2020\ntags: [a, b]\nnested:\n  x: 1")
        {'lang': 'en', 'year': 2020, 'tags': ['a', 'b']}
    """
    matches = (_FIELD.fullmatch(line.rstrip()) for line in block.split("\n"))
    return {match[1]: _value(match[2]) for match in matches if match}


def _value(written: str) -> Any:
    if written.startswith("[") and written.endswith("]"):
        return [_value(item.strip()) for item in written[1:-1].split(",") if item.strip()]
    if len(written) > 1 and written[0] == written[-1] and written[0] in "'\"":
        return written[1:-1]
    try:
        # A store takes no NaN, no infinity and no integer beyond 64 bits: such stay as written.
        return plain_value(json.loads(written), where=written)
    except (ValueError, RecursionError):
        return written


def read_rst(data: bytes, source: str, on_note: Callable[[str], None]) -> SourceText:
    """Headings are sections, the first of them the title."""
    text = decoded(data, source, on_note)
    headings = list(rst_headings(text))
    title = headings[0].text if headings else None
    return SourceText(source, text, title=title, sections=sections(headings, text))
