"""`sbert-retriever train`."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from sbert_retriever import BiEncoder
from sbert_retriever.training import TrainReport

CONFIG = """
model = {model}
device = "cpu"

[[steps]]
objective = "in-batch"
data = {{ kind = "pairs", files = ["pairs.tsv"] }}
"""


def written(folder: Path, tiny: str, lines: str = "first\tsecond\nthe cat\ta cat\n") -> Path:
    (folder / "pairs.tsv").write_text(lines, encoding="utf-8")
    path = folder / "config.toml"
    path.write_text(CONFIG.format(model=json.dumps(tiny)), encoding="utf-8")
    return path


def test_a_model_is_trained_and_the_report_printed(run, tiny, tmp_path) -> None:
    path = written(tmp_path, tiny)
    outcome = run("train", path, "--output", tmp_path / "out")
    assert outcome.code == 0, outcome.err
    assert "step train: 1 update on 1 example" in outcome.out
    assert f"the model is in {tmp_path / 'out'}" in outcome.out
    assert "step train: update 1 of 1, loss" in outcome.err
    assert BiEncoder.load(tmp_path / "out").dim == 32


def test_the_curve_of_a_development_set_is_printed(run, tiny, tmp_path) -> None:
    path = written(tmp_path, tiny)
    (tmp_path / "dev.tsv").write_text("a\tb\tscore\nthe cat\ta cat\t5\nwater\ttime\t0\n")
    dev = '[dev]\nkind = "sts"\nfiles = ["dev.tsv"]\ncolumns = { first = "a", second = "b" }\n'
    path.write_text(path.read_text() + dev + 'measure = "spearman"\nkeep_best = true\n')
    outcome = run("train", path, "--output", tmp_path / "out")
    assert outcome.code == 0, outcome.err
    # Of two pairs the correlation of ranks is 1 or -1, times 100.
    assert re.search(r"update  spearman_cosine\n0 +-?100\.00\n1 +-?100\.00\n", outcome.out)
    assert re.search(r"the best is update [01] with -?100\.00, and it was kept", outcome.out)
    assert re.search(r"update 0 of 1, spearman_cosine -?100\.00, ", outcome.err)


def test_json_and_a_data_folder(run, tiny, tmp_path) -> None:
    (tmp_path / "data").mkdir()
    path = written(tmp_path, tiny)
    (tmp_path / "pairs.tsv").rename(tmp_path / "data" / "pairs.tsv")
    words = ("train", path, "--output", tmp_path / "out", "--data", tmp_path / "data", "--json")
    outcome = run(*words, "--quiet")
    assert outcome.json["steps"][0]["updates"] == 1
    assert outcome.err == ""


class Trained:
    """A run that is over at once."""

    def __init__(self, *given: object, **settings: object) -> None:
        self.counts = {"train": 1}

    def train(self, **settings: object) -> TrainReport:
        return TrainReport(folder="out", steps=())


@pytest.mark.parametrize(("rank", "printed"), [("0", True), ("1", False)])
def test_of_several_processes_one_reports(
    run, monkeypatch: pytest.MonkeyPatch, rank: str, printed: bool
) -> None:
    """With a report of each, what torchrun passes on would be no JSON."""
    monkeypatch.setattr("sbert_retriever.training.Trainer", Trained)
    monkeypatch.setenv("RANK", rank)
    outcome = run("train", "config.toml", "--output", "out", "--json")
    assert outcome.code == 0
    assert bool(outcome.out) is printed
    assert ("step train: 1 example" in outcome.err) is printed


def test_bad_data_is_said_with_file_and_line(run, tiny, tmp_path) -> None:
    path = written(tmp_path, tiny, "first\tsecond\nthe cat\t \n")
    outcome = run("train", path, "--output", tmp_path / "out")
    assert outcome.code == 1
    assert "pairs.tsv, line 2: the second is empty" in outcome.err
    assert not (tmp_path / "out").exists()


def test_a_run_that_never_began_leaves_its_folder_free(run, tiny, tmp_path) -> None:
    """A misspelt model was refused, and then the right one as well, as another configuration."""
    words = ("train", tmp_path / "config.toml", "--output", tmp_path / "out", "--quiet")
    written(tmp_path, str(tmp_path / "no-such-model"))
    assert run(*words).code == 1
    written(tmp_path, tiny)
    outcome = run(*words)
    assert outcome.code == 0, outcome.err


def test_a_taken_folder_and_going_on(run, tiny, tmp_path) -> None:
    path = written(tmp_path, tiny)
    words = ("train", path, "--output", tmp_path / "out", "--quiet")
    assert run(*words).code == 0
    again = run(*words)
    assert again.code == 2
    assert "resume it, or name another folder" in again.err
    assert run(*words, "--resume").code == 0
