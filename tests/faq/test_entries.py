"""Entries in a collection: written, edited, deleted and read back."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sbert_retriever import Faq, FaqEntry, Passage, Retriever
from sbert_retriever.errors import CollectionNotFoundError, InputError, InputTypeError
from sbert_retriever.faq.passages import normalised, passages_of
from sbert_retriever.testing import HashEncoder
from sbert_retriever.transfer import copy_collection, rebuild

OPEN = Callable[..., Faq]


def test_entries_come_back_as_they_were_given(shop: Faq, entries) -> None:
    assert shop.entries() == sorted(entries, key=lambda entry: entry.id)
    assert shop.get("ship") == entries[2]
    assert shop.get("shi") is None
    assert (shop.count(), shop.retriever.count()) == (3, 5)


def test_an_entry_is_found_as_soon_as_it_is_added_and_no_more_when_it_is_deleted(shop: Faq) -> None:
    assert shop.ask("do you sell gift cards").outcome == "abstain"
    shop.add(FaqEntry(id="gift", answer="Yes.", phrasings=["Do you sell gift cards?"]))
    assert shop.ask("do you sell gift cards").answer == "Yes."
    assert shop.delete("gift")
    assert not shop.delete("gift")
    assert shop.ask("do you sell gift cards").outcome == "abstain"
    assert shop.retriever.count() == 5


def test_an_edit_changes_what_is_given_and_encodes_only_new_phrasings(
    open_faq: OPEN, entries
) -> None:
    counting = _Counting(dim=64)
    faq = open_faq(model=counting)
    faq.add(entries)
    counting.seen.clear()
    new = faq.edit("hours", answer="Always.", phrasings=["When are you open?", "opening times"])
    assert new == replace(
        entries[0], answer="Always.", phrasings=("When are you open?", "opening times")
    )
    assert counting.seen == ["opening times"]
    assert faq.get("hours") == new
    assert faq.ask("What are your opening hours?").exact is False
    assert faq.ask("When are you open?").answer == "Always."
    assert faq.edit("hours", language="").language is None
    assert faq.edit("hours", tags=[], links=[]).tags == ()


def test_the_answer_of_an_edit_is_that_of_every_phrasing(shop: Faq, entries) -> None:
    """An answer kept with each phrasing went stale on those that an edit had not touched."""
    shop.edit("return", answer="Within 14 days.")
    for phrasing in entries[1].phrasings:
        assert shop.ask(phrasing).answer == "Within 14 days."


def test_ids_that_look_like_parts_of_others_are_kept_apart(open_faq: OPEN) -> None:
    ids = ["a", "a#head", "a#head#head", "\u00e9", "x" * 3000, " "]
    faq = open_faq()
    faq.add([FaqEntry(id=i, answer=f"answer {n}", phrasings=[f"q {n}"]) for n, i in enumerate(ids)])
    assert [faq.get(i).answer for i in ids] == [f"answer {n}" for n in range(len(ids))]
    faq.delete("a")
    assert {entry.id for entry in faq.entries()} == set(ids[1:])


@pytest.mark.parametrize(
    ("fields", "error", "says"),
    [
        ({"id": ""}, InputError, "id is empty"),
        ({"id": 3}, InputTypeError, "FaqEntry.id is int"),
        ({"answer": "  "}, InputError, "empty answer"),
        ({"answer": None}, InputTypeError, "answer is NoneType"),
        ({"phrasings": []}, InputError, "no phrasing"),
        ({"phrasings": [" ", "\n"]}, InputError, "no phrasing"),
        ({"phrasings": "When?"}, InputTypeError, "phrasings is str, expected a list"),
        ({"phrasings": ["When?", 3]}, InputTypeError, "item is int"),
        ({"tags": "shop"}, InputTypeError, "tags is str"),
        ({"language": 1}, InputTypeError, "language is int"),
    ],
)
def test_what_is_no_entry_is_refused_by_name(fields: Any, error: Any, says: str) -> None:
    given = {"id": "a", "answer": "b", "phrasings": ["c"], **fields}
    with pytest.raises(error, match=says):
        FaqEntry(**given)


def test_phrasings_may_come_from_a_generator_and_each_is_kept_once() -> None:
    entry = FaqEntry(id="a", answer="b", phrasings=(p for p in ["one", "two", "one", " "]))
    assert entry.phrasings == ("one", "two")


def test_adding_takes_generators_and_refuses_what_would_overwrite(shop: Faq, entries) -> None:
    more = [FaqEntry(id=f"n{n}", answer=str(n), phrasings=[f"number {n}"]) for n in range(600)]
    assert shop.add(entry for entry in more) == 600
    assert shop.count() == 603
    with pytest.raises(InputError, match="'hours' is there already"):
        shop.add(entries[0])
    with pytest.raises(InputError, match="two entries have the id 'x'"):
        shop.add([FaqEntry(id="x", answer=a, phrasings=["q"]) for a in "ab"])
    with pytest.raises(InputTypeError, match="an entry is str"):
        shop.add(["hours"])
    with pytest.raises(InputError, match="there is no entry 'nope'"):
        shop.edit("nope", answer="x")
    assert shop.add(replace(entries[0], answer="New."), replace=True) == 1
    assert shop.get("hours").answer == "New."


def test_what_is_refused_among_many_entries_leaves_all_of_them_out(shop: Faq, entries) -> None:
    """The first 256 were in when a later one was refused, and stood in the way of a retry."""
    many = [FaqEntry(id=f"n{n}", answer=str(n), phrasings=[f"number {n}"]) for n in range(300)]
    with pytest.raises(InputError, match="'hours' is there already"):
        shop.add([*many, entries[0]])
    with pytest.raises(InputError, match="surrogate"):
        shop.add([*many, FaqEntry(id="odd", answer="\ud800", phrasings=["odd"])])
    assert (shop.count(), shop.retriever.count()) == (3, 5)
    assert shop.add(many) == 300


@pytest.mark.parametrize("changes", [{"answer": "\ud800"}, {"phrasings": ["opening", "\ud800"]}])
def test_an_entry_that_cannot_be_kept_changes_nothing(shop: Faq, entries, changes: Any) -> None:
    """Half of it was written: phrasings that led nowhere, or to the answer before."""
    with pytest.raises(InputError, match="surrogate"):
        shop.edit("hours", **changes)
    new = replace(entries[0], id="new", **changes)
    with pytest.raises(InputError, match="surrogate"):
        shop.add(new)
    assert shop.get("hours") == entries[0]
    assert shop.get("new") is None
    assert shop.retriever.count() == 5
    assert shop.ask("What are your opening hours?").entry == entries[0]


def test_what_a_write_that_was_cut_off_left_leads_to_no_later_answer(
    shop: Faq, entries, tmp_path: Path
) -> None:
    """No entry had the phrasing, so that none was asked to give it up."""
    written = list(passages_of(replace(entries[0], phrasings=["open", "lost"]), answers=False))
    shop.retriever.index(written[1:])  # and the process is killed before the head
    shop.add(replace(entries[0], answer="New."), replace=True)
    assert shop.ask("lost").answer is None
    assert shop.retriever.count() == 5
    other = list(passages_of(replace(entries[0], id="x", phrasings=["a", "lost"]), answers=False))
    shop.retriever.index(other[1:])
    (tmp_path / "faq.csv").write_text("id,question,answer\nnew,How new?,Quite.\n")
    shop.load(tmp_path / "faq.csv", prune=True)
    assert (shop.count(), shop.retriever.count()) == (1, 1)


def test_a_collection_of_passages_is_no_faq(tmp_path: Path) -> None:
    with Retriever.open(tmp_path, model=HashEncoder(), collection_name="docs") as retriever:
        retriever.index([Passage("a", "text")])
    with pytest.raises(InputError, match="1 passages that are no FAQ"):
        Faq.open(tmp_path, collection_name="docs")
    with Faq.open(tmp_path, model=HashEncoder()) as faq:  # beside it there is room
        assert faq.count() == 0


def test_opening_again_needs_no_model_and_keeps_how_it_was_made(tmp_path: Path, entries) -> None:
    with Faq.open(tmp_path, model="all-MiniLM-L6-v2", answers=True) as faq:
        faq.add(entries[2])
        assert faq.retriever.count() == 2
    with Faq.open(tmp_path) as faq:
        assert faq.entries() == [entries[2]]
    with pytest.raises(InputError, match="created with answers=True, asked for False"):
        Faq.open(tmp_path, answers=False)
    with pytest.raises(CollectionNotFoundError):
        Faq.open(tmp_path / "nowhere")


def test_an_faq_that_is_copied_or_rebuilt_is_an_faq_still(
    open_faq: OPEN, entries, tmp_path: Path
) -> None:
    """A copy without its mark was refused as a collection of passages that are no FAQ."""
    faq = open_faq(tmp_path / "one", model=HashEncoder(dim=64), answers=True)
    faq.add(entries)
    faq.close()
    copy_collection(tmp_path / "one", tmp_path / "two", collection_name="faq")
    rebuild(tmp_path / "one", model=HashEncoder(dim=32), collection_name="faq")
    for folder, dim in (("two", 64), ("one", 32)):
        again = open_faq(tmp_path / folder, model=HashEncoder(dim=dim))
        assert again.count() == 3
        assert again.ask("WHEN are you open").entry == entries[0]


async def test_asynchronous_twins_do_the_same(open_faq: OPEN, entries, tmp_path: Path) -> None:
    async with open_faq() as faq:
        assert await faq.aadd(entries) == 3
        assert (await faq.aask("When are you open?")).entry == entries[0]
        assert (await faq.aedit("hours", answer="x")).answer == "x"
        assert await faq.adelete("ship")
        assert await faq.aget("ship") is None
        assert await faq.asharing("how do i return an item") == [entries[1]]
        assert (await faq.acount(), len(await faq.aentries())) == (2, 2)
        (tmp_path / "faq.csv").write_text("id,question,answer\nnew,How new?,Quite.\n")
        report = await faq.aload(tmp_path / "faq.csv", prune=True)
        assert (report.entries, report.deleted, await faq.acount()) == (1, 2, 1)


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("What's your address?", "whats your address"),
        ("What\u2019s your ADDRESS", "whats your address"),
        ("\uff37hat\u3000now", "what now"),
        ("C++ or C#?", "c++ or c#"),
        ("Stra\u00dfe / STRASSE", "strasse strasse"),
        ("a\u00f1o", "a\u00f1o"),
        ("an\u0303o", "a\u00f1o"),
        ("\u0645\u062a\u0649\u061f", "\u0645\u062a\u0649"),
        ("?!\u2026", ""),
    ],
)  # fmt: skip
def test_questions_are_one_but_for_case_width_and_punctuation(text: str, plain: str) -> None:
    assert normalised(text) == plain


class _Counting(HashEncoder):
    """Says what it encoded."""

    def __init__(self, dim: int) -> None:
        super().__init__(dim)
        self.seen: list[str] = []

    def encode_passages(self, texts: Any) -> Any:
        self.seen.extend(texts)
        return super().encode_passages(texts)


CHILD = """
import json, sys
from sbert_retriever import Faq, FaqEntry
from sbert_retriever.testing import HashEncoder
from sbert_retriever.transfer import copy_collection, rebuild
faq = Faq.open(sys.argv[1], model=HashEncoder())
for n in range(10_000):
    entry = FaqEntry(id=f"e{n % 7}", answer=f"{n}", phrasings=[f"word{n % 7}", f"more{n}"])
    print(json.dumps(["begin", n]), flush=True)
    faq.add(entry, replace=True)
    print(json.dumps(["done", n]), flush=True)
"""


def test_a_process_that_is_killed_loses_no_entry_that_was_acknowledged(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert process.stdout is not None
    said = []
    for line in process.stdout:
        said.append(json.loads(line))
        if len(said) > 60:
            break
    process.send_signal(signal.SIGKILL)
    said += [json.loads(line) for line in process.stdout if line.endswith("\n")]
    process.stdout.close()
    process.wait()
    done = [n for word, n in said if word == "done"]
    begun = [n for word, n in said if word == "begin"]
    with Faq.open(tmp_path, model=HashEncoder()) as faq:
        for slot in range(7):
            last = max(n for n in done if n % 7 == slot)
            allowed = {last, *(n for n in begun if n % 7 == slot and n > last)}
            entry = faq.get(f"e{slot}")
            assert entry is not None
            assert int(entry.answer) in allowed
            assert entry.phrasings == (f"word{slot}", f"more{entry.answer}")
