"""Text of PDF files, page by page, through PDFium."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from sbert_retriever.errors import MissingExtraError, ReadError
from sbert_retriever.forks import Lock
from sbert_retriever.ingest.decoding import plain_newlines
from sbert_retriever.ingest.source_text import SourceText

# PDFium is not safe to be called from two threads.
_LOCK = Lock()
_PASSWORD = 4
# PDFium joins a word cut at the end of a line and leaves one of these marks in it.
_HYPHEN = re.compile("[\ufffe\x02]")
_ENDS_SENTENCE = tuple('.!?:"\u3002\uff01\uff1f\u2026\u201d\u2019)')


def read_pdf(data: bytes, source: str, on_note: Callable[[str], None]) -> SourceText:
    """Pages are numbered from 1; the title is that of the file's properties.

    Raises:
        ReadError: It is encrypted, damaged, or has no text.
        MissingExtraError: pypdfium2 is not installed.
    """
    with _LOCK:
        title, pages = _open(data, source)
    empty = [n for n, page in enumerate(pages, 1) if not page]
    if len(empty) == len(pages):
        raise ReadError(f"{source} has no text, perhaps only images: run OCR on it first")
    if empty:
        on_note(f"{source}: no text on {len(empty)} of {len(pages)} pages")
    text, spans = _joined(pages)
    return SourceText(source, text, title=title, pages=spans)


def _open(data: bytes, source: str) -> tuple[str | None, list[str]]:
    try:
        import pypdfium2
    except ImportError as error:
        raise MissingExtraError("pypdfium2", extra="docs", purpose="read pdf files") from error
    try:
        document = pypdfium2.PdfDocument(data)
    except pypdfium2.PdfiumError as error:
        if getattr(error, "err_code", None) == _PASSWORD or "password" in str(error).lower():
            raise ReadError(
                f"{source} is encrypted: save a copy without a password first"
            ) from error
        raise ReadError(f"{source} is not a PDF file, or a damaged one") from error
    try:
        title = document.get_metadata_dict().get("Title", "").strip() or None
        return title, [_page_text(document[n]) for n in range(len(document))]
    finally:
        document.close()


def _page_text(page: Any) -> str:
    textpage = page.get_textpage()
    try:
        text = plain_newlines(textpage.get_text_bounded())
    finally:
        textpage.close()
        page.close()
    return _HYPHEN.sub("", text).replace("\0", "").strip()


def _joined(pages: Iterable[str]) -> tuple[str, tuple[tuple[int, int, int], ...]]:
    """The pages as one text, and where each lies in it.

    A page that ends inside a sentence is joined to the next with one newline, which is no
    paragraph border.
    """
    parts: list[str] = []
    spans: list[tuple[int, int, int]] = []
    length = 0
    for number, page in enumerate(pages, 1):
        if not page:
            continue
        if parts:
            parts.append("\n\n" if parts[-1].endswith(_ENDS_SENTENCE) else "\n")
            length += len(parts[-1])
        parts.append(page)
        spans.append((number, length, length + len(page)))
        length += len(page)
    return "".join(parts), tuple(spans)
