from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sbert_retriever import Retriever

Run = Callable[..., Any]


def test_info_in_json(run: Run, animals: Path, tiny: str) -> None:
    facts = run("info", animals, "--json").json
    assert (facts["count"], facts["dim"], facts["engine"]) == (3, 32, "embedded")
    assert facts["model"] == tiny
    assert facts["collection"] == "default"
    assert facts["score_kind"] == "cosine"
    assert facts["weights"]


def test_info_as_a_table(run: Run, animals: Path) -> None:
    lines = dict(line.split(None, 1) for line in run("info", animals).out.splitlines())
    assert (lines["count"], lines["dim"]) == ("3", "32")


def test_info_lists_the_sources_with_their_passages(
    run: Run, tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("b.jsonl").write_text('{"text": "a dog"}\n' * 12, encoding="utf-8")
    Path("a.txt").write_text("a cat", encoding="utf-8")
    outcome = run("index", "b.jsonl", "a.txt", "--to", "index", "--model", tiny)
    assert outcome.code == 0, outcome.err
    assert run("info", "index", "--sources").out == " 1  a.txt\n12  b.jsonl\n"
    assert run("info", "index", "--sources", "--json").json == {"a.txt": 1, "b.jsonl": 12}


def test_a_missing_collection_is_answered_with_those_that_are_there(
    run: Run, animals: Path, tmp_path: Path
) -> None:
    outcome = run("info", animals, "--collection", "docs")
    assert outcome.code == 1
    assert "no collection 'docs'" in outcome.err
    assert "'default'" in outcome.err

    outcome = run("info", tmp_path / "nowhere")
    assert outcome.code == 1
    assert "sbert-retriever index" in outcome.err
    assert not (tmp_path / "nowhere").exists()


def test_querying_with_a_model_creates_no_collection(run: Run, tiny: str, tmp_path: Path) -> None:
    outcome = run("query", tmp_path / "nowhere", "cat", "--model", tiny)
    assert outcome.code == 1
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize(
    ("arguments", "left"),
    [
        (("--id", "a", "--id", "c", "--id", "never"), {"b"}),
        (("--filter", "lang=en"), {"c"}),
        (("--source", "SOURCE"), set()),
        (("--all", "--yes"), set()),
    ],
)
def test_delete(
    run: Run, animals: Path, tmp_path: Path, arguments: tuple[str, ...], left: set[str]
) -> None:
    source = (tmp_path / "animals.jsonl").as_posix()
    outcome = run("delete", animals, *(source if a == "SOURCE" else a for a in arguments))
    assert outcome.code == 0
    assert outcome.out == f"{3 - len(left)} deleted\n"
    with Retriever.open(animals) as retriever:
        assert {passage.id for passage in retriever.scroll()[0]} == left


def test_a_source_that_no_passage_has_is_answered_with_the_nearest(
    run: Run, tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It said "0 deleted", and no more."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes").mkdir()
    for name in ("moon.txt", "cats.txt"):
        (tmp_path / "notes" / name).write_text("the cat was in the house", encoding="utf-8")
    run("index", "notes", "--to", "x", "--model", tiny)
    for wrong in (str(tmp_path / "notes" / "moon.txt"), "moon.txt", "notes/mon.txt"):
        outcome = run("delete", "x", "--source", wrong)
        assert (outcome.code, outcome.out) == (0, "0 deleted\n")
        said = f"no passage has the source {wrong!r}; the nearest there are 'notes/moon.txt'"
        assert said in outcome.err
    outcome = run("delete", "x", "--source", "0123456789")
    assert "it is the path as `index` was given it" in outcome.err
    outcome = run("delete", "x", "--source", "notes/moon.txt", "--json")
    assert (outcome.json, outcome.err) == ({"deleted": 1}, "")


@pytest.mark.parametrize("arguments", [(), ("--all",), ("--id", "a", "--source", "x")])
def test_delete_refuses_what_is_not_said_clearly(
    run: Run, animals: Path, arguments: tuple[str, ...]
) -> None:
    """Deleting with no filter must not empty the collection."""
    outcome = run("delete", animals, *arguments)
    assert outcome.code == 2
    assert run("info", animals, "--json").json["count"] == 3


def test_an_empty_filter_deletes_nothing(run: Run, animals: Path) -> None:
    assert run("delete", animals, "--filter-json", "{}").code == 2
    assert run("info", animals, "--json").json["count"] == 3


@pytest.mark.parametrize("command", ["info", "doctor"])
def test_a_server_that_is_not_there_is_named(run: Run, command: str) -> None:
    outcome = run(command, "http://localhost:1")
    assert outcome.code == 1
    assert "a Qdrant server runs at http://localhost:1" in outcome.err + outcome.out
