"""A run that is killed goes on where it was, and its loss curve joins."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sbert_retriever import BiEncoder, CrossEncoder, Trainer
from sbert_retriever.errors import InputError
from sbert_retriever.training.config_file import config_from

ROOT = Path(__file__).parents[2]
RUN = ("run.py",)


def config(rows, tiny: str, folder: Path, *, updates: int) -> Path:
    """Two steps in a file; the first one long enough to be killed in its middle."""
    for kind in ("sts", "pairs"):
        lines = "".join(json.dumps(row) + "\n" for row in rows(kind))
        (folder / f"{kind}.jsonl").write_text(lines, encoding="utf-8")
    text = f"""
model = {json.dumps(tiny)}
device = "cpu"
save_every = 10
log_every = 5
dropout = 0.1

[[steps]]
name = "sts"
objective = "regression"
max_updates = {updates}
batch_size = 4
learning_rate = 1e-3
data = {{ kind = "sts", files = ["sts.jsonl"] }}

[[steps]]
name = "pairs"
objective = "in-batch"
max_updates = 10
batch_size = 4
data = {{ kind = "pairs", files = ["pairs.jsonl"] }}
"""
    path = folder / "config.toml"
    path.write_text(text, encoding="utf-8")
    return path


def curve(folder: Path) -> list[tuple[str, int, float]]:
    lines = (folder / "training.jsonl").read_text(encoding="utf-8").splitlines()
    return [(e["step"], e["update"], e["loss"]) for e in map(json.loads, lines)]


def test_a_run_killed_in_the_middle_goes_on(rows, tiny: str, tmp_path: Path) -> None:
    path = config(rows, tiny, tmp_path, updates=200)
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1"}
    command = [sys.executable, "-m", "sbert_retriever", "train", str(path), "--output"]
    process = subprocess.Popen([*command, str(killed)], env=environment, stderr=subprocess.DEVNULL)
    place = killed / "checkpoints" / "1-sts"
    deadline = time.monotonic() + 120
    while not list(place.glob("checkpoint-*/trainer_state.json")) and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (killed / "modules.json").exists()
    resumed = Trainer(path, killed).train(resume=True)
    Trainer(path, whole).train()
    assert [step.updates for step in resumed.steps] == [200, 10]
    joined, one = curve(killed), curve(whole)
    assert [entry[:2] for entry in joined] == [entry[:2] for entry in one]
    assert [e[2] for e in joined] == pytest.approx([e[2] for e in one], abs=1e-4)
    texts = ["the cat was in the house", "people"]
    ours, theirs = (
        BiEncoder.load(f, device="cpu", dtype="float32").encode_passages(texts)
        for f in (killed, whole)
    )
    assert np.abs(ours - theirs).max() < 1e-3


def test_a_finished_step_is_not_done_again(rows, tiny: str, tmp_path: Path) -> None:
    path = config(rows, tiny, tmp_path, updates=20)
    out = tmp_path / "out"
    before = Trainer(path, out).train()
    (out / "checkpoints/2-pairs/done.json").unlink()
    (out / "modules.json").unlink()
    log = curve(out)
    after = Trainer(path, out).train(resume=True)
    assert after.steps[0].seconds == 0
    assert after.steps[1].last_loss == pytest.approx(before.steps[1].last_loss, abs=1e-5)
    assert [entry[:2] for entry in curve(out)] == [entry[:2] for entry in log]
    assert (out / "modules.json").is_file()
    again = Trainer(path, out).train(resume=True)
    assert [step.seconds for step in again.steps] == [0, 0]


def test_a_folder_that_is_taken(rows, tiny: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    step = {"objective": "regression", "data": {"kind": "sts", "rows": rows("sts")}}
    given = {"model": tiny, "device": "cpu", "steps": [{**step, "max_updates": 1}]}
    Trainer(config_from(given), out).train()
    with pytest.raises(InputError, match="holds a training run already"):
        Trainer(config_from(given), out).train()
    with pytest.raises(InputError, match="another seed"):
        Trainer(config_from({**given, "seed": 1}), out).train(resume=True)
    other = tmp_path / "other"
    other.mkdir()
    (other / "thesis.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(InputError, match="is not empty"):
        Trainer(config_from(given), other).train()


def test_a_run_does_not_go_on_over_data_that_has_changed(rows, tiny: str, tmp_path: Path) -> None:
    """The same name of a file, and other lines: what was skipped would not be what was seen."""
    path = config(rows, tiny, tmp_path, updates=1)
    Trainer(path, tmp_path / "out").train()
    with (tmp_path / "pairs.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"first": "one more", "second": "line"}\n')
    with pytest.raises(InputError, match="another content of its data: resume it with the conf"):
        Trainer(path, tmp_path / "out").train(resume=True)


def test_nor_over_another_development_set(rows, tiny: str, tmp_path: Path) -> None:
    """The best model so far was kept for what it was worth on the one before."""

    def write(given: Sequence[Mapping[str, Any]]) -> None:
        lines = "".join(json.dumps(row) + "\n" for row in given)
        (tmp_path / "dev.jsonl").write_text(lines, encoding="utf-8")

    write(rows("sts"))
    step = {"objective": "regression", "data": {"kind": "sts", "rows": rows("sts")}}
    given = {
        "model": tiny,
        "device": "cpu",
        "steps": [{**step, "max_updates": 1}],
        "dev": {"kind": "sts", "files": [str(tmp_path / "dev.jsonl")], "every": 1},
    }
    Trainer(config_from(given), tmp_path / "out").train()
    assert Trainer(config_from(given), tmp_path / "out").train(resume=True).steps[0].seconds == 0
    write(rows("sts")[:-1])
    with pytest.raises(InputError, match="another content of its data"):
        Trainer(config_from(given), tmp_path / "out").train(resume=True)


def test_nor_with_another_number_of_processes(rows, tiny, tmp_path, monkeypatch) -> None:
    """An epoch has half the updates then: half the data was never seen, and all was called done."""
    step = {"objective": "regression", "data": {"kind": "sts", "rows": rows("sts")}}
    given = {"model": tiny, "device": "cpu", "steps": [{**step, "max_updates": 1}]}
    Trainer(config_from(given), tmp_path / "out").train()
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(InputError, match="another number of processes, which share the batches"):
        Trainer(config_from(given), tmp_path / "out").train(resume=True)


def test_a_resumed_run_saves_and_logs_as_often_as_is_asked_now(
    rows, tiny: str, tmp_path: Path
) -> None:
    """A checkpoint brought its own numbers back."""
    out = tmp_path / "out"
    step = {"objective": "regression", "data": {"kind": "sts", "rows": rows("sts")}}
    given = {
        "model": tiny,
        "device": "cpu",
        "keep_checkpoints": 20,
        "save_every": 5,
        "log_every": 5,
        "steps": [{**step, "max_updates": 20, "batch_size": 4}],
    }

    def stop(entry: Mapping[str, Any]) -> None:
        if entry["update"] == 10:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Trainer(config_from(given), out).train(on_log=stop)
    updates = []
    again = config_from({**given, "save_every": 2, "log_every": 3})
    Trainer(again, out).train(resume=True, on_log=lambda entry: updates.append(entry["update"]))
    assert updates == [6, 9, 12, 15, 18, 20]


def in_two_processes(config: str, folder: Path, *words: str) -> str:
    """Torchrun over two processes on the CPU, into the folder's `out`; what they print."""
    (folder / "config.toml").write_text(config, encoding="utf-8")
    code = "from sbert_retriever import Trainer\nTrainer('config.toml', 'out').train()\n"
    (folder / "run.py").write_text(code, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", *(words or RUN)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.full
def test_the_command_in_two_processes_prints_one_report(rows, tiny: str, tmp_path: Path) -> None:
    data = "".join(json.dumps(row) + "\n" for row in rows("sts"))
    (tmp_path / "sts.jsonl").write_text(data, encoding="utf-8")
    step = '[[steps]]\nobjective = "regression"\nmax_updates = 2\nbatch_size = 4\n'
    files = 'data = { kind = "sts", files = ["sts.jsonl"] }\n'
    words = ("-m", "sbert_retriever", "train", "config.toml", "--output", "out", "--json")
    whole = f'model = {json.dumps(tiny)}\ndevice = "cpu"\n{step}{files}'
    printed = in_two_processes(whole, tmp_path, *words)
    assert json.loads(printed)["steps"][0]["updates"] == 2


@pytest.mark.full
def test_two_processes_share_the_batches(rows, tiny: str, tmp_path: Path) -> None:
    """Half as many updates an epoch, one model."""
    data = "".join(json.dumps(row) + "\n" for row in rows("pairs"))
    (tmp_path / "pairs.jsonl").write_text(data, encoding="utf-8")
    step = 'objective = "in-batch"\nbatch_size = 4\n'
    files = '[[steps.data]]\nkind = "pairs"\nfiles = ["pairs.jsonl"]\n'
    dev = f"[dev]\n{files.partition(chr(10))[2]}keep_best = true\n"
    whole = f'model = {json.dumps(tiny)}\ndevice = "cpu"\n[[steps]]\n{step}{files}{dev}'
    in_two_processes(whole, tmp_path)
    report = json.loads((tmp_path / "out/checkpoints/1-train/done.json").read_text("utf-8"))
    assert report["updates"] == 3
    assert [update for update, _ in report["dev"]["curve"]] == [0, 3]
    lines = (tmp_path / "out/training.jsonl").read_text("utf-8").splitlines()
    assert [e["update"] for e in map(json.loads, lines) if "loss" not in e] == [0, 3]
    assert BiEncoder.load(tmp_path / "out", device="cpu").dim == 32


@pytest.mark.full
def test_two_processes_begin_the_second_step_with_the_first_one_s_model(
    rows, tiny: str, tmp_path: Path
) -> None:
    """The labels change, so both read the folder, which only one of them writes."""
    steps = ""
    for kind, objective in (("nli", "pair-classification"), ("sts", "pair-regression")):
        data = "".join(json.dumps(row) + "\n" for row in rows(kind))
        (tmp_path / f"{kind}.jsonl").write_text(data, encoding="utf-8")
        steps += f'[[steps]]\nname = "{kind}"\nobjective = "{objective}"\nbatch_size = 4\n'
        steps += f'data = {{ kind = "{kind}", files = ["{kind}.jsonl"] }}\n'
    whole = f'model = {json.dumps(tiny)}\nkind = "cross-encoder"\ndevice = "cpu"\n{steps}'
    in_two_processes(whole, tmp_path)
    assert CrossEncoder.load(tmp_path / "out", device="cpu").labels == ("score",)
