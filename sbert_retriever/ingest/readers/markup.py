"""HTML and Word documents as Markdown, through markitdown's converters.

The converters are called themselves, not through the MarkItDown object: no plugin, no network,
no guessing of formats, no model.
"""

from __future__ import annotations

import codecs
import io
import re
import warnings
import zipfile
from collections.abc import Callable
from typing import Any, Literal
from xml.etree import ElementTree

from sbert_retriever.errors import MissingExtraError, ReadError
from sbert_retriever.ingest.decoding import Encoding, decode_as, find_encoding
from sbert_retriever.ingest.readers.plain import markdown_text
from sbert_retriever.ingest.source_text import SourceText

_CHARSET = re.compile(rb"<meta[^>]{0,200}?charset\s{0,9}=\s{0,9}[\"']?([\w.:-]{1,40})", re.I)
# Neither part reaches into the next image, or a line of beginnings takes the square of its length.
_IMAGE = re.compile(r"!\[((?:(?!!\[)[^\]\n])*)\]\((?:(?!!\[)[^)\n])*\)")
_BLANKS = re.compile(r"\n{3,}")
_TITLE = "{http://purl.org/dc/elements/1.1/}title"
_OLE = b"\xd0\xcf\x11\xe0"
_MOST_BYTES = 1 << 30


def read_html(data: bytes, source: str, on_note: Callable[[str], None]) -> SourceText:
    """Headings are sections; the title is `<title>`, else the first heading.

    The encoding is that of the byte order mark or of `<meta charset>`, else UTF-8, else
    Windows-1252 with a note.

    Raises:
        ReadError: It is binary, or not in the encoding that it declares.
        MissingExtraError: markitdown is not installed.
    """
    encoding = _html_encoding(data, source)
    if note := encoding.note(source):
        on_note(note)
    page = decode_as(data, encoding.name, source).encode("utf-8", "replace")
    return _converted("HtmlConverter", page, source, suffix=".html")


def _html_encoding(data: bytes, source: str) -> Encoding:
    found = find_encoding([data], source)
    declared = _CHARSET.search(data[:4096])
    if found.bad_byte is None or not declared:
        return found  # what is valid UTF-8 is UTF-8, whatever the page says
    try:
        name = codecs.lookup(declared[1].decode("ascii")).name
    except (LookupError, UnicodeDecodeError):
        return found
    # Browsers read a declared latin-1 as Windows-1252, and so does our fallback.
    return Encoding("latin-1") if name in {"iso8859-1", "ascii", "cp1252"} else Encoding(name)


def read_docx(data: bytes, source: str, on_note: Callable[[str], None]) -> SourceText:
    """Heading styles are sections; the title is that of the properties, else the first heading.

    Raises:
        ReadError: It is damaged, protected by a password, or an old .doc.
        MissingExtraError: markitdown's Word support is not installed.
    """
    if data.startswith(_OLE):
        raise ReadError(
            f"{source} is protected by a password, or an old .doc: save it as a plain .docx"
        )
    return _converted(
        "DocxConverter", data, source, suffix=".docx", title=_core_title(data, source)
    )


def _core_title(data: bytes, source: str) -> str | None:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            if sum(entry.file_size for entry in archive.infolist()) > _MOST_BYTES:
                raise ReadError(f"{source} unpacks to more than 1 GB: it is not read")
            if "docProps/core.xml" not in archive.namelist():
                return None
            core = ElementTree.fromstring(archive.read("docProps/core.xml"))
    except zipfile.BadZipFile as error:
        raise ReadError(f"{source} is not a .docx file, or a damaged one") from error
    except ElementTree.ParseError:
        return None
    return (core.findtext(_TITLE) or "").strip() or None


def _converted(
    converter: Literal["HtmlConverter", "DocxConverter"],
    data: bytes,
    source: str,
    *,
    suffix: str,
    title: str | None = None,
) -> SourceText:
    result = _convert(converter, data, suffix)
    markdown = _BLANKS.sub("\n\n", _IMAGE.sub(r"\1", result.markdown)).strip()
    own = " ".join((title or result.title or "").split()) or None
    return markdown_text(markdown, source, title=own)


def _convert(converter: str, data: bytes, suffix: str) -> Any:
    purpose = f"read {suffix} files"
    try:
        from markitdown import StreamInfo, converters
    except ImportError as error:
        raise MissingExtraError("markitdown", extra="docs", purpose=purpose) from error
    with warnings.catch_warnings():  # of the parser, about the page; it falls back by itself
        warnings.simplefilter("ignore")
        try:
            return getattr(converters, converter)().convert(
                io.BytesIO(data),
                StreamInfo(extension=suffix, charset="utf-8"),
                escape_asterisks=False,
                escape_underscores=False,
            )
        except Exception as error:
            if type(error).__name__ == "MissingDependencyException":
                raise MissingExtraError("mammoth", extra="docs", purpose=purpose) from error
            raise
