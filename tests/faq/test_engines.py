"""An FAQ on every engine whose collections last: a folder, local mode, a server."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sbert_retriever import Faq, FaqEntry
from sbert_retriever.errors import FallbackWarning, InputError
from sbert_retriever.faq import Thresholds
from sbert_retriever.faq.calibration import KEY
from sbert_retriever.faq.kept import EVERY_S
from sbert_retriever.testing import HashEncoder, TableScorer

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


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Seconds by which an FAQ finds that it is time to look again; they pass as the test says."""
    now = [100.0]
    monkeypatch.setattr("sbert_retriever.faq.kept.monotonic", lambda: now[0])
    return now


def test_a_calibration_made_elsewhere_is_followed(
    on_engine: Open,
    entries: list[FaqEntry],
    clock: list[float],
) -> None:
    """Whoever else had the FAQ open went by thresholds until it was opened anew."""
    faq, other = on_engine(), on_engine()
    faq.add(entries)
    faq.calibrate(_labelled(entries), target_precision=0.8)
    asked = "so when are you open then?"
    looks = _counted_looks(other)
    assert other.ask(asked).confidence is None
    assert looks == []
    clock[0] += EVERY_S
    assert other.ask(asked).confidence == pytest.approx(faq.ask(asked).confidence)
    assert other.calibration == faq.calibration
    assert other.ask("When are you open?").confidence == 50 / 52
    assert len(looks) == 1  # and no round trip a question
    exact = [("when are you open", "hours"), ("How long does delivery take", "ship")]
    faq.calibrate([*_labelled(entries), *exact], target_precision=0.8)
    assert other.ask("When are you open?").confidence == 50 / 52
    clock[0] += EVERY_S
    assert other.calibration.exact == 52 / 54
    assert other.ask("When are you open?").confidence == 52 / 54
    assert len(looks) == 2


def test_a_calibration_made_elsewhere_with_other_settings_is_as_if_opened_anew(
    on_engine: Open, entries: list[FaqEntry], clock: list[float]
) -> None:
    faq, other = on_engine(reranker=TableScorer({})), on_engine()
    faq.add(entries)
    faq.calibrate(_labelled(entries), target_precision=0.8)
    clock[0] += EVERY_S
    with pytest.warns(FallbackWarning, match="reranker was 'TableScorer' and is None"):
        assert other.ask("so when are you open then?").confidence is None
    clock[0] += EVERY_S
    assert other.ask("so when are you open then?").confidence is None  # a second is an error


@pytest.mark.parametrize(
    ("kept", "says"),
    [
        ({"format": 2}, "has format 2, and this version reads up to 1"),
        ({"format": 1, "calibration": {"odd": 1}}, "saved calibration cannot be used"),
    ],
)
def test_what_a_newer_version_calibrated_stops_nobody(
    on_engine: Open, entries: list[FaqEntry], clock: list[float], kept: Any, says: str
) -> None:
    faq = on_engine()
    faq.add(entries)
    faq.calibrate(_labelled(entries), target_precision=0.8)
    store = faq.retriever.store
    store.connection.run(store.save_companions({KEY: kept}))
    clock[0] += EVERY_S
    with pytest.warns(FallbackWarning, match=f"{says}.*; until then the FAQ goes by what it knew"):
        assert faq.ask("When are you open?").confidence == 50 / 52
    clock[0] += EVERY_S
    assert faq.ask("When are you open?").confidence == 50 / 52  # a second would be an error


def _counted_looks(faq: Faq) -> list[None]:
    """One item for each time that the FAQ asks the engine what is kept."""
    kept, looks = faq._conversation.kept, []
    read = kept.read

    def counted() -> Any:
        looks.append(None)
        return read()

    kept.read = counted
    return looks


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


def test_what_is_not_kept_is_not_said_to_be_nothing(
    on_engine: Open, lasting_engine: Any, entries: list[FaqEntry], tmp_path: Path
) -> None:
    """Of an FAQ that keeps no questions it was said that it has no gaps."""
    faq = on_engine()
    faq.add(entries)
    if lasting_engine.name == "folder":
        assert (faq.gaps(), faq.feedback_kept(), faq.training_pairs()) == ([], [], [])
    else:
        for read in (faq.gaps, faq.feedback_kept, faq.training_pairs, faq.calibrate):
            with pytest.raises(InputError, match=r"is kept of this FAQ: .* open the FAQ with log="):
                read()
    assert faq.gaps(["zebra"], min_size=1)[0].count == 1
    faq.close()
    faq = on_engine(log=tmp_path / "log.jsonl")
    assert (faq.gaps(), faq.feedback_kept()) == ([], [])


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
