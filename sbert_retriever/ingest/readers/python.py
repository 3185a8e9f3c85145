"""Python source: its module docstring, functions and classes are the sections."""

from __future__ import annotations

import ast
import io
import tokenize
import warnings
from collections.abc import Callable, Iterator
from typing import NamedTuple

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
    # Comments above a first function belong to it; the module's own statements stand alone.
    own = not tree.body or not isinstance(tree.body[0], _Definition)
    previous = -1
    parts = list(_parts(tree.body, ()))
    if not parts or parts[0].line > 1:
        parts.insert(0, _Part(1, (), own))
    for part in parts:
        start = offsets[part.line - 1]
        if start > previous:  # a second statement on one line belongs to the first
            yield Section(start, part.path, part.has_body)
            previous = start


class _Part(NamedTuple):
    line: int
    path: tuple[str, ...]
    has_body: bool


def _parts(body: list[ast.stmt], path: tuple[str, ...]) -> Iterator[_Part]:
    """Functions, classes, methods, and the statements that follow one of them."""
    after_definition = False
    for node in body:
        if isinstance(node, _Definition):
            here = (*path, node.name)
            line = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            children = node.body if isinstance(node, ast.ClassDef) else []
            # A class whose first statement is a method has only its own line to show.
            bare = bool(children) and isinstance(children[0], _Definition)
            yield _Part(line, here, not bare)
            yield from _parts(children, here)
        elif after_definition:
            yield _Part(node.lineno, path, True)
        after_definition = isinstance(node, _Definition)
