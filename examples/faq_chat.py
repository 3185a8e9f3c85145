"""A chatbot for the terminal that answers from an FAQ, or says that it does not know.

The FAQ is this project's own, docs/questions.md. In a terminal you type the questions; otherwise
the example asks some itself.

Run it: python examples/faq_chat.py [FAQ.md|FAQ.csv|...]
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from sbert_retriever import Faq, FaqAnswer

QUESTIONS = Path(__file__).parents[1] / "docs" / "questions.md"
ASKED = [
    "can it index pdf files",
    "Must I buy a graphics card?",
    "is my data uploaded to the cloud?",
    "and without internet?",
    "Who won the football match yesterday?",
]


def typed() -> Iterator[str]:
    """Questions from the keyboard, until an empty line or Ctrl-D."""
    with suppress(EOFError):
        while question := input("\n> ").strip():
            yield question


def told() -> Iterator[str]:
    """Questions of our own."""
    for question in ASKED:
        print(f"\n> {question}")
        yield question


def show(found: FaqAnswer) -> None:
    """What the FAQ makes of a question."""
    if found.outcome == "answer":
        print(found.answer)
    elif found.outcome == "choose":
        print("Did you mean:")
        for choice in found.choices:
            print(f"  - {choice}")
    else:
        print("I don't know.")
    best = f"nearest {found.candidates[0].score:.2f}, " if found.candidates else ""
    print(f"    [{found.outcome}, {best}{found.timings_ms['total']:.0f} ms]")


def talk(faq: Faq, questions: Iterable[str]) -> None:
    """Each question is asked with the one before, in case it follows it up."""
    before = None
    for question in questions:
        show(faq.ask(question, before))
        before = question


def main() -> None:
    file = sys.argv[1] if len(sys.argv) > 1 else QUESTIONS
    with Faq.open(":memory:", model="all-MiniLM-L6-v2") as faq:
        print(f"{Path(file).name}: {faq.load(file).entries} entries. An empty line ends.")
        talk(faq, typed() if sys.stdin.isatty() else told())


if __name__ == "__main__":
    main()
