"""copy, snapshot, restore, rebuild, switch and drop, as typed."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sbert_retriever import Passage, Retriever
from sbert_retriever.testing import HashEncoder
from sbert_retriever.transfer import copy_collection

Run = Callable[..., Any]


def answers(run: Run, location: Path, *more: str) -> list[tuple[str, float]]:
    hits = run("query", location, "the cat", "--json", "--exact", *more).json["hits"]
    return [(hit["id"], round(hit["score"], 5)) for hit in hits]


def test_copy_says_in_one_line_that_it_checked(run: Run, animals: Path, tmp_path: Path) -> None:
    outcome = run("copy", animals, tmp_path / "b", "--to-collection", "second")
    assert outcome.code == 0, outcome.err
    (line,) = outcome.out.splitlines()
    assert line.startswith("3 added, 0 updated, 0 unchanged")
    assert "checked: 3 passages on both sides, 3 of them compared, 3 searches equal" in line
    assert answers(run, animals) == answers(run, tmp_path / "b", "--collection", "second")
    again = run("copy", animals, tmp_path / "b", "--to-collection", "second", "--json")
    assert again.json["index"]["unchanged"] == 3
    assert again.json["checked"]["searches"] == 3


def test_copy_with_another_model(run: Run, animals: Path, tmp_path: Path, other: str) -> None:
    outcome = run("copy", animals, tmp_path / "b", "--model", other, "--json")
    assert (outcome.json["encoded_anew"], outcome.json["index"]["encoded"]) == (True, 3)
    assert run("info", tmp_path / "b", "--json").json["dim"] == 16


def test_copy_that_cannot_be(run: Run, animals: Path, tmp_path: Path) -> None:
    onto_itself = run("copy", animals, animals)
    assert onto_itself.code == 2
    assert "onto itself" in onto_itself.err
    missing = run("copy", animals, tmp_path / "b", "--collection", "x")
    assert missing.code == 1
    assert "there are: 'default'. Choose one" in missing.err
    run("copy", animals, tmp_path / "b")
    with Retriever.open(tmp_path / "b") as retriever:
        retriever.index([Passage("extra", "not in the original")])
    differs = run("copy", animals, tmp_path / "b")
    assert differs.code == 1
    assert "1 not in the original ('extra')" in differs.err
    assert run("copy", animals, tmp_path / "b", "--prune").out.startswith("0 added")


def test_copy_interrupted_says_that_it_can_be_run_again(
    start: Callable[..., Any], tmp_path: Path
) -> None:
    """Ctrl-C in the middle: exit code 130, one line, and the next run ends it."""
    with Retriever.open(tmp_path / "a", model=HashEncoder(dim=256)) as retriever:
        retriever.index(Passage(str(n), f"text {n}") for n in range(8_000))
    process = start("copy", "a", "b")
    deadline = time.monotonic() + 60
    while not (tmp_path / "b" / "default" / "collection.json").exists():
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert b"run the same command again" in err
    report = copy_collection(tmp_path / "a", tmp_path / "b")
    assert report.index.added + report.index.unchanged == 8_000


def test_snapshot_and_restore(run: Run, animals: Path, tmp_path: Path) -> None:
    file = tmp_path / "s.tar.gz"
    assert run("snapshot", animals, file).out.startswith("'default' (3 passages); ")
    outcome = run("restore", file, tmp_path / "b")
    assert outcome.out.startswith("restored: 'default' (3 passages); ")
    assert answers(run, animals) == answers(run, tmp_path / "b")
    refused = run("restore", file, tmp_path / "b")
    assert refused.code == 2
    assert "--replace" in refused.err
    assert run("restore", file, tmp_path / "b", "--replace", "--json").json["engine"]
    file.write_bytes(file.read_bytes()[:3000])
    cut = run("restore", file, tmp_path / "c")
    assert cut.code == 1
    assert "Nothing was restored" in cut.err
    assert not (tmp_path / "c").exists()


def test_rebuild_switch_and_drop(run: Run, animals: Path, tmp_path: Path, other: str) -> None:
    before = answers(run, animals)
    outcome = run("rebuild", animals, "--model", other, "--json")
    assert (outcome.code, outcome.json["encoded"]) == (0, 3)
    assert "'default.old'" in outcome.err
    assert run("info", animals, "--json").json["dim"] == 16
    source = tmp_path / "animals.jsonl"
    assert run("index", source, "--to", animals, "--id-field", "_id").code == 0

    back = ("switch", animals, "--to-collection", "default.old")
    assert run(*back).out == "'default' is now what 'default.old' was\n"
    assert answers(run, animals) == before
    assert run(*back).code == 0

    refused = run("drop", animals, "--collection", "default.old")
    assert refused.code == 2
    assert "this deletes 'default.old' with 3 passages: add --yes" in refused.err
    done = run("drop", animals, "--collection", "default.old", "--yes")
    assert done.out == "'default.old' dropped, with 3 passages\n"
    assert run("drop", animals, "--collection", "default.old", "--yes").code == 1
    assert run("rebuild", animals, "--model", other, "--drop-old").code == 0
    assert run("info", animals, "--collection", "default.old").code == 1
