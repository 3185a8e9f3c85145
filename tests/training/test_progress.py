"""What a run finds of itself when it goes on, on folders written by hand."""

from __future__ import annotations

import json
import math
from contextlib import nullcontext
from pathlib import Path

import portalocker
import pytest

from sbert_retriever.errors import InputError
from sbert_retriever.training.progress import Progress

CONFIG = {"seed": 0, "keep_checkpoints": 2, "steps": [{"name": "nli"}, {"name": "sts"}]}


def begun(folder: Path, **changes: object) -> Progress:
    """A run that was begun with `CONFIG` and is gone on with, perhaps with changes."""
    Progress(folder, CONFIG).open(resume=False)
    return Progress(folder, {**CONFIG, **changes})


def checkpoint(folder: Path, update: int, state: str) -> Path:
    place = folder / f"checkpoint-{update}"
    place.mkdir(parents=True)
    (place / "trainer_state.json").write_text(state, encoding="utf-8")
    return place


@pytest.mark.parametrize("text", ['{"mine": 1}', '{"config": "mine"}', "[]"])
def test_a_training_json_of_something_else(tmp_path: Path, text: str) -> None:
    (tmp_path / "training.json").write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=r"training\.json (is not of a training run|holds list)"):
        Progress(tmp_path, CONFIG).open(resume=True)


def test_a_checkpoint_half_written_is_passed_over_for_the_one_before(tmp_path: Path) -> None:
    run = begun(tmp_path / "run")
    place = run.checkpoints(0, "nli")
    assert run.last_checkpoint(0, "nli") is None
    earlier = checkpoint(place, 90, '{"global_step": 90}')
    checkpoint(place, 100, '{"global_step": 1')
    checkpoint(place, 110, "")
    (place / "checkpoint-120").mkdir()
    assert run.last_checkpoint(0, "nli") == earlier


def test_checkpoints_of_a_step_that_was_over_go(tmp_path: Path) -> None:
    """The run was killed between done.json and the end of the tidying."""
    run = begun(tmp_path / "run")
    over, going_on = run.checkpoints(0, "nli"), run.checkpoints(1, "sts")
    left = checkpoint(over, 10, "{}")
    halves = [over / "best.pt", over / "best.tmp"]
    for half in halves:
        half.write_bytes(b"weights")
    (over / "done.json").write_text(json.dumps({"updates": 10}), encoding="utf-8")
    kept = checkpoint(going_on, 10, "{}")
    run.open(resume=True)
    assert not left.exists()
    assert not any(half.exists() for half in halves)
    assert (over / "done.json").is_file()
    assert kept.is_dir()


def test_a_log_that_cannot_be_written_anew_stays_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run is killed, or the disk is full, while entries after the checkpoint are dropped."""
    run = begun(tmp_path / "run")
    checkpoint(run.checkpoints(0, "nli"), 10, "{}")
    log = tmp_path / "run" / "training.jsonl"
    entries = "".join(json.dumps({"step": "nli", "update": n}) + "\n" for n in (5, 10, 15))
    log.write_text(entries, encoding="utf-8")

    def full(path: Path, target: Path) -> Path:
        raise OSError("no space left")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", full)
        with pytest.raises(OSError, match="no space left"):
            run.open(resume=True)
    assert log.read_text(encoding="utf-8") == entries
    run.open(resume=True)
    assert [json.loads(line)["update"] for line in log.read_text("utf-8").splitlines()] == [5, 10]


def test_one_process_at_a_time_trains_into_a_folder(tmp_path: Path) -> None:
    """The second one would cut the first one's log, and both would write its checkpoints."""
    run = begun(tmp_path / "run")
    other = Progress(tmp_path / "run", CONFIG)
    with run.held(resume=True):
        for resume, words in ((True, "another process trains into"), (False, "already: resume")):
            with pytest.raises(InputError, match=words), other.held(resume=resume):
                pass
    with other.held(resume=True):
        other.open(resume=True)


@pytest.mark.parametrize(
    ("reason", "refused"),
    [
        pytest.param(BlockingIOError(11, "taken"), True, id="taken"),
        pytest.param(OSError(38, "no locks"), False, id="a file system without locks"),
    ],
)
def test_a_lock_by_an_earlier_portalocker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reason: OSError, refused: bool
) -> None:
    """Until 2.8 it had one error for a lock that another has and for one that cannot be had."""

    def lock(*given: object) -> None:
        try:
            raise reason
        except OSError as error:
            raise portalocker.LockException(error)  # noqa: B904  # as 2.7 does

    monkeypatch.setattr(portalocker, "lock", lock)
    expected = pytest.raises(InputError, match="another process") if refused else nullcontext()
    with expected, Progress(tmp_path / "run", CONFIG).held(resume=False):
        pass


@pytest.mark.parametrize("trained", ["training.jsonl", "checkpoints/1-nli/checkpoint-5/x"])
def test_a_failed_run_of_which_something_is_there_stays(tmp_path: Path, trained: str) -> None:
    made = tmp_path / "run" / trained

    def fail() -> None:
        run = Progress(tmp_path / "run", CONFIG)
        with run.held(resume=False):
            run.open(resume=False)
            made.parent.mkdir(parents=True, exist_ok=True)
            made.touch()
            raise OSError("full")

    with pytest.raises(OSError, match="full"):
        fail()
    assert made.exists()
    with pytest.raises(InputError, match="holds a training run already"):
        Progress(tmp_path / "run", CONFIG).open(resume=False)


def test_a_folder_of_something_else_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine", encoding="utf-8")
    progress = Progress(tmp_path, CONFIG)
    with pytest.raises(InputError, match="is not empty"), progress.held(resume=False):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_run_that_was_killed_as_it_began_begins_again(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with Progress(folder, CONFIG).held(resume=False):
        (folder / "training.tmp").write_text('{"con', encoding="utf-8")
    with Progress(folder, CONFIG).held(resume=True):
        Progress(folder, CONFIG).open(resume=True)
    assert json.loads((folder / "training.json").read_text("utf-8"))["config"] == CONFIG


def test_a_run_that_was_begun_before_the_data_was_told_is_gone_on_with(tmp_path: Path) -> None:
    begun(tmp_path / "run", examples={"nli": "a1", "sts": "b2"}).open(resume=True)


def test_how_many_checkpoints_are_kept_may_change(tmp_path: Path) -> None:
    begun(tmp_path / "run", keep_checkpoints=9).open(resume=True)
    with pytest.raises(InputError, match="another seed"):
        begun(tmp_path / "other", seed=1).open(resume=True)


def test_a_number_that_is_none_is_null_in_the_log(tmp_path: Path) -> None:
    """float16's first updates overflow: JSON has no Infinity."""
    progress = Progress(tmp_path, {"steps": []})
    progress.logger("nli", None)({"update": 1, "grad_norm": math.inf, "loss": 0.5})
    line = (tmp_path / "training.jsonl").read_text()
    assert line == '{"step": "nli", "update": 1, "grad_norm": null, "loss": 0.5}\n'
