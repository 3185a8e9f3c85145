"""Markdown: a heading is a question, what stands below it the answer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sbert_retriever.errors import ReadError
from sbert_retriever.faq.reading.records import Draft
from sbert_retriever.ingest.headings import Heading, markdown_headings

_MARKS = ("?", "\uff1f", "\u061f", "\u037e")
"""What a question ends with: Latin, full width, Arabic, Greek."""


def markdown_drafts(text: str, source: str) -> Iterator[Draft | ReadError]:
    """The entries of a Markdown file.

    Where some headings end with a question mark, those are the questions, and the others above
    them are tags; else every heading with text below it and no further headings is one. Questions
    that follow each other without text between are phrasings of one entry. Headings below a
    question, deeper than it, belong to its answer. A question without an answer comes as an error.

    Raises:
        ReadError: There is no heading to take for a question.
    """
    headings = list(markdown_headings(text))
    questions = _questions(headings, text)
    if not questions:
        raise ReadError(
            f"{source}, line 1: no question: write each as a heading (## How do I ...?) with its "
            "answer below"
        )
    waiting: list[int] = []
    for place, end in questions:
        here = headings[place]
        answer = text[here.end : end].strip()
        waiting.append(place)
        follows = any(other == end for other in (headings[p].start for p, _ in questions))
        if not answer and follows:
            continue
        first = headings[waiting[0]]
        line = text.count("\n", 0, first.start) + 1
        if answer:
            yield Draft(
                line=line,
                answer=answer,
                phrasings=[headings[p].text for p in waiting],
                tags=_above(headings, waiting[0]),
            )
        else:
            yield ReadError(f"{source}, line {line}: {first.text[:60]!r} has no answer below it")
        waiting = []


def _questions(headings: Sequence[Heading], text: str) -> list[tuple[int, int]]:
    """The places of the questions among the headings, and where the answer of each ends."""
    if not headings:
        return []
    ends = [*(heading.start for heading in headings[1:]), len(text)]
    if any(heading.text.endswith(_MARKS) for heading in headings):
        found: list[tuple[int, int]] = []
        for place, heading in enumerate(headings):
            inside = found and found[-1][1] > heading.start
            if heading.text.endswith(_MARKS) and not inside:
                found.append((place, _end(headings, place, text)))
        return found
    return [
        (place, end)
        for place, (heading, end) in enumerate(zip(headings, ends, strict=True))
        if text[heading.end : end].strip() and _end(headings, place, text) == end
    ]


def _end(headings: Sequence[Heading], place: int, text: str) -> int:
    """Where the next heading that is no deeper begins."""
    level = headings[place].level
    later = (heading.start for heading in headings[place + 1 :] if heading.level <= level)
    return next(later, len(text))


def _above(headings: Sequence[Heading], place: int) -> list[str]:
    """The headings over one, outermost first, but for the title of the page."""
    path: list[Heading] = []
    for heading in headings[: place + 1]:
        path = [*(above for above in path if above.level < heading.level), heading]
    return [heading.text for heading in path[:-1] if heading.level > 1 and heading.text]
