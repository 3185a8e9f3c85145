"""Files to texts: one reader a format, behind one call."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

from sbert_retriever.errors import ReadError, SbertError
from sbert_retriever.ingest.readers.markup import read_docx, read_html
from sbert_retriever.ingest.readers.pdf import read_pdf
from sbert_retriever.ingest.readers.plain import read_markdown, read_rst, read_text
from sbert_retriever.ingest.readers.python import read_python
from sbert_retriever.ingest.source_text import SourceText

OnNote: TypeAlias = Callable[[str], None]
Reader: TypeAlias = Callable[[bytes, str, OnNote], SourceText]

_READERS: dict[str, Reader] = {
    ".txt": read_text,
    ".md": read_markdown,
    ".rst": read_rst,
    ".html": read_html,
    ".htm": read_html,
    ".pdf": read_pdf,
    ".docx": read_docx,
    ".py": read_python,
}


def source_of(path: Path) -> str:
    """The source that passages of a file carry: the path as given, with forward slashes.

    Nothing is resolved: "docs/a.md" and its absolute path are two sources.
    """
    return path.as_posix()


def read_file(path: Path, *, on_note: OnNote | None = None) -> SourceText:
    """Read one file as text.

    Args:
        path: A file with one of the suffixes .txt .md .rst .html .htm .pdf .docx .py.
        on_note: Told, in one sentence, what the user should know of a file that was read.

    Raises:
        ReadError: It cannot be opened, or not be read as what its suffix says.
        MissingExtraError: Its format needs the extra "docs".
    """
    source = source_of(path)
    reader = _READERS.get(path.suffix.lower())
    if reader is None:
        raise ReadError(f"{source}: the suffixes read are {' '.join(sorted(_READERS))}")
    with reading(source):
        data = path.read_bytes()
        return reader(data, source, on_note or _say_nothing) if data else SourceText(source, "")


def _say_nothing(note: str) -> None:
    pass


@contextmanager
def reading(source: str) -> Iterator[None]:
    """Turn whatever a foreign library raises into a ReadError that names the file."""
    try:
        yield
    except (SbertError, MemoryError):
        raise
    except RecursionError as error:
        raise ReadError(f"{source} is nested too deeply to be read") from error
    except Exception as error:
        # Libraries raise OSError for bad contents too; only the system's own has a number.
        if isinstance(error, OSError) and error.errno is not None:
            raise ReadError(f"{source} cannot be opened: {error.strerror or error}") from error
        what = " ".join(str(error).split())[:200] or type(error).__name__
        raise ReadError(f"{source} cannot be read, it seems damaged: {what}") from error
