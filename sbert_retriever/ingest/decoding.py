"""Bytes to text, with one documented fallback.

The order: a byte order mark (UTF-8, UTF-16, UTF-32) is believed; else UTF-8; else Windows-1252,
with a note that names the byte where UTF-8 ended. A NUL byte in what is not UTF-16 or UTF-32
marks a binary file.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from sbert_retriever.errors import ReadError

_BLOCK = 1 << 20
# UTF-32's little-endian mark begins with UTF-16's: it must be looked for first.
_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
# Windows-1252 leaves five bytes undefined: latin-1 takes any byte, the difference is mapped after.
FALLBACK = "latin-1"
_TO_1252 = {
    code: bytes([code]).decode("cp1252")
    for code in range(0x80, 0xA0)
    if code not in {0x81, 0x8D, 0x8F, 0x90, 0x9D}
}


@dataclass(frozen=True)
class Encoding:
    """How a file is decoded.

    Args:
        name: A Python codec.
        bad_byte: Offset of the first byte that is not UTF-8, where the fallback was taken.
    """

    name: str
    bad_byte: int | None = None

    def note(self, source: str) -> str | None:
        """One sentence for the user where the fallback was taken."""
        if self.bad_byte is None:
            return None
        return f"{source} is not UTF-8 (byte {self.bad_byte}): it was read as Windows-1252"


def find_encoding(blocks: Iterable[bytes], source: str) -> Encoding:
    """Decide how to decode a file from its blocks of bytes.

    Raises:
        ReadError: It holds NUL bytes and no UTF-16 or UTF-32 mark: it is not text.
    """
    decoder = codecs.getincrementaldecoder("utf-8")()
    done, bad = 0, None
    for block in blocks:
        if done == 0:
            for mark, name in _MARKS:
                if block.startswith(mark):
                    return Encoding(name)
        _refuse_nul(block, done, source)
        if bad is None:
            bad = _first_bad_byte(decoder, block, done)
        done += len(block)
    if bad is None and decoder.getstate()[0]:
        bad = done - len(decoder.getstate()[0])
    return Encoding("utf-8") if bad is None else Encoding(FALLBACK, bad)


def _refuse_nul(block: bytes, done: int, source: str) -> None:
    position = block.find(b"\0")
    if position >= 0:
        raise ReadError(
            f"{source} is not text: byte {done + position} is NUL; give a text file, "
            "or UTF-16 with its byte order mark"
        )


def _first_bad_byte(decoder: codecs.IncrementalDecoder, block: bytes, done: int) -> int | None:
    kept = len(decoder.getstate()[0])
    try:
        decoder.decode(block)
    except UnicodeDecodeError as error:
        return done - kept + error.start
    return None


def blocks_of(path: Path) -> Iterable[bytes]:
    """The bytes of a file, a mebibyte at a time."""
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            yield block


def decode(data: bytes, source: str) -> tuple[str, Encoding]:
    r"""Decode the whole of a file; newlines become "\n", as `Path.read_text` does.

    Raises:
        ReadError: It is binary, or not what its byte order mark says.
    """
    encoding = find_encoding([data], source) if data else Encoding("utf-8")
    return decode_as(data, encoding.name, source), encoding


def decode_as(data: bytes, name: str, source: str) -> str:
    r"""Decode with a named codec; newlines become "\n".

    Raises:
        ReadError: The bytes are not in this encoding; the message names the first bad one.
    """
    try:
        text = data.decode(name)
    except UnicodeDecodeError as error:
        raise ReadError(
            f"{source} is marked as {name} and byte {error.start} is not: save it as UTF-8"
        ) from error
    return plain_newlines(text.translate(_TO_1252) if name == FALLBACK else text)


def as_windows_1252(text: str) -> str:
    """Text decoded as latin-1, as if it had been decoded as Windows-1252."""
    return text.translate(_TO_1252)


def plain_newlines(text: str) -> str:
    r"""Windows and old Macintosh line ends as "\n"."""
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text
