"""Where the model's tokens lie in a long text, each character tokenised once."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate, islice
from typing import TypeAlias

TokenOffsets: TypeAlias = Callable[[Sequence[str]], Sequence[Sequence[tuple[int, int]]]]
"""Texts to the character span of each of their tokens, special tokens left out, nothing cut."""

_BLOCK_CHARS = 16_384
_BLOCKS_AT_ONCE = 64


class TokenMap:
    """Spans of all tokens of a text, in order.

    Args:
        text: The text.
        borders: Ascending offsets where it may be cut before it is tokenised, e.g. where
            sentences begin: no token crosses them.
        token_offsets: The model's tokenizer.
    """

    def __init__(self, text: str, borders: Iterable[int], token_offsets: TokenOffsets) -> None:
        self.starts, self.ends = array("q"), array("q")
        blocks = _blocks(len(text), borders)
        while batch := list(islice(blocks, _BLOCKS_AT_ONCE)):
            spans = token_offsets([text[start:end] for start, end in batch])
            for (start, _), tokens in zip(batch, spans, strict=True):
                self._add(start, tokens)

    def _add(self, start: int, tokens: Sequence[tuple[int, int]]) -> None:
        # Tokens of one character (bytes of an emoji) share its span; the arrays stay ascending.
        self.starts.extend(accumulate([start + first for first, _ in tokens], max))
        self.ends.extend(accumulate([start + last for _, last in tokens], max))

    def __len__(self) -> int:
        return len(self.starts)

    def first(self, offset: int) -> int:
        """Index of the first token that ends after an offset."""
        return bisect_right(self.ends, offset)

    def after(self, offset: int) -> int:
        """Index after the last token that starts before an offset."""
        return bisect_left(self.starts, offset)


def _blocks(length: int, borders: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Spans that tile the text, each as long as the borders allow up to the block size."""
    start = last = 0
    for border in borders:
        if border - start > _BLOCK_CHARS and last > start:
            yield start, last
            start = last
        last = border
    if length - start > _BLOCK_CHARS and last > start:
        yield start, last
        start = last
    if length > start:
        yield start, length


def last_at_most(values: Sequence[int], limit: int, above: int) -> int | None:
    """The largest of ascending values that is <= limit and > above."""
    n = bisect_right(values, limit)
    return values[n - 1] if n and values[n - 1] > above else None


def first_at_least(values: Sequence[int], limit: int, below: int) -> int | None:
    """The smallest of ascending values that is >= limit and < below."""
    n = bisect_left(values, limit)
    return values[n] if n < len(values) and values[n] < below else None
