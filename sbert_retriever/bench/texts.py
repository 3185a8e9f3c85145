"""Real English text of every length, from the documentation that each Python carries."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass

from sbert_retriever.tradeoff.sentences import python_sentences

SENTENCES = 6000
LONG_WORDS = 180
"""About 250 tokens, an abstract's length."""
_SEED = 20


@dataclass(frozen=True)
class Texts:
    """Texts to measure with; each list has texts of one kind, all different.

    Args:
        short: Single sentences, about 20 tokens.
        long: Neighbouring sentences up to `LONG_WORDS` words, about 250 tokens.
        mixed: Texts of one to `LONG_WORDS` words' worth of sentences, short ones most often.
        questions: Sentences that none of the others holds.
    """

    short: list[str]
    long: list[str]
    mixed: list[str]
    questions: list[str]


def python_texts(*, sentences: int = SENTENCES) -> Texts:
    """The same texts on every run of one Python version.

    Raises:
        InputError: This Python carries fewer sentences.
    """
    found = python_sentences(sentences)
    random.Random(_SEED).shuffle(found)
    short, questions = sentences // 4, sentences // 12
    rest = found[short + questions :]
    half = len(rest) // 2
    return Texts(
        short=found[:short],
        long=list(joined(rest[:half], itertools.repeat(LONG_WORDS))),
        mixed=list(joined(rest[half:], _lengths())),
        questions=found[short : short + questions],
    )


def joined(sentences: list[str], words: Iterator[int]) -> Iterator[str]:
    """Sentences joined until each text has as many words as is said; what is left over is dropped.

    Examples:
        >>> list(joined(["a b.", "c d.", "e.", "f g."], iter([3, 1, 9])))
        ['a b. c d.', 'e.']
    """
    parts: list[str] = []
    wanted = next(words)
    for sentence in sentences:
        parts.append(sentence)
        if sum(len(part.split()) for part in parts) >= wanted:
            yield " ".join(parts)
            parts, wanted = [], next(words)


def _lengths() -> Iterator[int]:
    draw = random.Random(_SEED)
    while True:
        # Even on a logarithmic scale, as the lengths of questions, notes and pages together are.
        yield round(LONG_WORDS ** draw.random())
