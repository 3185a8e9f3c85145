"""Spans of a text that fit the model, on the best borders there are."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from sbert_retriever.ingest.graphemes import is_border
from sbert_retriever.ingest.sentences import line_starts, paragraph_starts, sentence_starts
from sbert_retriever.ingest.tokens import TokenMap, TokenOffsets, first_at_least, last_at_most

Span = tuple[int, int]

_WORD = re.compile(r"\s(?=\S)")
# Alone, a span may have a few tokens more than inside its text (a word without the space before
# it): spans this close to the limit are counted again.
_SLACK = 8


class Cutter:
    """Cuts sections of one text. All positions are offsets in it.

    Args:
        text: The text.
        token_offsets: The model's tokenizer.
        max_tokens: The most tokens of a span.
        overlap: The most tokens that two neighbours share.
        sections: Where sections start.
        by_line: Whether lines stand in for sentences.
    """

    def __init__(
        self,
        text: str,
        *,
        token_offsets: TokenOffsets,
        max_tokens: int,
        overlap: int,
        sections: Sequence[int] = (),
        by_line: bool = False,
    ) -> None:
        self._text = text
        self._token_offsets = token_offsets
        self._max = max_tokens
        self._overlap = overlap
        starts = line_starts if by_line else sentence_starts
        whole = (text, 0, len(text))
        self._paragraphs = sorted(i for i in paragraph_starts(*whole) if is_border(text, i))
        sentences = {i for i in starts(*whole) if is_border(text, i)}
        self._sentences = sorted(sentences.union(self._paragraphs, sections))
        self._tokens = TokenMap(text, self._sentences, token_offsets)

    def spans(self, start: int, end: int) -> list[Span]:
        """Spans of one section, in order, without white space around them."""
        raw = (self._trim(*span) for span in self._raw_spans(start, end))
        return _ordered(self._fit([(a, b) for a, b in raw if a < b and self._count(a, b)]))

    def _raw_spans(self, start: int, end: int) -> Iterator[Span]:
        cut = start
        while cut < end:
            cut = self._cut(start, cut, end)
            yield start, cut
            start = self._next_start(start, cut, end)

    def _cut(self, start: int, done: int, end: int) -> int:
        """Where the chunk from `start` ends: after `done`, at most at `end`."""
        limit = min(self._reach(start, self._max), end)
        if limit == end:
            return end
        half = max(done, self._reach(start, self._max // 2))
        return (
            last_at_most(self._paragraphs, limit, half)
            or last_at_most(self._sentences, limit, done)
            or self._cut_inside(done, half, limit, end)
        )

    def _cut_inside(self, done: int, half: int, limit: int, end: int) -> int:
        """A cut inside a sentence: after a line, a word, or wherever no grapheme breaks."""
        text = self._text
        for marks in ("\n", " \t\u3000"):
            at = max(text.rfind(mark, half, limit + 1) for mark in marks) + 1
            if at > half and at > done and is_border(text, at):
                return at
        at = limit
        while at > done and not is_border(text, at, done):
            at -= 1
        if at > done:
            return at
        at = done + 1
        while at < end and not is_border(text, at, done):
            at += 1
        return at

    def _next_start(self, start: int, cut: int, end: int) -> int:
        """Where the chunk after `cut` begins: up to the overlap before it."""
        if not self._overlap or cut == end:
            return cut
        low = max(self._back(cut, self._overlap), start + 1)
        following = first_at_least(self._sentences, cut + 1, end) or end
        if self._count(cut, following) <= self._max:
            # The next sentence must not be cut for the sake of the overlap.
            low = max(low, self._back(following, self._max))
        if low >= cut:
            return cut
        sentence = first_at_least(self._sentences, low, cut)
        if sentence is not None:
            return sentence
        word = _WORD.search(self._text, max(low - 1, start), cut)
        return word.end() if word and is_border(self._text, word.end()) else cut

    def _reach(self, start: int, n: int) -> int:
        """The furthest offset that has at most n tokens since `start`."""
        token = self._tokens.first(start) + n
        return self._tokens.starts[token] if token < len(self._tokens) else len(self._text)

    def _back(self, end: int, n: int) -> int:
        """The first offset that has at most n tokens before `end`."""
        token = self._tokens.after(end) - n
        return self._tokens.ends[token - 1] if token > 0 else 0

    def _count(self, start: int, end: int) -> int:
        return max(0, self._tokens.after(end) - self._tokens.first(start))

    def _trim(self, start: int, end: int) -> Span:
        while start < end and self._text[start].isspace():
            start += 1
        while end > start and self._text[end - 1].isspace():
            end -= 1
        return start, end

    def _fit(self, spans: list[Span]) -> list[Span]:
        """Cut again the few spans that have more tokens alone than inside the text."""
        tight = [span for span in spans if self._is_tight(*span)]
        if not tight:
            return spans
        counted = self._token_offsets([self._text[start:end] for start, end in tight])
        parts = {
            span: self._parts(*span, tokens[self._max][0])
            for span, tokens in zip(tight, counted, strict=True)
            if len(tokens) > self._max
        }
        if not parts:
            return spans
        return [part for span in spans for part in parts.get(span, (span,))]

    def _is_tight(self, start: int, end: int) -> bool:
        text = self._text
        cut_word = (start > 0 and not text[start - 1].isspace()) or (
            end < len(text) and not text[end].isspace()
        )
        return cut_word or self._count(start, end) > self._max - _SLACK

    def _parts(self, start: int, end: int, length: int) -> list[Span]:
        at = self._cut_inside(start, start + length // 2, start + length, end)
        if at >= end:
            return [(start, end)]
        raw = (self._trim(start, at), self._trim(at, end))
        return self._fit([span for span in raw if span[0] < span[1]])


def _ordered(spans: list[Span]) -> list[Span]:
    """Ascending, without those that lie within another.

    A part that `_fit` cut off may begin after the next span does, or lie within it.
    """
    kept: list[Span] = []
    for start, end in sorted(set(spans), key=lambda span: (span[0], -span[1])):
        if not kept or end > kept[-1][1]:
            kept.append((start, end))
    return kept
