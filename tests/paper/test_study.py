"""The study for real, on a few examples of each set: every cell, killed and gone on with."""

import json
import shutil

import pytest

from sbert_retriever.cli import main
from sbert_retriever.evaluation.sts_sets import read_sts
from sbert_retriever.paper.run import PARTS
from sbert_retriever.paper.section import NOT_RUN
from sbert_retriever.paper.sizes import SIZES
from sbert_retriever.paper.study import Study, measure


@pytest.mark.data
@pytest.mark.full
def test_the_tiny_study_fills_every_cell_and_measures_none_twice(data_dir, tmp_path, capsys):
    page = tmp_path / "paper.md"
    words = ["paper", "--data", str(data_dir), "--output", str(page), "--tiny"]
    assert main(words) == 0
    text = page.read_text()
    assert NOT_RUN not in text
    assert capsys.readouterr().out.strip() == str(page)
    kept = sorted((tmp_path / "paper-results").rglob("*.json"))
    assert len(kept) == len({c.name for p in PARTS for c in p.cells(_tiny(data_dir, page))})
    times = {path: path.stat().st_mtime_ns for path in kept}
    assert main([*words, "--quiet"]) == 0
    assert {path: path.stat().st_mtime_ns for path in kept} == times
    assert page.read_text() == text
    assert not list((tmp_path / "paper-results").rglob("*.safetensors"))


def _tiny(data, page):
    folder = page.with_name("paper-results") / "tiny"
    return Study(data=data, size=SIZES["tiny"], folder=folder)


@pytest.mark.data
def test_a_part_alone_without_training(data_dir, tmp_path, capsys):
    page = tmp_path / "paper.md"
    words = ["paper", "--data", str(data_dir), "--output", str(page), "--tiny", "--parts", "g"]
    assert main(words) == 0
    kept = json.loads((tmp_path / "paper-results" / "tiny" / "batching.json").read_text())
    shares = kept["result"]["padding"]
    assert shares["on"] < shares["off"]
    text = page.read_text()
    assert f"{kept['result']['per_second']['on']:.2f}" in text
    assert "1 of " in text
    assert "ms-marco-MiniLM-L12-v2" in text
    shutil.rmtree(tmp_path / "paper-results")
    assert capsys.readouterr().err.count("batching") == 1


@pytest.mark.data
@pytest.mark.full
@pytest.mark.parametrize(
    ("row", "figure"), [("mean", 13.0), ("cls", 14.2), ("static", 49.0), ("random", 44.1)]
)
def test_known_correlations_of_what_was_not_trained(data_dir, tmp_path, row, figure):
    """STSb-en test; random weights are other ones with another seed, so roughly."""
    study = Study(data=data_dir, size=SIZES["full"], folder=tmp_path)
    assert len(read_sts(data_dir, "stsb")) == 1379
    found = measure(study.frozen(row), "stsb", study)["stsb"]["spearman_cosine"]
    assert found == pytest.approx(figure, abs=3.0 if row == "random" else 0.05)
