"""Feedback as pairs to train on: a question, and what it should be near to."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import IO, Literal, TypeAlias

from sbert_retriever.errors import InputError
from sbert_retriever.faq.entries import FaqEntry, Feedback
from sbert_retriever.faq.passages import normalised

Pair: TypeAlias = tuple[str, str]
Second: TypeAlias = Literal["phrasing", "answer"]
"""What a question is paired with: the first phrasing of its entry, or the answer."""


def pairs_of(
    feedback: Iterable[Feedback], entries: Iterable[FaqEntry], *, second: Second
) -> list[Pair]:
    """Questions of which users said that an entry was the right one, each with a text of it.

    Of several words on one question and entry the last counts. Entries that were deleted, and
    questions that are that text themselves, teach nothing.

    Raises:
        InputError: `second` is neither.
    """
    if second not in ("phrasing", "answer"):
        raise InputError(f"second is {second!r}, expected 'phrasing' or 'answer'")
    texts = {each.id: each.title if second == "phrasing" else each.answer for each in entries}
    last = {said_of(said): said for said in feedback}
    return [
        (said.question, texts[entry])
        for (_, entry), said in last.items()
        if said.good and entry in texts and _teaches(said.question, texts[entry])
    ]


def said_of(said: Feedback) -> tuple[str, str]:
    """What feedback is about, question and entry: of several words on that the last counts."""
    return normalised(said.question) or said.question, said.entry


def _teaches(question: str, text: str) -> bool:
    plain = normalised(question)
    return bool(plain) and plain != normalised(text)


def write_pairs(pairs: Sequence[Pair], path: Path) -> None:
    """Write pairs as `sbert-retriever train` reads them: data of the kind "pairs".

    Args:
        pairs: (first, second).
        path: A .tsv, in which tabs and line breaks become spaces, a .csv or a .jsonl file; one
            that is there is replaced.

    Raises:
        InputError: It has another ending, or cannot be written.
    """
    write = _WRITERS.get(path.suffix.lower())
    if write is None:
        raise InputError(f"{path} has no ending that is known: expected .tsv, .csv or .jsonl")
    try:
        with path.open("w", encoding="utf-8", errors="replace", newline="\n") as file:
            write(pairs, file)
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror or error}") from error


def _tsv(pairs: Sequence[Pair], file: IO[str]) -> None:
    for pair in [("first", "second"), *pairs]:
        file.write("\t".join(" ".join(text.split()) for text in pair) + "\n")


def _csv(pairs: Sequence[Pair], file: IO[str]) -> None:
    csv.writer(file, lineterminator="\n").writerows([("first", "second"), *pairs])


def _jsonl(pairs: Sequence[Pair], file: IO[str]) -> None:
    for first, second in pairs:
        file.write(json.dumps({"first": first, "second": second}, ensure_ascii=False) + "\n")


_WRITERS: dict[str, Callable[[Sequence[Pair], IO[str]], None]] = {
    ".tsv": _tsv,
    ".csv": _csv,
    ".jsonl": _jsonl,
}
