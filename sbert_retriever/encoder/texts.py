"""What a caller hands in as texts: checked first, then taken in bounded windows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from sbert_retriever.errors import InputTypeError

_TEXTS = 4096
_CHARACTERS = 4 << 20


def checked(texts: Iterable[str]) -> Iterable[str]:
    """The texts, of which a list or tuple is checked whole, and an iterator as it is read.

    Raises:
        InputTypeError: It is one str, or no iterable, or an entry of a list is no str.
    """
    if isinstance(texts, str | bytes | bytearray):
        raise InputTypeError(
            f"texts is a single {type(texts).__name__}, expected an iterable of str: put it into a "
            "list"
        )
    if not isinstance(texts, Iterable):
        raise InputTypeError(f"texts is {type(texts).__name__}, expected an iterable of str")
    if isinstance(texts, list | tuple):
        _check(texts, start=0)
    return texts


def _check(texts: Sequence[object], *, start: int) -> None:
    for position, text in enumerate(texts, start):
        if not isinstance(text, str):
            raise InputTypeError(
                f"texts[{position}] is {type(text).__name__}, expected str: convert or drop it"
            )


def windows(texts: Iterable[str]) -> Iterator[list[str]]:
    """Lists of texts, bounded by their number and by their characters.

    Raises:
        InputTypeError: An entry is no str; the message names its position.
    """
    window: list[str] = []
    done = characters = 0
    for text in texts:
        _check((text,), start=done + len(window))
        window.append(text)
        characters += len(text)
        if len(window) >= _TEXTS or characters >= _CHARACTERS:
            yield window
            done += len(window)
            window, characters = [], 0
    if window:
        yield window
