from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sbert_retriever import Passage, Retriever
from sbert_retriever.mining import find_clusters, find_duplicates

Run = Callable[..., Any]

TEXTS = {
    "a": "the cat was in the house",
    "b": "the cat was in the house",
    "c": "The cat was in the house",
    "d": "water is the way of people",
    "e": "water is the way of people",
    "f": "search model vector text",
}


@pytest.fixture
def copies(run: Run, tiny: str, tmp_path: Path, write_jsonl: Any) -> Path:
    """Six passages: three of one text, two of another, and one alone."""
    lang = {"a": "en", "b": "en", "c": "fr"}
    records = [{"_id": i, "text": t, "lang": lang.get(i, "de")} for i, t in TEXTS.items()]
    corpus = write_jsonl(tmp_path / "copies.jsonl", records)
    location = tmp_path / "location"
    outcome = run("index", corpus, "--to", location, "--id-field", "_id", "--model", tiny)
    assert outcome.code == 0, outcome.err
    return location


def lines(outcome: Any) -> list[dict[str, Any]]:
    return [json.loads(line) for line in outcome.out.splitlines()]


def test_pairs_as_json_equal_those_of_the_library(run: Run, copies: Path) -> None:
    outcome = run("duplicates", copies, "--threshold", "1", "--json")
    assert outcome.code == 0, outcome.err
    with Retriever.open(copies) as retriever:
        found = find_duplicates(retriever, 1)
    assert [(p["first"]["id"], p["second"]["id"]) for p in lines(outcome)] == [
        (pair.first.id, pair.second.id) for pair in found.pairs
    ]
    assert {(p["first"]["id"], p["second"]["id"]) for p in lines(outcome)} == {
        ("a", "b"), ("a", "c"), ("b", "c"), ("d", "e")
    }  # fmt: skip
    first = lines(outcome)[0]
    assert first["score"] == pytest.approx(1, abs=1e-6)
    assert first["first"].keys() == {"id", "text", "metadata", "source"}
    assert first["first"]["text"] in TEXTS.values()


def test_pairs_to_read(run: Run, copies: Path) -> None:
    outcome = run("duplicates", copies, "--threshold", "1", "--limit", "1")
    rank, place, text, *_ = outcome.out.splitlines()
    assert rank == " 1. 1.0000 cosine"
    assert place.startswith("    ")
    assert "copies.jsonl" in place
    assert text.strip() in TEXTS.values()
    assert len(outcome.out.splitlines()) == 5
    said = outcome.err.splitlines()
    assert said[0] == (
        "sbert-retriever: 4 pairs with a cosine of 1 or more, in 2 groups, among 6 passages "
        "(every pair compared)"
    )
    assert said[1].endswith("printed: the first 1 of 4 pairs (--limit prints more)")


@pytest.mark.parametrize("way", ["--exact", "--through-index"])
def test_groups(run: Run, copies: Path, way: str) -> None:
    outcome = run("duplicates", copies, "--threshold", "1", "--groups", "--json", way)
    assert lines(outcome) == [
        {"size": 3, "ids": ["a", "b", "c"]},
        {"size": 2, "ids": ["d", "e"]},
    ]
    assert ("through the index" in outcome.err) is (way == "--through-index")
    shown = run("duplicates", copies, "--threshold", "1", "--groups", "--limit", "1", "--quiet")
    assert shown.out.splitlines()[0] == " 1. 3 passages"
    assert len(shown.out.splitlines()) == 7
    assert shown.err == ""


def test_a_filter_narrows_both_commands(run: Run, copies: Path) -> None:
    outcome = run("duplicates", copies, "--threshold", "1", "--filter", "lang=en", "--json")
    assert [(p["first"]["id"], p["second"]["id"]) for p in lines(outcome)] == [("a", "b")]
    outcome = run("clusters", copies, "--filter", "lang=en", "--min-size", "2", "--json")
    assert [sorted(c["ids"]) for c in lines(outcome)] == [["a", "b"]]


def test_nothing_found_is_a_success_and_says_so(run: Run, copies: Path) -> None:
    for command in (["duplicates"], ["duplicates", "--groups"], ["clusters"]):
        outcome = run(*command, copies, "--filter", "lang=xx")
        assert (outcome.code, outcome.out) == (0, "    nothing found\n")
        assert run(*command, copies, "--filter", "lang=xx", "--json").out == ""


def test_clusters_as_json_equal_those_of_the_library(run: Run, copies: Path) -> None:
    outcome = run("clusters", copies, "--threshold", "0.999", "--min-size", "2", "--json")
    with Retriever.open(copies) as retriever:
        found = find_clusters(retriever, threshold=0.999, min_size=2)
    assert [c["ids"] for c in lines(outcome)] == [list(c.ids) for c in found.clusters]
    assert [sorted(c["ids"]) for c in lines(outcome)] == [["a", "b", "c"], ["d", "e"]]
    assert lines(outcome)[1]["central"]["text"] == TEXTS["d"]
    assert [c["size"] for c in lines(outcome)] == [3, 2]
    assert lines(outcome)[0]["cohesion"] == pytest.approx(1, abs=1e-6)
    assert "2 clusters (communities) among 6 passages, 1 of which are in none" in outcome.err


def test_clusters_to_read(run: Run, copies: Path) -> None:
    outcome = run("clusters", copies, "--k", "3", "--limit", "2", "--members", "1")
    shown = outcome.out.splitlines()
    assert shown[0] == " 1. 3 passages, cohesion 1.000"
    assert shown[2].strip().lower() == TEXTS["a"]
    assert shown[3] == " 2. 2 passages, cohesion 1.000"
    assert "3 clusters (kmeans) among 6 passages, 0 of which are in none" in outcome.err
    assert "printed: the largest 2 of 3" in outcome.err


@pytest.mark.parametrize("name", ["map.png", "map.svg", "MAP.PNG"])
def test_a_picture(run: Run, copies: Path, tmp_path: Path, name: str) -> None:
    outcome = run("clusters", copies, "--k", "2", "--picture", tmp_path / name)
    assert outcome.code == 0, outcome.err
    assert (tmp_path / name).stat().st_size > 1000
    assert f"the map is in {tmp_path / name}" in outcome.err


def test_a_document_cannot_steer_the_terminal(run: Run, tmp_path: Path, tiny: str) -> None:
    with Retriever.open(tmp_path / "x", model=tiny) as retriever:
        texts = ["the \x1b[31mcat\x07", "the \x1b[31mcat\x07"]
        retriever.index(Passage(f"{n}\x1b", text) for n, text in enumerate(texts))
    for command in (["duplicates"], ["duplicates", "--groups"], ["clusters", "--min-size", "2"]):
        for full in ((), ("--full",)):
            outcome = run(*command, tmp_path / "x", *full)
            assert "cat" in outcome.out
            assert "\x1b" not in outcome.out + outcome.err


def test_passages_without_a_usable_vector_are_told_of(
    run: Run, copies: Path, plant_nan: Any
) -> None:
    with Retriever.open(copies) as retriever:
        plant_nan(retriever, Passage("nan", "not a number"))
    for command in ("duplicates", "clusters"):
        outcome = run(command, copies, "--threshold", "0.999", "--json")
        assert outcome.code == 0
        assert "NaN" not in outcome.out
        assert "not finite: 1 passage" in outcome.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("duplicates", "--threshold", "1.5"), "expected a cosine, from -1 to 1"),
        (("duplicates", "--threshold", "nan"), "expected a cosine, from -1 to 1"),
        (("duplicates", "--limit", "0"), "limit is 0"),
        (("duplicates", "--filter", "x"), "FIELD=VALUE"),
        (("clusters", "--k", "7"), "k is 7 and there are 6 passages"),
        (("clusters", "--k", "0"), "k is 0"),
        (("clusters", "--limit", "0"), "--limit is 0"),
        (("clusters", "--members", "-1"), "--members is -1"),
        (("clusters", "--method", "magic"), "method is 'magic'"),
        (("clusters", "--picture", "map.gif"), "expected .png or .svg"),
        (("clusters", "--picture", "absent/map.png"), "absent is no folder"),
    ],
)
def test_wrong_use_exits_with_2_and_one_line(
    run: Run, copies: Path, arguments: tuple[str, ...], said: str
) -> None:
    command, *options = arguments
    outcome = run(command, copies, *options)
    assert outcome.code == 2
    assert outcome.out == ""
    assert said in outcome.err
    assert len(outcome.err.splitlines()) == 1


def test_no_collection_is_one_line(run: Run, tmp_path: Path) -> None:
    for command in ("duplicates", "clusters"):
        outcome = run(command, tmp_path / "none")
        assert outcome.code == 1
        assert len(outcome.err.splitlines()) == 1
