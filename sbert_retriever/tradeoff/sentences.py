"""Sentences to measure with: a file of them, or those of Python's own documentation.

Every Python carries thousands of English sentences: the docstrings of its library and the pages
of its language reference. Nothing of the library is imported for it, and nothing is downloaded.
"""

from __future__ import annotations

import ast
import itertools
import re
import sysconfig
import warnings
from collections.abc import Iterable, Iterator
from os import PathLike
from pathlib import Path

from sbert_retriever.errors import InputError, ReadError
from sbert_retriever.ingest.sentences import paragraph_starts, sentence_starts

_SKIPPED = {"site-packages", "dist-packages", "test", "tests", "idle_test", "lib2to3", "idlelib"}
_DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
# Shorter ones are headings and list items, longer ones are tables and code.
_WORDS = range(5, 61)
_MOSTLY_WORDS = 0.7
_WORD = re.compile(r"[A-Za-z][A-Za-z'-]*[.,;:!?]?")
_MARKUP = re.compile(r"^(?:[>*+#|=~-]|\.\. |:\w+)")


def unique_sentences(texts: Iterable[str]) -> Iterator[str]:
    """Texts without their extra white space, each once; letter case makes no difference.

    Examples:
        >>> list(unique_sentences(["A  cat.", "a cat.", "", "A dog."]))
        ['A cat.', 'A dog.']
    """
    seen = set()
    for text in texts:
        sentence = " ".join(text.split())
        key = sentence.casefold()
        if key and key not in seen:
            seen.add(key)
            yield sentence


def read_sentences(path: str | PathLike[str]) -> list[str]:
    """The different lines of a file.

    Raises:
        ReadError: It cannot be read as UTF-8.
    """
    place = Path(path)
    try:
        text = place.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ReadError(f"{place} cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise ReadError(f"{place} is not UTF-8: {error.reason} at byte {error.start}") from error
    return list(unique_sentences(text.split("\n")))


def python_sentences(n: int) -> list[str]:
    """The first n different sentences of Python's documentation, in a fixed order.

    Raises:
        InputError: There are fewer; the message says how many.
    """
    found: list[str] = []
    for sentence in unique_sentences(_all_sentences()):
        found.append(sentence)
        if len(found) == n:
            return found
    raise InputError(
        f"this Python's documentation has {len(found):,} sentences, and {n:,} were asked for: "
        "give a file with one a line"
    )


def _all_sentences() -> Iterator[str]:
    for text in _texts():
        yield from (s for s in _cut(text) if _is_sentence(s))


def _cut(text: str) -> Iterator[str]:
    starts = {0, *paragraph_starts(text, 0, len(text)), *sentence_starts(text, 0, len(text))}
    ordered = [*sorted(starts), len(text)]
    for start, end in itertools.pairwise(ordered):
        yield text[start:end].strip()


def _is_sentence(text: str) -> bool:
    words = text.split()
    if len(words) not in _WORDS or not text.endswith((".", "?", "!")) or _MARKUP.match(text):
        return False
    return sum(_WORD.fullmatch(word) is not None for word in words) >= _MOSTLY_WORDS * len(words)


def _texts() -> Iterator[str]:
    """The pages of the language reference, then every docstring, file by file."""
    yield from _reference()
    library = Path(sysconfig.get_path("stdlib"))
    for path in sorted(library.rglob("*.py")):
        if not _SKIPPED.intersection(path.relative_to(library).parts):
            yield from _docstrings(path)


def _reference() -> Iterator[str]:
    try:
        from pydoc_data.topics import topics
    except ImportError:  # some distributions leave it out
        return
    yield from (topics[name] for name in sorted(topics))


def _docstrings(path: Path) -> Iterator[str]:
    try:
        with warnings.catch_warnings():  # about the library's own code
            warnings.simplefilter("ignore")
            tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        if isinstance(node, _DOCUMENTED) and (text := ast.get_docstring(node)):
            yield text
