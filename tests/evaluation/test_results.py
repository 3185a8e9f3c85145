"""Results as JSON and tables, and the pictures of them."""

import json

import numpy as np
import pytest

from sbert_retriever.errors import InputError, ReadError
from sbert_retriever.evaluation.plots import (
    check_drawing,
    points,
    read_history,
    write_comparison,
    write_learning_curve,
)
from sbert_retriever.evaluation.results import SetResult, TaskResult


def one(name, **figures):
    return SetResult(name=name, items=2, figures=figures, values=np.array([1.0, 0.0]))


TWO = TaskResult(
    task="transfer", model="m", sets=[one("x", accuracy=80.0), one("y", accuracy=60.0, f1=50.0)]
)


def test_several_sets_have_an_average_of_what_they_share():
    found = TWO.to_dict()
    assert (found["accuracy"], found["items"], found["task"]) == (70.0, 4, "transfer")
    assert found["sets"]["average"] == {"accuracy": 70.0}
    assert found["sets"]["y"] == {"items": 2, "accuracy": 60.0, "f1": 50.0}
    assert TWO.table() == "\n".join(
        [
            "         items  accuracy     f1",
            "x            2     80.00",
            "y            2     60.00  50.00",
            "average            70.00",
        ]
    )


def test_one_set_is_flat_and_sets_of_other_kinds_are_not_averaged():
    single = TaskResult(task="stsb", model="m", sets=[one("stsb", spearman_cosine=82.03)])
    assert single.to_dict() == {"task": "stsb", "model": "m", "items": 2, "spearman_cosine": 82.03}
    apart = TaskResult(task="argument", model="m", sets=TWO.sets, averaged=False)
    assert apart.to_dict()["accuracy"] == 80
    assert list(apart.to_dict()["sets"]) == ["x", "y"]
    assert "average" not in apart.table()


def test_a_comparison_is_the_same_file_each_time(tmp_path):
    other = TaskResult(task="transfer", model="n", sets=TWO.sets)
    written = []
    for number in range(2):
        path = tmp_path / f"{number}.png"
        write_comparison([TWO, other], path)
        written.append(path.read_bytes())
    assert written[0] == written[1]
    write_comparison([TWO], tmp_path / "a.pdf")
    assert (tmp_path / "a.pdf").read_bytes().startswith(b"%PDF")


def test_other_sets_do_not_stand_side_by_side(tmp_path):
    other = TaskResult(task="transfer", model="n", sets=TWO.sets[:1])
    with pytest.raises(InputError, match="different sets"):
        write_comparison([TWO, other], tmp_path / "a.png")
    with pytest.raises(InputError, match=r"a picture is named a\.txt"):
        check_drawing("a.txt")


def test_the_log_of_a_run_in_two_parts_counts_on(tmp_path):
    entries = [
        {"step": "nli", "update": 1, "loss": 3.0},
        {"step": "nli", "update": 50, "loss": 2.0},
        {"step": "sts", "update": 1, "loss": 0.5},
        {"step": "sts", "update": 20, "loss": 0.1},
    ]
    log = tmp_path / "training.jsonl"
    log.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    history = read_history(tmp_path)
    assert points(history, "loss") == [(1, 3.0), (50, 2.0), (51, 0.5), (70, 0.1)]
    path = tmp_path / "curve.svg"
    write_learning_curve({"run": history}, path)
    assert path.read_text().startswith("<?xml")
    log.write_text('{"loss": 1.0}\n')
    with pytest.raises(ReadError, match=r"training\.jsonl, line 1: no 'update'"):
        read_history(tmp_path)


def test_the_log_of_transformers_is_read_from_the_last_checkpoint(tmp_path):
    for step in (10, 20):
        log = [{"step": s, "loss": 1 / s, "epoch": 1} for s in range(10, step + 1, 10)]
        log.append({"step": step, "eval_spearman": 70.0, "eval_runtime": 1.0})
        folder = tmp_path / f"checkpoint-{step}"
        folder.mkdir()
        state = {"global_step": step, "log_history": log}
        (folder / "trainer_state.json").write_text(json.dumps(state))
    history = read_history(tmp_path)
    assert points(history, "eval_spearman") == [(20, 70.0)]
    write_learning_curve({"run": history}, tmp_path / "curve.png")
    assert (tmp_path / "curve.png").stat().st_size > 1000


def test_nothing_to_draw(tmp_path):
    with pytest.raises(ReadError, match=r"has no training\.jsonl and no trainer_state"):
        read_history(tmp_path)
    with pytest.raises(InputError, match="none of the 1 logs has a loss"):
        write_learning_curve({"run": []}, tmp_path / "a.png")
