"""What is typed, or piped in, a line at a time."""

from __future__ import annotations

import sys

from sbert_retriever.errors import ReadError


def read_line() -> str | None:
    """The next line of the standard input, without spaces around it; None at the end.

    Raises:
        ReadError: It is in another encoding.
    """
    try:
        line = sys.stdin.readline()
    except UnicodeDecodeError as error:
        raise ReadError(
            f"the standard input holds the byte {error.object[error.start]:#04x}, which is no "
            f"{error.encoding} text: convert it, such as with `iconv -f LATIN1 -t UTF-8`"
        ) from error
    return line.strip() if line else None
