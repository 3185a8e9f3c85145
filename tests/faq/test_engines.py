"""An FAQ on every engine whose collections last: a folder, local mode, a server."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sbert_retriever import Faq, FaqEntry
from sbert_retriever.errors import InputError
from sbert_retriever.faq import Thresholds
from sbert_retriever.testing import HashEncoder

Open = Callable[..., Faq]
WORDS = Thresholds(score=0.8, margin=0.1, choose=0.3)


@pytest.fixture
def on_engine(lasting_engine: Any) -> Iterator[Open]:
    """Open FAQs of one collection of the engine; closed at the end."""
    opened: list[Faq] = []

    def open_(**settings: Any) -> Faq:
        given = {"model": HashEncoder(dim=256), "thresholds": WORDS}
        faq = Faq.open(**lasting_engine.settings, **given, **settings)
        opened.append(faq)
        return faq

    yield open_
    for faq in opened:
        faq.close()


def test_entries_live_as_in_memory(on_engine: Open, entries: list[FaqEntry]) -> None:
    faq = on_engine()
    assert faq.add(entries) == 3
    assert faq.entries() == sorted(entries, key=lambda entry: entry.id)
    assert (faq.count(), faq.get("nobody")) == (3, None)
    asked = "when are you OPEN"
    assert faq.ask(asked).answer == entries[0].answer
    assert faq.ask("capital of France").outcome == "abstain"
    assert faq.ask(asked, filter={"tags": "orders"}).answer is None
    changed = faq.edit("hours", phrasings=["Do you open on Mondays?"])
    assert changed == replace(entries[0], phrasings=("Do you open on Mondays?",))
    assert faq.ask("do you open on mondays").entry == changed
    assert faq.sharing("When are you open?") == []
    with pytest.raises(InputError, match="'hours' is there already"):
        faq.add(entries[0])
    assert (faq.delete("hours"), faq.delete("hours"), faq.count()) == (True, False, 2)
    assert faq.ask("do you open on mondays").answer is None


def test_a_file_takes_the_place_of_what_was_there(
    on_engine: Open, entries: list[FaqEntry], tmp_path: Path
) -> None:
    faq = on_engine()
    faq.add(entries)
    file = tmp_path / "faq.csv"
    file.write_text("id,question,answer\nhours,Open when?,Always.\n", encoding="utf-8")
    report = faq.load(file, prune=True)
    assert (report.entries, report.deleted, report.dropped) == (1, 2, 2)
    assert [entry.id for entry in faq.entries()] == ["hours"]
    assert faq.ask("open when").answer == "Always."


def test_what_it_learned_is_there_when_it_is_opened_again(
    on_engine: Open, entries: list[FaqEntry]
) -> None:
    faq = on_engine(answers=True)
    faq.add(entries)
    report = faq.calibrate(_labelled(entries), target_precision=0.8)
    asked = "so when are you open then?"
    confidence = faq.ask(asked).confidence
    assert confidence is not None
    assert confidence > 0.5
    faq.close()
    again = on_engine()
    assert again.calibration == report.calibration
    assert again.ask(asked).confidence == pytest.approx(confidence)
    with pytest.raises(InputError, match="created with answers=True, asked for False"):
        on_engine(answers=False)


def test_words_and_meanings_together(on_engine: Open, entries: list[FaqEntry]) -> None:
    faq = on_engine(sparse="bm25")
    faq.add(entries)
    assert [c.entry.id for c in faq.ask("delivery", k=1).candidates] == ["ship"]


def test_feedback_needs_a_place(on_engine: Open, lasting_engine: Any, tmp_path: Path) -> None:
    faq = on_engine()
    if lasting_engine.name == "folder":
        faq.feedback("q", "hours", True)
    else:
        with pytest.raises(InputError, match="log=FILE"):
            faq.feedback("q", "hours", True)
    faq.close()
    faq = on_engine(log=tmp_path / "log.jsonl")
    faq.feedback("q", "hours", True)
    assert "hours" in (tmp_path / "log.jsonl").read_text(encoding="utf-8")


def _labelled(entries: list[FaqEntry]) -> list[tuple[str, str | None]]:
    """Sixty questions: a phrasing and two words more, or, every third, something else."""
    draw = random.Random(0)
    foreign = ["capital of France", "who won the match", "tell me a joke", "is it raining"]
    made: list[tuple[str, str | None]] = []
    for turn in range(60):
        filler = " ".join(draw.sample(["please", "today", "then", "tell", "me", "now"], 2))
        entry = draw.choice(entries)
        asked = draw.choice(foreign if turn % 3 == 2 else list(entry.phrasings))
        made.append((f"{asked} {filler} {turn}", None if turn % 3 == 2 else entry.id))
    return made
