"""Python source: its module docstring, functions and classes are the sections."""

from __future__ import annotations

import ast
import io
import tokenize
import warnings
from collections.abc import Callable, Iterator

from sbert_retriever.ingest.decoding import decode, decode_as
from sbert_retriever.ingest.source_text import Section, SourceText

_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def read_python(data: bytes, source: str, on_note: Callable[[str], None]) -> SourceText:
    """Nothing is run or imported. What does not parse is read as plain lines.

    The title is the first line of the module's docstring.
    """
    text = _decoded(data, source, on_note)
    try:
        with warnings.catch_warnings():  # SyntaxWarning of the code read is not the user's
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        on_note(f"{source} does not parse as Python ({error}): it was read as plain text")
        return SourceText(source, text, by_line=True)
    doc = ast.get_docstring(tree)
    title = doc.strip().split("\n")[0] if doc and doc.strip() else None
    return SourceText(
        source,
        text,
        title=title,
        sections=tuple(_sections(tree, text)),
        by_line=True,
    )


def _decoded(data: bytes, source: str, on_note: Callable[[str], None]) -> str:
    try:
        name, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
    except SyntaxError:
        name = "utf-8"
    if name not in {"utf-8", "utf-8-sig"}:
        return decode_as(data, name, source)
    text, encoding = decode(data, source)
    if note := encoding.note(source):
        on_note(note)
    return text


def _sections(tree: ast.Module, text: str) -> Iterator[Section]:
    offsets = [0]
    for line in text.split("\n"):
        offsets.append(offsets[-1] + len(line) + 1)
    yield Section(0, ())
    previous = 0
    for number, path in _definitions(tree.body, ()):
        start = offsets[number - 1]
        if start > previous:  # a second definition on one line belongs to the first
            yield Section(start, path)
            previous = start


def _definitions(
    body: list[ast.stmt], path: tuple[str, ...]
) -> Iterator[tuple[int, tuple[str, ...]]]:
    """(first line, names from the outermost) of functions, classes and methods."""
    for node in body:
        if isinstance(node, _Definition):
            here = (*path, node.name)
            yield min([node.lineno, *(d.lineno for d in node.decorator_list)]), here
            if isinstance(node, ast.ClassDef):
                yield from _definitions(node.body, here)
