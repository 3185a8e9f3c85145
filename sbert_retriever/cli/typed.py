"""What is typed, or piped in, a line at a time."""

from __future__ import annotations

import sys

from sbert_retriever.errors import InputError, ReadError


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


def questions_of(given: list[str]) -> list[str]:
    """What was asked on the command line, or a question a line of the standard input.

    Raises:
        InputError: There is none, or one is blank.
        ReadError: As `read_line`.
    """
    if given and given != ["-"]:
        if not all(question.strip() for question in given):
            raise InputError("a question is empty: ask something")
        return given
    if not given and sys.stdin.isatty():
        raise InputError("no question was given: write one in quotes, or pipe in one on each line")
    asked = [line for line in iter(read_line, None) if line]
    if not asked:
        raise InputError("the standard input contains no question: write one on each line")
    return asked
