"""The front of training: a configuration in, a model's folder out, step after step."""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from time import perf_counter
from typing import Any

from sbert_retriever.counting import counted
from sbert_retriever.errors import ReadError
from sbert_retriever.training.collating import Collate, CollatePairs, CollateTexts
from sbert_retriever.training.config import TrainConfig, TrainStep
from sbert_retriever.training.config_file import read_config
from sbert_retriever.training.data import TrainData
from sbert_retriever.training.dev import TrainDev
from sbert_retriever.training.development import DevReport, StepDev, read_measure
from sbert_retriever.training.learning import learning_of
from sbert_retriever.training.loop import Loop, OnLog, arguments_of, check_reports
from sbert_retriever.training.models import (
    Model,
    PairModel,
    check_products,
    check_widths,
    load_model,
)
from sbert_retriever.training.progress import Progress, processes
from sbert_retriever.training.readers.examples import Example, Labels, read_examples
from sbert_retriever.training.sampling import Batches
from sbert_retriever.training.saving import save_model
from sbert_retriever.training.teachers import check_teacher, taught
from sbert_retriever.training.views import Examples


@dataclass(frozen=True, kw_only=True)
class StepReport:
    """What a step did.

    Args:
        name: Of the step.
        examples: How many there were.
        updates: Of the weights.
        seconds: How long it took, in this run; 0 where an earlier run had done it.
        first_loss: Of the first update.
        last_loss: Mean over the updates since the log's last entry but one.
        dev: What was measured on the development set; None where nothing was.
    """

    name: str
    examples: int
    updates: int
    seconds: float
    first_loss: float
    last_loss: float
    dev: DevReport | None = None


@dataclass(frozen=True, kw_only=True)
class TrainReport:
    """What a run did.

    Args:
        folder: The model's.
        steps: In order.
    """

    folder: str
    steps: tuple[StepReport, ...]


class Trainer:
    """Trains a model as a configuration says. All data is read and checked before a model is.

    Args:
        config: What to do, or the path of a TOML file that says it.
        output: The folder for the model, its checkpoints (`checkpoints/`) and its log
            (`training.jsonl`).
        data: The folder where relative paths of data start; None is that of the TOML file, or
            the current one.

    Raises:
        ReadError: A file of data is absent or holds something else, with file and line.
        InputError: The configuration is wrong.
        MissingExtraError: accelerate is not installed.
    """

    def __init__(
        self,
        config: TrainConfig | str | os.PathLike[str],
        output: str | os.PathLike[str],
        *,
        data: str | os.PathLike[str] | None = None,
    ) -> None:
        beside = Path() if isinstance(config, TrainConfig) else Path(config).expanduser().parent
        self.config = config if isinstance(config, TrainConfig) else read_config(Path(config))
        self.output = Path(output).expanduser()
        check_reports(self.config.report_to)
        folder = beside if data is None else Path(data).expanduser()
        self._examples = {step.name: _read(step, folder) for step in self.config.steps}
        dev, kind = self.config.dev, self.config.kind
        self._measure = None if dev is None else read_measure(dev, kind=kind, folder=folder)
        read = None if dev is None else read_examples(dev.data, folder=folder, negatives=None)
        self._dev_digest = None if read is None else _digest(read)

    @property
    def counts(self) -> dict[str, int]:
        """How many examples each step has, by its name."""
        return {name: len(examples) for name, examples in self._examples.items()}

    def train(self, *, resume: bool = False, on_log: OnLog | None = None) -> TrainReport:
        """Train, and write the model.

        Args:
            resume: Go on with a run that was stopped: from the last checkpoint of the step it was
                in. A run that is over is left as it is.
            on_log: Called with each entry of the log: step, update, updates, epoch, and either
                loss, learning_rate, grad_norm (None where it is infinite) or what was measured
                ("eval_spearman_cosine").

        Raises:
            InputError: The folder holds a run already and `resume` is False, or holds another
                run than this one; or another process trains into it.
            ModelError: The model cannot be had, or the loss is not finite.
        """
        progress = Progress(self.output, self._description())
        with progress.held(resume=resume):
            progress.open(resume=resume)
            reports = self._steps(progress, on_log)
            progress.close()
        return TrainReport(folder=str(self.output), steps=tuple(reports))

    def _steps(self, progress: Progress, on_log: OnLog | None) -> list[StepReport]:
        """Every step that is not over yet; the reports of all."""
        model: Model | None = None
        reports = []
        for number, step in enumerate(self.config.steps):
            done = progress.finished(number, step.name)
            if done is not None:
                reports.append(_reported(done))
                continue
            first = model is None
            model = self._start(step, model, progress.last_model(number))
            if first:
                # All of them: a later one must not be refused when hours are spent.
                for later in self.config.steps[number:]:
                    _check_step(later, model, device=self.config.device)
            report = self._step(number, step, model, progress, on_log)
            reports.append(report)
        return reports

    def _start(self, step: TrainStep, model: Model | None, saved: Path | None) -> Model:
        """The model a step begins with: the last step's, from memory or from disk."""
        labels = getattr(step.objective, "outputs", ())
        fits = model is not None and getattr(model, "labels", labels) == labels
        if model is not None and fits:
            return model
        _fix_seed(self.config.seed)
        return load_model(self.config, labels=labels, saved=saved)

    def _step(
        self, number: int, step: TrainStep, model: Model, progress: Progress, on_log: OnLog | None
    ) -> StepReport:
        begun = perf_counter()
        examples = taught(self._examples[step.name], step, model, device=self.config.device)
        _fix_seed(self.config.seed)
        folder = progress.checkpoints(number, step.name)
        dev = self._dev(step, model, progress, number)
        loop = Loop(
            learning_of(step, model),
            arguments_of(self.config, step, folder),
            batches=self._batches(step, examples),
            collate=_collate(step, model),
            on_log=progress.logger(step.name, on_log),
            dev=dev,
        )
        last = progress.last_checkpoint(number, step.name)
        loop.train(resume_from_checkpoint=str(last) if last else None)
        # One process has written the best model that all of them read.
        loop.accelerator.wait_for_everyone()
        losses = [entry["loss"] for entry in loop.state.log_history if "loss" in entry]
        report = StepReport(
            name=step.name,
            examples=len(examples),
            updates=loop.state.global_step,
            seconds=round(perf_counter() - begun, 1),
            first_loss=losses[0],
            last_loss=losses[-1],
            dev=None if dev is None else dev.finish(loop.state.log_history),
        )
        loop.accelerator.wait_for_everyone()
        progress.finish(number, step.name, asdict(report), save=lambda f: save_model(model, f))
        # One process has written the model that the others may load for the next step.
        loop.accelerator.wait_for_everyone()
        return report

    def _dev(
        self, step: TrainStep, model: Model, progress: Progress, number: int
    ) -> StepDev | None:
        dev = self.config.dev
        if dev is None or self._measure is None or not dev.measures(step.name):
            return None
        return StepDev(
            self._measure,
            dev,
            kind=self.config.kind,
            model=model,
            best=progress.best(number, step.name),
            writes=progress.writes,
        )

    def _batches(self, step: TrainStep, examples: list[Example]) -> Batches:
        seed = self.config.seed
        return Batches(
            Examples(examples, view=step.view, crop=step.crop, seed=seed),
            batch_size=step.batch_size,
            seed=seed,
            smart=step.smart_batching,
            distinct=step.objective.name == "in-batch",
            by_label=step.objective.name == "batch-triplet",
        )

    def _description(self) -> Mapping[str, Any]:
        """What makes two runs the same, as JSON keeps it."""
        plain = {f.name: getattr(self.config, f.name) for f in fields(self.config)}
        steps = [_described(step) for step in self.config.steps]
        examples = {name: _digest(found) for name, found in self._examples.items()}
        dev = _described_dev(self.config.dev)
        told = {"examples": examples, "dev_examples": self._dev_digest}
        described = {**plain, "steps": steps, "dev": dev, **told, "processes": processes()}
        kept: Mapping[str, Any] = json.loads(json.dumps(described, default=dict))
        return kept


def _check_step(step: TrainStep, model: Model, *, device: str) -> None:
    """Refuse a step that the model cannot take, before any is trained.

    Raises:
        InputError: Its widths, its products or its teacher do not go with the model.
        ModelError: Its teacher cannot be had.
    """
    check_widths(step.matryoshka, model)
    check_products(step.objective, model)
    check_teacher(step, model, device=device)


def _described(step: TrainStep) -> dict[str, Any]:
    """A step as JSON keeps it; of rows, which may be many, a hash."""
    plain = {f.name: getattr(step, f.name) for f in fields(step)}
    objective = {"name": step.objective.name, **asdict(step.objective)}
    data = [_described_data(data) for data in step.data]
    return {**plain, "objective": objective, "data": data}


def _described_data(data: TrainData) -> dict[str, Any]:
    return {f.name: getattr(data, f.name) for f in fields(data)} | {"rows": _hash(data.rows)}


def _described_dev(dev: TrainDev | None) -> dict[str, Any] | None:
    if dev is None:
        return None
    return {f.name: getattr(dev, f.name) for f in fields(dev)} | {"data": _described_data(dev.data)}


def _digest(examples: Sequence[Example]) -> str:
    found = hashlib.sha256()
    for example in examples:
        found.update(repr((example.texts, example.target)).encode())
    return found.hexdigest()[:16]


def _reported(done: Mapping[str, Any]) -> StepReport:
    """A step's report as it was before JSON had it."""
    dev = done.get("dev")
    if dev is None:
        return StepReport(**done)
    curve = tuple((update, value) for update, value in dev["curve"])
    report = DevReport(**{**dev, "curve": curve, "best": tuple(dev["best"])})
    return StepReport(**{**done, "dev": report})


def _hash(rows: Sequence[Mapping[str, Any]]) -> str | None:
    if not rows:
        return None
    text = json.dumps([dict(row) for row in rows], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _read(step: TrainStep, folder: Path) -> list[Example]:
    # One numbering for all of a step's data: each by itself would begin at 0 again.
    labels = Labels(getattr(step.objective, "labels", None))
    negatives = step.negatives
    found = [
        example
        for data in step.data
        for example in read_examples(data, folder=folder, labels=labels, negatives=negatives)
    ]
    if step.objective.name == "batch-triplet":
        _check_triplets(step, found)
    return found


def _check_triplets(step: TrainStep, examples: Sequence[Example]) -> None:
    """Refuse labels of which no triplet can be made: an anchor, its like, and another.

    Raises:
        ReadError: All have one label, or each its own.
    """
    counts = Counter(example.target for example in examples)
    if len(counts) < 2 or max(counts.values()) < 2:
        raise ReadError(
            f"step {step.name!r}: {counted(len(examples), 'example')} with "
            f"{counted(len(counts), 'label')}, expected two labels or more, and of one of them two "
            "texts: no triplet can be made of these"
        )


def _collate(step: TrainStep, model: Model) -> Collate:
    if not isinstance(model, PairModel):
        return CollateTexts(model, step.objective.name)
    graded = step.objective.name == "pair-binary" and any(d.kind != "sts" for d in step.data)
    return CollatePairs(model, graded=graded)


def _fix_seed(seed: int) -> None:
    from transformers import set_seed

    set_seed(seed)
