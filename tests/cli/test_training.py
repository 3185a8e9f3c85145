"""`sbert-retriever train`."""

from __future__ import annotations

import json
from pathlib import Path

from sbert_retriever import BiEncoder

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
    assert "step train: 1 updates on 1 examples" in outcome.out
    assert f"the model is in {tmp_path / 'out'}" in outcome.out
    assert "step train: update 1 of 1, loss" in outcome.err
    assert BiEncoder.load(tmp_path / "out").dim == 32


def test_json_and_a_data_folder(run, tiny, tmp_path) -> None:
    (tmp_path / "data").mkdir()
    path = written(tmp_path, tiny)
    (tmp_path / "pairs.tsv").rename(tmp_path / "data" / "pairs.tsv")
    words = ("train", path, "--output", tmp_path / "out", "--data", tmp_path / "data", "--json")
    outcome = run(*words, "--quiet")
    assert outcome.json["steps"][0]["updates"] == 1
    assert outcome.err == ""


def test_bad_data_is_said_with_file_and_line(run, tiny, tmp_path) -> None:
    path = written(tmp_path, tiny, "first\tsecond\nthe cat\t \n")
    outcome = run("train", path, "--output", tmp_path / "out")
    assert outcome.code == 1
    assert "pairs.tsv, line 2: the second is empty" in outcome.err
    assert not (tmp_path / "out").exists()


def test_a_taken_folder_and_going_on(run, tiny, tmp_path) -> None:
    path = written(tmp_path, tiny)
    words = ("train", path, "--output", tmp_path / "out", "--quiet")
    assert run(*words).code == 0
    again = run(*words)
    assert again.code == 2
    assert "resume it, or name another folder" in again.err
    assert run(*words, "--resume").code == 0
