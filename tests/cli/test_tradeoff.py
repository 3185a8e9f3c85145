"""The commands that measure."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sbert_retriever import Profile, Retriever
from sbert_retriever.tradeoff.report import recompute

Run = Callable[..., Any]


@pytest.fixture
def queries(tmp_path: Path, write_jsonl: Any) -> Path:
    lines = [{"_id": "1", "text": "cat in house"}, {"_id": "2", "text": "dog with people"}]
    return write_jsonl(tmp_path / "queries.jsonl", lines)


@pytest.fixture
def qrels(tmp_path: Path) -> Path:
    path = tmp_path / "qrels.tsv"
    path.write_text("query-id\tcorpus-id\tscore\n1\ta\t1\n2\tb\t1\n", encoding="utf-8")
    return path


def measure(run: Run, location: Path, queries: Path, output: Path, *more: str | Path) -> Any:
    return run(
        "tradeoff", location, "--queries", queries, "-o", output, "--reranker", "none",
        "--late", "2", "--timed", "1", *more,
    )  # fmt: skip


def test_a_table_and_files_whose_figures_come_again(
    run: Run, animals: Path, queries: Path, qrels: Path, tmp_path: Path
) -> None:
    outcome = measure(run, animals, queries, tmp_path / "out", "--qrels", qrels)
    assert outcome.code == 0, outcome.err
    assert {path.suffix for path in (tmp_path / "out").iterdir()} == {
        *(".jsonl", ".json", ".csv", ".png", ".svg")
    }
    report = recompute(tmp_path / "out" / "tradeoff.jsonl")
    assert outcome.out == f"{report.table()}\n"
    assert [p.point.name for p in report.points][:2] == ["bi-encoder", "16 dimensions"]
    written = json.loads((tmp_path / "out" / "tradeoff.json").read_text(encoding="utf-8"))
    again = run("tradeoff", animals, "--from", tmp_path / "out" / "tradeoff.jsonl", "--json")
    assert again.json == written


def test_the_point_chosen_is_kept_with_the_collection(
    run: Run, animals: Path, queries: Path, qrels: Path, tmp_path: Path
) -> None:
    measure(run, animals, queries, tmp_path / "out", "--qrels", qrels, "--no-plot")
    file = tmp_path / "out" / "tradeoff.jsonl"
    outcome = run("tradeoff", animals, "--from", file, "--budget-ms", "100000")
    assert outcome.code == 0, outcome.err
    assert "saved as the profile of this collection: " in outcome.err
    with Retriever.open(animals) as retriever:
        profile = retriever.profile
    assert profile is not None
    assert f"collection: {profile} (nDCG@10" in outcome.err
    missed = run("tradeoff", animals, "--from", file, "--min-ndcg", "2")
    assert missed.code == 2
    assert "no point reaches nDCG@10 2" in missed.err


def test_a_colbert_model_gives_the_token_vectors(
    run: Run,
    animals: Path,
    queries: Path,
    qrels: Path,
    tmp_path: Path,
    colbert_folder: Callable[..., Path],
) -> None:
    """And a search that follows the point saved loads it by itself."""
    folder = colbert_folder()
    outcome = measure(
        run, animals, queries, tmp_path / "out", "--qrels", qrels, "--no-plot", "--late-model",
        folder,
    )  # fmt: skip
    assert outcome.code == 0, outcome.err
    assert f"Token vectors for MaxSim are those of {folder}" in outcome.out
    wanted = Profile(name="late", candidates=3, rerank_depth=0, late=3, late_encoder=str(folder))
    with Retriever.open(animals) as retriever:
        retriever.save_profile(wanted)
        saved = retriever.search("cat in house", 3)
    with Retriever.open(animals, late_encoder=folder) as retriever:
        expected = retriever.search("cat in house", 3, profile=Profile(late=3, rerank_depth=0))
    assert [(hit.id, hit.score) for hit in saved] == [(hit.id, hit.score) for hit in expected]


def test_without_judgements_it_says_what_it_shows(
    run: Run, animals: Path, queries: Path, tmp_path: Path
) -> None:
    outcome = measure(run, animals, queries, tmp_path / "out", "--no-plot", "-k", "2")
    assert "It does not show how good any answer is." in outcome.out
    assert "overlap@2" in outcome.out
    assert not (tmp_path / "out" / "tradeoff.png").exists()


def test_judgements_beside_the_queries_that_were_not_asked_for_are_told_of(
    run: Run, animals: Path, queries: Path, qrels: Path, tmp_path: Path
) -> None:
    """An hour went by for a table without accuracies."""
    beir = tmp_path / "beir"
    (beir / "qrels").mkdir(parents=True)
    queries.rename(beir / "queries.jsonl")
    qrels.rename(beir / "qrels" / "test.tsv")
    outcome = measure(run, animals, beir, tmp_path / "out", "--no-plot")
    assert outcome.code == 0, outcome.err
    assert f"--qrels {beir} measures accuracy" in outcome.err
    asked = measure(run, animals, beir, tmp_path / "out", "--no-plot", "--qrels", beir)
    assert asked.code == 0, asked.err
    assert "measures accuracy" not in asked.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "--queries"),
        (("--queries", "q.jsonl", "--from", "f.jsonl"), "--queries to measure, or --from"),
        (("--queries", "q.jsonl", "--budget-ms", "1", "--min-ndcg", "0.5"), "one of them"),
        (("--queries", "q.jsonl", "--budget-ms", "0"), "--budget-ms is 0"),
        (("--queries", "q.jsonl", "--budget-ms", "inf"), "--budget-ms is inf"),
        (("--queries", "q.jsonl", "--min-ndcg", "nan"), "--min-ndcg is nan"),
        (("--queries", "q.jsonl", "--depths", "5,x"), "--depths is '5,x'"),
    ],
)
def test_wrong_use_is_noticed_before_anything_is_measured(
    run: Run, animals: Path, arguments: tuple[str, ...], said: str
) -> None:
    outcome = run("tradeoff", animals, "--reranker", "none", *arguments)
    assert (outcome.code, outcome.out) == (2, "")
    assert said in outcome.err
    assert len(outcome.err.splitlines()) == 1


@pytest.mark.parametrize(
    ("absent", "more"), [("ir_measures", ()), ("matplotlib", ()), ("ir_measures", ("--no-plot",))]
)
def test_what_is_not_installed_is_missed_before_anything_is_measured(
    run: Run, animals: Path, queries: Path, tmp_path: Path, absent: str, more: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """The table of an hour was lost for a package that draws it."""
    monkeypatch.setitem(sys.modules, absent, None)
    outcome = measure(run, animals, queries, tmp_path / "out", *more)
    assert (outcome.code, outcome.out) == (1, "")
    assert f"{absent} is needed" in outcome.err
    assert not (tmp_path / "out").exists()


def test_results_do_not_go_into_a_file(
    run: Run, animals: Path, queries: Path, tmp_path: Path
) -> None:
    (tmp_path / "out").write_text("mine", encoding="utf-8")
    outcome = measure(run, animals, queries, tmp_path / "out")
    assert (outcome.code, outcome.out) == (2, "")
    assert "is a file, and results go into a folder" in outcome.err


def test_a_file_that_cannot_be_read_names_its_line(
    run: Run, animals: Path, queries: Path, tmp_path: Path
) -> None:
    bad = tmp_path / "bad.tsv"
    bad.write_text("1\ta\t1\n2\tb\n", encoding="utf-8")
    outcome = measure(run, animals, queries, tmp_path / "out", "--qrels", bad)
    assert outcome.code == 1
    assert "bad.tsv, line 2" in outcome.err


def test_paper_efficiency(run: Run, tiny: str, tmp_path: Path) -> None:
    lines = tmp_path / "lines.txt"
    lines.write_text("the cat\nthe dog\nThe  cat\nwater and house\nthe dogs\n", encoding="utf-8")
    arguments = ("--sentences", lines, "--model", tiny, "--sample", "3")
    outcome = run("paper-efficiency", "-n", "4", *arguments, "--json")
    assert outcome.code == 0, outcome.err
    assert (outcome.json["sentences"], outcome.json["pairs"]) == (4, 6)
    assert outcome.json["paper"]["sentences"] == 10_000
    table = run("paper-efficiency", "-n", "3", *arguments, "--quiet")
    assert "about 65 h" in table.out
    assert table.err == ""
    short = run("paper-efficiency", "-n", "5", *arguments)
    assert short.code == 2
    assert "has 4 different lines" in short.err
    assert run("paper-efficiency", "-n", "1", *arguments).code == 2
    gone = tmp_path / "gone"
    early = run("paper-efficiency", "-n", "5", "--sentences", lines, "--model", gone)
    assert "has 4 different lines" in early.err
