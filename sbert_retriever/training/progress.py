"""What a run leaves on disk while it goes on, and how a stopped one is found again."""

from __future__ import annotations

import json
import math
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import portalocker

from sbert_retriever.errors import InputError

_RUN = "training.json"
_LOG = "training.jsonl"
_DONE = "done.json"
_BEST = "best.pt"
_LOCK = "training.lock"
_STATE = "trainer_state.json"
_MAY_CHANGE = ("device", "log_every", "save_every", "keep_checkpoints", "report_to")
"""Settings that a run may go on with another value of."""
_EXAMPLES = ("examples", "dev_examples")
"""Digests of what is learned from and measured on: files may change behind their names."""
_PROCESSES = "processes"
_IN_WORDS = {
    **dict.fromkeys(_EXAMPLES, "content of its data"),
    _PROCESSES: "number of processes, which share the batches",
}


class Progress:
    """The folder of a run.

    ```text
    training.json        the configuration, and whether the run is over
    training.jsonl       the log, an entry a line
    training.lock        held by the process that trains; a killed one holds nothing
    checkpoints/1-nli/   of step 1: checkpoint-500/ ... and best.pt, then model/ and done.json;
                         the last step's model is beside training.json
    ```

    Args:
        folder: Where.
        described: The run's configuration, as JSON keeps it.
    """

    def __init__(self, folder: Path, described: Mapping[str, Any]) -> None:
        self._folder = folder
        self._described = described
        self._is_new = False

    @property
    def writes(self) -> bool:
        """Whether this is the process that writes."""
        return is_first_process()

    @contextmanager
    def held(self, *, resume: bool) -> Iterator[None]:
        """Keep other processes out of the folder: two would write into each other's checkpoints.

        A run that fails before its first update, for want of its model perhaps, leaves the folder
        free for another one.

        Raises:
            InputError: Another one is in it, or `open` would refuse it.
        """
        if not self.writes:
            yield
            return
        self._before(resume=resume)
        self._folder.mkdir(parents=True, exist_ok=True)
        with (self._folder / _LOCK).open("a+", encoding="utf-8") as lock:
            try:
                portalocker.lock(lock, portalocker.LOCK_EX | portalocker.LOCK_NB)
            except portalocker.LockException as error:
                if _is_taken(error):
                    raise InputError(
                        f"another process trains into {self._folder}: wait until it is over, stop "
                        "it and resume, or name another folder"
                    ) from error
                # Else a file system without locks, as some of clusters are.
            try:
                yield
            except BaseException:
                self._undo()
                raise

    def open(self, *, resume: bool) -> None:
        """Begin, or go on.

        Raises:
            InputError: There is a run already, or another one, or something else.
        """
        if not self.writes:
            return
        before = self._before(resume=resume)
        if before is not None:
            self._check_same(before)
            self._drop_left_over()
            self._cut_log()
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        _write(self._folder / _RUN, {"config": self._described, "finished": False})
        self._is_new = True

    def _before(self, *, resume: bool) -> dict[str, Any] | None:
        """What the folder's run says of itself; None where there is none.

        Raises:
            InputError: There is one and it is not to be resumed, or there is something else.
        """
        before = _read(self._folder / _RUN)
        if before is not None and not resume:
            raise InputError(
                f"{self._folder} holds a training run already: resume it, or name another folder"
            )
        if before is None and self._folder.is_dir():
            left = {_LOCK, Path(_RUN).with_suffix(".tmp").name}  # of a run killed as it began
            if any(path.name not in left for path in self._folder.iterdir()):
                raise InputError(f"{self._folder} is not empty: name a new folder")
        return before

    def _undo(self) -> None:
        """Forget a run that was begun by this very call and of which nothing is there yet."""
        made = self._folder / "checkpoints"
        if self._is_new and not (self._folder / _LOG).exists() and not any(made.glob("*/*")):
            shutil.rmtree(made, ignore_errors=True)
            (self._folder / _RUN).unlink(missing_ok=True)

    def close(self) -> None:
        """The run is over."""
        if self.writes:
            _write(self._folder / _RUN, {"config": self._described, "finished": True})

    def checkpoints(self, number: int, name: str) -> Path:
        """Where a step's checkpoints go."""
        return self._folder / "checkpoints" / f"{number + 1}-{name}"

    def best(self, number: int, name: str) -> Path:
        """Where the best model of a step is kept while it goes on."""
        return self.checkpoints(number, name) / _BEST

    def last_checkpoint(self, number: int, name: str) -> Path | None:
        """The last whole checkpoint of a step."""
        found = self.checkpoints(number, name).glob("checkpoint-*")
        newest = sorted(found, key=lambda p: int(p.name.rpartition("-")[2]), reverse=True)
        return next((p for p in newest if _is_whole(p)), None)

    def finished(self, number: int, name: str) -> dict[str, Any] | None:
        """What a step that is over reported."""
        done = _read(self.checkpoints(number, name) / _DONE)
        return None if done is None else {**done, "seconds": 0.0}

    def finish(
        self, number: int, name: str, report: Mapping[str, Any], *, save: Callable[[Path], None]
    ) -> None:
        """A step is over: keep its model and what it reported, and no checkpoint.

        The last step's model is the run's, and goes into its folder.
        """
        if not self.writes:
            return
        folder = self.checkpoints(number, name)
        last = number + 1 == len(self._described["steps"])
        save(self._folder if last else folder / "model")
        _write(folder / _DONE, report)
        _drop_checkpoints(folder)

    def last_model(self, number: int) -> Path | None:
        """The model of the step before, as it was saved."""
        if number == 0:
            return None
        name = self._described["steps"][number - 1]["name"]
        return self.checkpoints(number - 1, name) / "model"

    def logger(
        self, step: str, on_log: Callable[[Mapping[str, Any]], None] | None
    ) -> Callable[[Mapping[str, Any]], None]:
        """What writes a step's entries into the log."""

        def log(entry: Mapping[str, Any]) -> None:
            # float16's first updates overflow on purpose, and JSON knows no infinity.
            whole = {"step": step, **{name: _finite(value) for name, value in entry.items()}}
            with (self._folder / _LOG).open("a", encoding="utf-8") as file:
                file.write(json.dumps(whole) + "\n")
            if on_log is not None:
                on_log(whole)

        return log

    def _check_same(self, run: Mapping[str, Any]) -> None:
        before = run.get("config")
        if not isinstance(before, Mapping):
            raise InputError(
                f"{self._folder / _RUN} is not of a training run of ours, which has a config: name "
                "another folder"
            )
        for name, ours in self._described.items():
            if name in (*_EXAMPLES, _PROCESSES) and name not in before:
                continue  # begun before this was kept
            if before.get(name) != ours and name not in _MAY_CHANGE:
                what = _IN_WORDS.get(name, name)
                raise InputError(
                    f"{self._folder} holds a run with another {what}: resume it with the "
                    "configuration that began it, or name another folder"
                )

    def _drop_left_over(self) -> None:
        """The checkpoints of steps that were over when the run was stopped."""
        for number, step in self._steps():
            if self.finished(number, step["name"]) is not None:
                _drop_checkpoints(self.checkpoints(number, step["name"]))

    def _cut_log(self) -> None:
        """Drop the entries after the last checkpoint: that part is done again."""
        path = self._folder / _LOG
        if not path.is_file():
            return
        kept: list[str] = []
        until = {step["name"]: self._until(n, step["name"]) for n, step in self._steps()}
        for line in path.read_text(encoding="utf-8").splitlines():
            entry = _entry(line)
            if entry is not None and entry["update"] <= until.get(entry["step"], 0):
                kept.append(line + "\n")
        _replace(path, "".join(kept))

    def _steps(self) -> list[tuple[int, Mapping[str, Any]]]:
        return list(enumerate(self._described["steps"]))

    def _until(self, number: int, name: str) -> float:
        if self.finished(number, name) is not None:
            return float("inf")
        last = self.last_checkpoint(number, name)
        # Before the first update there may be an entry too, which is made again.
        return int(last.name.rpartition("-")[2]) if last else -1


def _is_taken(error: portalocker.LockException) -> bool:
    """Whether a lock is another's; portalocker until 2.8 has one error for that and all others."""
    return isinstance(error, portalocker.AlreadyLocked) or isinstance(
        error.__context__, BlockingIOError
    )


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def is_first_process() -> bool:
    """Whether this is the process that writes and reports, of those that `torchrun` starts."""
    return int(os.environ.get("RANK", "0")) == 0


def processes() -> int:
    """How many processes `torchrun` has started."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def _is_whole(checkpoint: Path) -> bool:
    """Whether a checkpoint was written to its end: its state comes last, and in place."""
    try:
        return isinstance(json.loads((checkpoint / _STATE).read_text(encoding="utf-8")), dict)
    except (OSError, ValueError):
        return False


def _drop_checkpoints(folder: Path) -> None:
    # Of the best model a kill may have left a half that was being written, too.
    for best in folder.glob(f"{Path(_BEST).stem}.*"):
        best.unlink()
    for checkpoint in folder.glob("checkpoint-*"):
        shutil.rmtree(checkpoint)


def _entry(line: str) -> Mapping[str, Any] | None:
    """An entry of the log; None for a line that was cut off."""
    try:
        found: Mapping[str, Any] = json.loads(line)
    except ValueError:
        return None
    return found


def _read(path: Path) -> dict[str, Any] | None:
    if not path.is_file():
        return None
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InputError(f"{path} is damaged ({error}): name another folder") from error
    if not isinstance(found, dict):
        raise InputError(f"{path} holds {type(found).__name__}, expected an object: name another")
    return found


def _write(path: Path, value: object) -> None:
    _replace(path, json.dumps(value, indent=2) + "\n")


def _replace(path: Path, text: str) -> None:
    """All or nothing."""
    beside = path.with_suffix(".tmp")
    beside.write_text(text, encoding="utf-8")
    beside.replace(path)
