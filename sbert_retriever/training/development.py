"""Measuring a model while it is trained, by the evaluation's own measures, and keeping the best."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch

from sbert_retriever.errors import InputError
from sbert_retriever.evaluation.collections import TestCollection
from sbert_retriever.evaluation.pairs import ScoredPairs
from sbert_retriever.evaluation.ranking import foreign_measure
from sbert_retriever.evaluation.retrieval import measure_retrieval
from sbert_retriever.evaluation.similarity import correlations
from sbert_retriever.evaluation.sts import measure_sts
from sbert_retriever.training.dev import TrainDev
from sbert_retriever.training.kinds import ModelKind
from sbert_retriever.training.live import LiveEncoder, LiveScorer
from sbert_retriever.training.models import Model, PairModel, TextModel, TwoTowers
from sbert_retriever.training.readers.examples import Example, read_examples
from sbert_retriever.types import Encoder, Passage, Scorer

Measure = Callable[[Model], float]
_PREFIX = "eval_"
_DEPTH = 100


@dataclass(frozen=True, kw_only=True)
class DevReport:
    """How good a model was in a step.

    Args:
        figure: What was measured, such as "spearman_cosine".
        curve: (update, value), from before the first update to after the last.
        best: The highest of them, of equal ones the earliest.
        kept: Whether the step ended with that model.
    """

    figure: str
    curve: tuple[tuple[int, float], ...]
    best: tuple[int, float]
    kept: bool


def read_measure(dev: TrainDev, *, kind: ModelKind, folder: Path) -> Measure:
    """What measures a model on a development set, which is read and checked now.

    Args:
        dev: The set, and the measure.
        kind: Of the model.
        folder: Where relative paths start.

    Raises:
        ReadError: A file is absent or holds something else, with file and line.
        InputError: All scores of the set are the same.
        MissingExtraError: The measure needs a library that is not installed.
    """
    figure = dev.figure(kind)
    examples = read_examples(dev.data, folder=folder, negatives=None)
    if dev.ranks:
        collection = _collection(examples)
        foreign_measure(figure, collection.qrels)
        return lambda model: _ranked(model, collection, figure)
    pairs = _scored(examples)
    correlations(pairs.gold, np.array(pairs.gold))
    return lambda model: _correlation(model, pairs, figure)


def _scored(examples: Sequence[Example]) -> ScoredPairs:
    left, right = zip(*(example.texts for example in examples), strict=True)
    gold = tuple(float(cast(float, example.target)) for example in examples)
    return ScoredPairs("dev", left, right, gold)


def _collection(examples: Sequence[Example]) -> TestCollection:
    """Every text that is a passage somewhere; a query's positives are its answers."""
    queries: dict[str, str] = {}
    passages: dict[str, str] = {}
    qrels: dict[str, dict[str, int]] = {}
    for example in examples:
        query, *others = example.texts
        asked = queries.setdefault(query, f"q{len(queries)}")
        ids = [passages.setdefault(text, f"p{len(passages)}") for text in others]
        qrels.setdefault(asked, {})[ids[0]] = 1
    return TestCollection(
        "dev",
        {number: text for text, number in queries.items()},
        qrels,
        lambda: [Passage(number, text) for text, number in passages.items()],
    )


def _correlation(model: Model, pairs: ScoredPairs, figure: str) -> float:
    live: Encoder | Scorer
    live = LiveScorer(model) if isinstance(model, PairModel) else LiveEncoder(model)
    try:
        return measure_sts(live, pairs).figures[figure]
    except InputError:
        # The gold scores differ, so it is the model that finds all pairs alike: it ranks nothing.
        return 0.0


def _ranked(model: Model, collection: TestCollection, figure: str) -> float:
    depth = max(_DEPTH, int(figure.partition("@")[2] or 0))
    live = LiveEncoder(cast(TextModel | TwoTowers, model))
    return measure_retrieval(live, collection, measures=[figure], depth=depth).figures[figure]


class StepDev:
    """The development set over one step: measures, keeps the best model, reports.

    Args:
        measure: What measures a model.
        dev: How often, and whether the best is kept.
        kind: Of the model.
        model: What is trained.
        best: The file for the best model so far; one that a stopped run left is gone on with.
        writes: Whether this process writes it.
    """

    def __init__(
        self,
        measure: Measure,
        dev: TrainDev,
        *,
        kind: ModelKind,
        model: Model,
        best: Path,
        writes: bool,
    ) -> None:
        self.every = dev.every
        self._measure, self._model = measure, model
        self._figure, self._keeps = dev.figure(kind), dev.keep_best
        self._path, self._writes = best, writes
        self._best = _highest(_read(best)) if self._keeps and best.is_file() else None

    def measured(self, update: int) -> dict[str, float]:
        """The entry of the log for the model as it is after so many updates."""
        training = self._model.training
        self._model.eval()
        try:
            value = self._measure(self._model)
        finally:
            self._model.train(training)
        if self._keeps and (self._best is None or value > self._best[1]):
            self._best = (update, value)
            if self._writes:
                _write(self._path, {"update": update, "value": value}, self._model)
        return {f"{_PREFIX}{self._figure}": value}

    def finish(self, history: Sequence[Mapping[str, Any]]) -> DevReport:
        """The report; the model is the best one afterwards, if that is wanted.

        Args:
            history: Entries of transformers' log, all of the step's.
        """
        name = f"{_PREFIX}{self._figure}"
        curve = tuple((int(e["step"]), float(e[name])) for e in history if name in e)
        best = max(curve, key=lambda point: point[1])
        if self._keeps:
            # The file's: what was measured again after a stop may differ in the last digits.
            kept = _read(self._path)
            self._model.load_state_dict(kept["weights"])
            best = _highest(kept)
        return DevReport(figure=self._figure, curve=curve, best=best, kept=self._keeps)


def _highest(kept: Mapping[str, Any]) -> tuple[int, float]:
    return int(kept["update"]), float(kept["value"])


def _read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    return found


def _write(path: Path, facts: Mapping[str, Any], model: Model) -> None:
    """All or nothing, so that a kill leaves the best one before."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_suffix(".tmp")
    torch.save({**facts, "weights": model.state_dict()}, beside)
    beside.replace(path)
