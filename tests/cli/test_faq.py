"""`sbert-retriever faq`."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from sbert_retriever import Faq, FaqAnswer, FaqEntry
from sbert_retriever.cli.faq_asking import put_answer
from sbert_retriever.cli.faq_learning import read_labelled
from sbert_retriever.errors import ReadError
from sbert_retriever.faq import FaqCandidate
from sbert_retriever.training.data import TrainData
from sbert_retriever.training.readers.examples import read_examples

FAQ = """id,question,answer
hours,When are you open?,9 to 5.
hours,What are your opening hours?,9 to 5.
return,How do I return an item?,Send it back.
"""


@pytest.fixture
def shop(run: Any, tmp_path: Path) -> Path:
    """An FAQ with the packaged model."""
    file = tmp_path / "faq.csv"
    file.write_text(FAQ, encoding="utf-8")
    location = tmp_path / "shop"
    outcome = run("faq", "import", location, file)
    assert outcome.code == 0, outcome.err
    assert outcome.out.startswith("2 entries; passages: 3 added")
    assert "new FAQ 'faq'" in outcome.err
    return location


def test_from_a_csv_to_an_answer(run: Any, shop: Path) -> None:
    answered = run("faq", "ask", shop, "what time do you open?")
    assert (answered.code, answered.out) == (0, "9 to 5.\n")
    unknown = run("faq", "ask", shop, "capital of France", "--json")
    assert unknown.json["outcome"] == "abstain"
    assert unknown.json["answer"] is None
    assert {"question", "outcome", "answer", "confidence", "candidates"} <= set(unknown.json)
    assert run("faq", "ask", shop, "capital of France").out == "I don't know.\n"
    follow = run("faq", "ask", shop, "and on Sundays?", "--previous", "When are you open?")
    assert follow.out == "9 to 5.\n"


def test_entries_are_added_listed_and_deleted(run: Any, shop: Path) -> None:
    added = run("faq", "add", shop, "-q", "Do you ship abroad?", "-q", "Foreign countries?",
                "-a", "Yes.", "--tag", "orders", "--link", "https://example.org")  # fmt: skip
    assert (added.code, added.out) == (0, "do-you-ship-abroad\n")
    twice = run("faq", "add", shop, "-q", "Do you ship abroad?", "-a", "No.")
    assert twice.code == 2
    assert "is there already" in twice.err
    listed = run("faq", "list", shop)
    assert "do-you-ship-abroad  [orders]\n    Do you ship abroad?" in listed.out
    assert "3 entries" in listed.err
    tagged = run("faq", "list", shop, "--tag", "orders", "--json")
    assert json.loads(tagged.out)["phrasings"] == ["Do you ship abroad?", "Foreign countries?"]
    assert run("faq", "delete", shop, "hours", "nope").out == "1 deleted\n"
    assert "hours" not in run("faq", "list", shop).out


def test_an_entry_is_edited(run: Any, shop: Path) -> None:
    edited = run("faq", "edit", shop, "hours", "-a", "8 to 6.", "-q", "Open on Mondays?",
                 "--remove", "When are you open?")  # fmt: skip
    assert (edited.code, edited.out) == (
        0,
        "hours\n    What are your opening hours?\n    Open on Mondays?\n    > 8 to 6.\n",
    )
    asked = run("faq", "ask", shop, "open on mondays", "--json").json
    assert (asked["answer"], asked["exact"]) == ("8 to 6.", True)
    assert not run("faq", "ask", shop, "when are you open", "--json").json["exact"]
    kept = run("faq", "edit", shop, "hours", "-a", "Never.", "--json").json
    assert (kept["answer"], len(kept["phrasings"])) == ("Never.", 2)


def test_feedback_is_exported_as_pairs_to_train_on(run: Any, shop: Path, tmp_path: Path) -> None:
    with Faq.open(shop) as faq:
        for question, entry, good in [
            ("do you\topen early", "hours", True),
            ("must it\ngo back", "return", False),
            ("Must it\ngo back?", "return", True),
            ("is it late", "hours", True),
            ("is it late", "hours", False),
            ("When are you open", "hours", True),
            ("gone", "deleted", True),
        ]:
            faq.feedback(question, entry, good)
    hours, back = "When are you open?", "How do I return an item?"
    for ending in ("tsv", "csv", "jsonl"):
        outcome = run("faq", "export-pairs", shop, tmp_path / f"pairs.{ending}")
        assert (outcome.code, outcome.out) == (0, "2 pairs\n"), outcome.err
        data = TrainData(kind="pairs", files=(f"pairs.{ending}",))
        read = [each.texts for each in read_examples(data, folder=tmp_path)]
        assert [tuple(" ".join(text.split()) for text in texts) for texts in read] == [
            ("do you open early", hours),
            ("Must it go back?", back),
        ]
    assert run("faq", "export-pairs", shop, tmp_path / "answers.tsv", "--answers").code == 0
    assert (tmp_path / "answers.tsv").read_text(encoding="utf-8") == (
        "first\tsecond\ndo you open early\t9 to 5.\nMust it go back?\tSend it back.\n"
        "When are you open\t9 to 5.\n"
    )


def test_a_chat(run: Any, shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    typed = "when are you open\n+\nwhat about it?\ncapital of France\n-\n\n"
    monkeypatch.setattr("sys.stdin", io.StringIO(typed))
    outcome = run("faq", "chat", shop, "--log-unanswered")
    assert outcome.code == 0, outcome.err
    lines = outcome.out.splitlines()
    assert lines[:2] == ["> when are you open", "9 to 5."]
    assert lines[-2:] == ["I don't know.", "> -"]
    assert "ask a question first" in outcome.err
    with Faq.open(shop) as faq:
        assert [(f.question, f.entry, f.good) for f in faq.feedback_kept()] == [
            ("when are you open", "hours", True)
        ]
        assert "capital of France" in faq._notebook.unanswered()


def test_a_question_in_another_encoding_is_told_of(
    run: Any, shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was called a fault of the program."""
    piped = io.TextIOWrapper(io.BytesIO("geöffnet?\n".encode("latin-1")), encoding="utf-8")
    monkeypatch.setattr("sys.stdin", piped)
    outcome = run("faq", "chat", shop, "--quiet")
    assert (outcome.code, outcome.out) == (1, "")
    assert "holds the byte 0xf6, which is no utf-8 text" in outcome.err


def test_feedback_on_a_follow_up_is_on_both_questions(
    run: Any, shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By itself a follow-up would be learned as a question about that entry."""
    monkeypatch.setattr("sys.stdin", io.StringIO("When are you open?\nand on Sundays?\n+\n\n"))
    outcome = run("faq", "chat", shop)
    assert (outcome.code, outcome.out) == (
        0,
        "> When are you open?\n9 to 5.\n> and on Sundays?\n9 to 5.\n> +\n",
    )
    with Faq.open(shop) as faq:
        (kept,) = faq.feedback_kept()
    assert (kept.question, kept.entry) == ("When are you open? and on Sundays?", "hours")


def test_a_number_chooses_from_a_list_and_is_a_question_elsewhere(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After an answer it printed a candidate that nobody had been shown."""
    file = tmp_path / "faq.csv"
    file.write_text(
        "id,question,answer\nred,price of the red car,1000.\nblue,price of the blue car,2000.\n"
        "missing,404,The page is gone.\n",
        encoding="utf-8",
    )
    assert run("faq", "import", tmp_path / "shop", file).code == 0
    typed = "price of the red car\n2\n404\nprice of the car\n404\nprice of the car\n1\n2\n\n"
    monkeypatch.setattr("sys.stdin", io.StringIO(typed))
    outcome = run("faq", "chat", tmp_path / "shop")
    assert outcome.code == 0, outcome.err
    lines = [line for line in outcome.out.splitlines() if not line.startswith("> ")]
    assert lines[0] == "1000."
    assert "2000." not in lines[1:3]  # "2" was asked, and no entry answers it
    gone = [place for place, line in enumerate(lines) if line == "The page is gone."]
    assert len(gone) == 2
    assert lines[gone[0] + 1] == lines[gone[1] + 1] == "Did you mean:"
    shown = [line.split(". ")[1] for line in lines[gone[1] + 2 :][:2]]
    prices = {"price of the red car": "1000.", "price of the blue car": "2000."}
    assert lines[-2:] == [prices[title] for title in shown]


def test_a_list_shows_the_phrasings_that_matched(capsys: pytest.CaptureFixture[str]) -> None:
    """It showed the first phrasing of each entry, which may ask something else."""
    red = FaqEntry(id="red", answer="1000.", phrasings=["anything red?", "price of the red car"])
    near = FaqCandidate(entry=red, phrasing="price of the red car", score=0.6)
    put_answer(FaqAnswer(question="price?", outcome="choose", candidates=(near,)))
    assert capsys.readouterr().out == "Did you mean:\n    1. price of the red car\n"


def test_calibrating_from_a_csv_and_finding_gaps(run: Any, shop: Path, tmp_path: Path) -> None:
    rows = ["question,entry"]
    for n in range(20):
        rows += [f"please say when you are open {n},hours", f"may I return item {n},return"]
        rows += [f"who wrote book number {n},"]
    labels = tmp_path / "labels.csv"
    labels.write_text("\n".join(rows), encoding="utf-8")
    picture = tmp_path / "curve.svg"
    outcome = run("faq", "calibrate", shop, labels, "--target-precision", "0.8", "--plot", picture)
    assert outcome.code == 0, outcome.err
    assert "precision" in outcome.out
    assert picture.exists()
    folder = tmp_path / "folder.svg"
    folder.mkdir()
    outcome = run("faq", "calibrate", shop, labels, "--target-precision", "0.8", "--plot", folder)
    assert (outcome.code, outcome.out) == (2, "")
    assert "cannot be written: name a file" in outcome.err
    assert run("faq", "ask", shop, "when do you open", "--json").json["confidence"] > 0.5
    asked = tmp_path / "asked.txt"
    asked.write_text("do you sell shoes\ndo you have shoes\ntell me a joke\n", encoding="utf-8")
    gaps = run("faq", "gaps", shop, asked, "--json")
    assert [json.loads(line)["count"] for line in gaps.out.splitlines()] == [2]
    assert "   2  do you" in run("faq", "gaps", shop, asked).out


def test_labelled_questions_are_read_as_every_other_csv(tmp_path: Path) -> None:
    """With ";" between the columns, as spreadsheets write where "," is for decimals: refused."""
    file = tmp_path / "labels.csv"
    text = '\ufeffquestion;entry\r\n"open on Sundays;\r\nand late?";hours\r\nwho is it?;\r\n'
    file.write_bytes(text.encode())
    assert read_labelled(file) == [("open on Sundays;\nand late?", "hours"), ("who is it?", None)]
    for rows, says in [
        ('"two\nlines",hours\n ,hours\n', "line 4: no question"),
        ('"two\nlines",hours\nwho is it?\n', "line 4: 1 value, expected 2"),
    ]:
        file.write_text(f"question,entry\n{rows}", encoding="utf-8")
        with pytest.raises(ReadError, match=says):
            read_labelled(file)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["ask", "{nowhere}", "q"], "there is no FAQ 'faq' at"),
        (["list", "{shop}", "--collection", "other"], "the collections there are 'faq'"),
        (["import", "{shop}", "{file}.txt"], "suffixes"),
        (["calibrate", "{shop}"], "give 30 at least"),
        (["edit", "{shop}", "hours"], "there is nothing to change"),
        (["edit", "{shop}", "no", "-a", "x"], "there is no entry 'no'"),
        (["edit", "{shop}", "hours", "--remove", "x"], "has no phrasing 'x'"),
        (["edit", "{shop}", "return", "--remove", "How do I return an item?"], "no phrasing: give"),
        (["export-pairs", "{shop}", "pairs.tsv"], "there is no feedback that an entry was right"),
        (
            ["calibrate", "{shop}", "{file}"],
            "line 1: no column 'entry'; the columns are 'id'",
        ),
        (["calibrate", "{shop}", "--plot", "curve.txt"], "ends in '.txt', expected .png or .svg"),
        (["calibrate", "{shop}", "--plot", "{nowhere}/c.png"], "is no folder: make it first"),
    ],
)
def test_what_cannot_be_done_says_why(
    run: Any, shop: Path, tmp_path: Path, arguments: list[str], says: str
) -> None:
    names = {"shop": shop, "nowhere": tmp_path / "nowhere", "file": tmp_path / "faq.csv"}
    outcome = run("faq", *(argument.format(**names) for argument in arguments))
    assert outcome.code in (1, 2)
    assert says in outcome.err
    assert outcome.err.count("\n") == 1


def test_an_import_says_which_phrasings_it_drops(run: Any, shop: Path, tmp_path: Path) -> None:
    """Those added with `faq edit -q` went without a word."""
    assert run("faq", "edit", shop, "hours", "-q", "Open on Mondays?").code == 0
    again = run("faq", "import", shop, tmp_path / "faq.csv")
    assert "1 phrasing that the files do not have was dropped" in again.err
    assert "dropped" not in run("faq", "import", shop, tmp_path / "faq.csv").err


def test_one_is_no_plural(run: Any, shop: Path) -> None:
    assert run("faq", "delete", shop, "return").code == 0
    listed = run("faq", "list", shop)
    assert "(and 1 more phrasing)" in listed.out
    assert "1 entry\n" in listed.err


def test_questions_are_read_from_the_standard_input(
    run: Any, shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A question was wanted as an argument."""
    typed = "when are you open\n\nwho wrote Hamlet?\n"
    monkeypatch.setattr("sys.stdin", io.StringIO(typed))
    assert run("faq", "ask", shop).out == (
        "? when are you open\n9 to 5.\n\n? who wrote Hamlet?\nI don't know.\n"
    )
    monkeypatch.setattr("sys.stdin", io.StringIO(typed))
    lines = run("faq", "ask", shop, "-", "--json").out.splitlines()
    assert [json.loads(line)["outcome"] for line in lines] == ["answer", "abstain"]
    assert "a question is empty" in run("faq", "ask", shop, " ").err


def test_a_number_that_is_on_no_list_is_told_of(
    run: Any, shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It got "I don't know"."""
    assert run("faq", "add", shop, "-q", "When are you open?", "-a", "Never.").code == 0
    monkeypatch.setattr("sys.stdin", io.StringIO("When are you open?\n9\n1\n\n"))
    out = run("faq", "chat", shop).out
    assert "> 9\nThere is no choice 9: the list goes from 1 to 2.\n> 1\n" in out
    assert out.splitlines()[-1] in ("9 to 5.", "Never.")


def test_a_faulty_file_makes_no_faq_and_is_told_of_whole(run: Any, tmp_path: Path) -> None:
    """The first fault was told of alone, and an FAQ without entries stayed behind."""
    file = tmp_path / "faq.csv"
    rows = "".join(f"q{n}?,\n" for n in range(12))
    file.write_text(f"question,answer\nwhy?,a\nhow?,\nWhy,b\n{rows}", encoding="utf-8")
    outcome = run("faq", "import", tmp_path / "shop", file)
    assert outcome.code == 1
    assert "faq.csv has 14 faults: line 3: no answer; line 5: no answer;" in outcome.err
    assert outcome.err.rstrip().endswith("; and 4 more")
    assert not (tmp_path / "shop").exists()
    file.write_text("question,answer\nwhy?,a\nhow?,\nWhy,b\n", encoding="utf-8")
    err = run("faq", "import", tmp_path / "shop", file).err
    assert "has 2 faults: line 3: no answer; line 4: the question 'Why' has another answer" in err


def test_an_id_in_two_files_makes_no_faq(run: Any, tmp_path: Path) -> None:
    """An FAQ without entries stayed behind."""
    for name in "ab":
        text = f"id,question,answer\nhours,When {name}?,{name}\n"
        (tmp_path / f"{name}.csv").write_text(text, encoding="utf-8")
    files = [tmp_path / "a.csv", tmp_path / "b.csv"]
    outcome = run("faq", "import", tmp_path / "shop", *files)
    assert outcome.code == 1
    assert f"{files[1]}, line 2: entry 'hours' is in {files[0]}, line 2, too: " in outcome.err
    assert not (tmp_path / "shop").exists()


def test_an_faq_without_entries_is_not_asked(run: Any, shop: Path) -> None:
    """It answered "I don't know" to everything."""
    assert run("faq", "delete", shop, "hours", "return").code == 0
    for command in (["ask", shop, "when?"], ["chat", shop]):
        outcome = run("faq", *command)
        assert (outcome.code, outcome.out) == (2, "")
        assert "this FAQ has no entries" in outcome.err


def test_a_phrasing_of_another_entry_is_told_of(run: Any, shop: Path) -> None:
    """Both were in a list, and could not be told apart."""
    added = run("faq", "add", shop, "--id", "late", "-q", "when are you OPEN", "-a", "Late.")
    assert "is a phrasing of 'hours', too" in added.err
    edited = run("faq", "edit", shop, "return", "-q", "What are your opening hours?")
    assert "is a phrasing of 'hours', too" in edited.err
    assert "too" not in run("faq", "edit", shop, "return", "-q", "Send it back?").err
