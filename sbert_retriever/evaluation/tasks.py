"""The tasks by name. A plan reads the data, so that bad data is seen before a model is loaded.

| task | measured | of |
|---|---|---|
| `stsb`, `sts12` ... `sts16`, `sick`; `sts`, all seven | correlations | either |
| `transfer` | classifiers on frozen vectors | bi-encoders |
| `argument` | correlations within and across topics | either |
| `triplet` | accuracy | bi-encoders |
| `retrieval` | rankings by exact search, a live collection, or a TREC run | bi-encoders |
| `rerank` | rankings of a first stage's candidates | cross-encoders |
| `nli`, `classification` | labels of pairs | cross-encoders |

Two encoders, one for queries and one for passages, are measured by `retrieval` alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, Literal, TypeAlias

from sbert_retriever.encoder.bi_encoder import BiEncoder
from sbert_retriever.encoder.cross_encoder import CrossEncoder
from sbert_retriever.encoder.two_encoders import TwoEncoders
from sbert_retriever.errors import InputError, ReadError
from sbert_retriever.evaluation.arguments import measure_arguments, read_arguments
from sbert_retriever.evaluation.classifier import Protocol
from sbert_retriever.evaluation.collections import (
    TestCollection,
    collection_of_files,
    find_collections,
)
from sbert_retriever.evaluation.needs import Need, check_installed
from sbert_retriever.evaluation.pair_labels import (
    measure_labels,
    read_labelled,
    read_nli,
    read_paraphrases,
)
from sbert_retriever.evaluation.read_ranking import read_run
from sbert_retriever.evaluation.reranking import first_rankings, measure_reranking
from sbert_retriever.evaluation.results import SetResult, TaskResult
from sbert_retriever.evaluation.retrieval import (
    MEASURES,
    Rankings,
    check_run,
    checked_measures,
    checked_own,
    cut_run,
    judged,
    measure_live,
    measure_retrieval,
)
from sbert_retriever.evaluation.senteval import TRANSFER_TASKS, read_transfer
from sbert_retriever.evaluation.sts import measure_sts
from sbert_retriever.evaluation.sts_sets import STS_TASKS, read_sts
from sbert_retriever.evaluation.transfer_tasks import measure_transfer
from sbert_retriever.evaluation.triplets import measure_triplets, read_triplets, scifact_triplets
from sbert_retriever.retriever import Retriever
from sbert_retriever.types import Encoder, Scorer

TASKS = (
    *STS_TASKS,
    "sts",
    "transfer",
    "argument",
    "triplet",
    "retrieval",
    "rerank",
    "nli",
    "classification",
)
_LABELLED = ("nli", "classification")
_RANKED = ("retrieval", "rerank")
_ONLY_OF = {
    "language": ("stsb", "sts"),
    "sets": ("transfer", *_RANKED),
    "split": ("stsb", "sick", "triplet", *_RANKED),
    "queries": _RANKED,
    "qrels": _RANKED,
    "corpus": _RANKED,
    "measures": _RANKED,
    "depth": _RANKED,
    "candidates": ("rerank",),
    "first_stage": ("rerank",),
    "ignore_identical_ids": _RANKED,
    "labels": _LABELLED,
    "most": ("triplet",),
}
"""Settings of a request that say nothing to other tasks."""
Kind: TypeAlias = Literal["bi-encoder", "cross-encoder", "either"]
Model: TypeAlias = Encoder | CrossEncoder | Retriever | Path
"""An encoder, a cross-encoder; for retrieval also an open collection, or a TREC run."""
Part: TypeAlias = Callable[[Any], Iterable[SetResult]]
"""Measures a model on one set or several."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """What is to be measured, on what.

    Args:
        task: Of `TASKS`.
        data: A folder of data sets, or the folder or file of one.
        language: Of STSbenchmark.
        sets: Names of the sets or collections that are wanted; none means all.
        split: Of judgements, triplets, `stsb` and `sick`.
        queries: With `qrels`: a file, in the place of a folder.
        qrels: With `queries`: a file.
        corpus: With those: a BEIR corpus.jsonl; None where a live collection has the passages.
        measures: Of rankings, the first being the headline.
        depth: How many passages a question gets.
        candidates: How many of them a cross-encoder scores.
        first_stage: Gives the candidates: a bi-encoder, or a TREC run.
        ignore_identical_ids: Whether a passage with the question's own id does not count, as in
            BEIR's own evaluation.
        labels: What a cross-encoder's labels are called in the data, in its own order.
        protocol: Folds and seed.
        most: Only so many triplets.
    """

    task: str
    data: Path | None = None
    language: str = "en"
    sets: tuple[str, ...] = ()
    split: str = "test"
    queries: Path | None = None
    qrels: Path | None = None
    corpus: Path | None = None
    measures: tuple[str, ...] = MEASURES
    depth: int = 100
    candidates: int = 25
    first_stage: Encoder | Path | None = None
    ignore_identical_ids: bool = False
    labels: tuple[str, ...] | None = None
    protocol: Protocol = field(default_factory=Protocol)
    most: int | None = None

    def __post_init__(self) -> None:
        if self.task not in TASKS:
            raise InputError(f"no task {self.task!r}, expected one of {', '.join(TASKS)}")
        for name in ("depth", "candidates", "most"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InputError(f"{name} is {value}, expected 1 or more")
        for given in fields(self):
            tasks = _ONLY_OF.get(given.name, TASKS)
            if self.task not in tasks and getattr(self, given.name) != given.default:
                raise InputError(
                    f"{given.name} is for {', '.join(tasks)}, and the task is {self.task}: leave "
                    "it out"
                )

    @property
    def folder(self) -> Path:
        """The data.

        Raises:
            InputError: None was given.
            ReadError: It is not there.
        """
        if self.data is None:
            raise InputError(f"the task {self.task} needs data: give the folder of the data sets")
        if not self.data.exists():
            raise ReadError(f"{self.data} is not there: give the folder of the data sets")
        return self.data


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A task whose data is read.

    Args:
        task: Its name.
        takes: Which kind of model.
        parts: One for each set, or for several that are measured together.
        averaged: Whether the mean over the sets says anything.
        facts: What a reader of the result should know.
    """

    task: str
    takes: Kind
    parts: tuple[Part, ...]
    averaged: bool = True
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def all_labels(self) -> bool:
        """Whether a cross-encoder is measured by all of its labels, not by the score of one."""
        return self.task in _LABELLED

    def run(
        self, model: Model, *, name: str, on_set: Callable[[SetResult], None] | None = None
    ) -> TaskResult:
        """Measure a model.

        Args:
            model: Of the kind that the task takes.
            name: As it was asked for.
            on_set: Called with each set's result, as soon as it is there.

        Raises:
            InputError: It is of another kind.
        """
        self._check(model, name)
        found = []
        for part in self.parts:
            for one in part(model):
                found.append(one)
                if on_set is not None:
                    on_set(one)
        return TaskResult(
            task=self.task, model=name, sets=found, averaged=self.averaged, facts=self.facts
        )

    def _check(self, model: Model, name: str) -> None:
        if isinstance(model, TwoEncoders) and self.task != "retrieval":
            raise InputError(
                f"{name} holds an encoder for queries and one for passages, which the task "
                f"retrieval alone measures, and the task is {self.task}"
            )
        kinds = {"bi-encoder": CrossEncoder, "cross-encoder": BiEncoder}
        wrong = kinds.get(self.takes)
        if wrong is not None and isinstance(model, wrong):
            other = next(kind for kind in kinds if kind != self.takes)
            raise InputError(
                f"{name} is a {other}, and the task {self.task} measures a {self.takes}"
            )


def make_plan(request: Request) -> Plan:
    """Read the data of a task.

    Raises:
        InputError: A setting does not fit.
        ReadError: The data is missing, or a line of it does not fit.
        MissingExtraError: What the task is measured with is not installed.
    """
    if request.task in STS_TASKS or request.task == "sts":
        check_installed("scipy")
        return _sts(request)
    check_installed(*_NEEDS.get(request.task, ()))
    return _PLANS[request.task](request)


def _sts(request: Request) -> Plan:
    names = STS_TASKS if request.task == "sts" else (request.task,)
    split = request.split
    sets = [
        read_sts(request.folder, name, language=request.language, split=split) for name in names
    ]
    if split != "test":
        sets = [replace(pairs, name=f"{pairs.name}-{split}") for pairs in sets]
    return Plan(
        task=request.task,
        takes="either",
        parts=tuple(_single(partial(measure_sts, pairs=pairs)) for pairs in sets),
        facts={"language": request.language},
    )


def _single(measure: Callable[[Any], SetResult]) -> Part:
    """A part of one set."""
    return lambda model: [measure(model)]


def _transfer(request: Request) -> Plan:
    how = request.protocol
    names = _wanted(request, TRANSFER_TASKS)
    sets = [read_transfer(request.folder, name) for name in names]
    return Plan(
        task=request.task,
        takes="bi-encoder",
        parts=tuple(
            _single(partial(measure_transfer, examples=given, protocol=how)) for given in sets
        ),
        facts={"folds": how.folds, "inner_folds": how.inner_folds, "seed": how.seed},
    )


def _argument(request: Request) -> Plan:
    how = request.protocol
    arguments = read_arguments(request.folder)
    measure = partial(measure_arguments, arguments=arguments, folds=how.folds, seed=how.seed)
    return Plan(
        task=request.task,
        takes="either",
        parts=(measure,),
        averaged=False,
        facts={"folds": how.folds, "seed": how.seed},
    )


def _triplet(request: Request) -> Plan:
    seed = request.protocol.seed
    if request.folder.is_file():
        _check_silent(request, ("split", "most"), "the triplets are those of a file")
        given = read_triplets(request.folder)
    else:
        given = scifact_triplets(request.folder, split=request.split, seed=seed, most=request.most)
    return Plan(
        task=request.task,
        takes="bi-encoder",
        parts=(_single(partial(measure_triplets, triplets=given)),),
        facts={"seed": seed},
    )


def _retrieval(request: Request) -> Plan:
    measures = checked_measures(request.measures, request.depth)
    measure = partial(
        _retrieved,
        measures=measures,
        depth=request.depth,
        ignore_identical_ids=request.ignore_identical_ids,
    )
    return Plan(
        task=request.task,
        takes="bi-encoder",
        parts=tuple(_single(partial(measure, given=given)) for given in _collections(request)),
        facts={"depth": request.depth, **_ignored(request)},
    )


def _ignored(request: Request) -> dict[str, bool]:
    return {"ignore_identical_ids": True} if request.ignore_identical_ids else {}


def _retrieved(
    model: Model,
    given: TestCollection,
    *,
    measures: list[str],
    depth: int,
    ignore_identical_ids: bool,
) -> SetResult:
    if isinstance(model, Path):
        run = read_run(model)
        check_run(run, given)
        if ignore_identical_ids:
            checked_own(given)
        cut = cut_run(run, depth, ignore_identical_ids=ignore_identical_ids)
        return judged(given, cut, measures)
    how: dict[str, Any] = {
        "measures": measures,
        "depth": depth,
        "ignore_identical_ids": ignore_identical_ids,
    }
    if isinstance(model, Retriever):
        return measure_live(model, given, **how)
    if given.passages is None:
        raise InputError("there are no passages to search: give a corpus, or a live collection")
    if not isinstance(model, Encoder):
        raise InputError(f"{type(model).__name__} encodes no texts, expected a bi-encoder")
    return measure_retrieval(model, given, **how)


def _collections(request: Request) -> list[TestCollection]:
    if (request.queries is None) != (request.qrels is None):
        raise InputError("queries and qrels go together: give both, or a folder that has them")
    if request.corpus is not None and request.queries is None:
        raise InputError("a corpus goes with queries and qrels: give those too, or a folder alone")
    if request.queries is not None and request.qrels is not None:
        _check_silent(request, ("data", "sets", "split"), "queries and qrels are given as files")
        return [collection_of_files(request.queries, request.qrels, request.corpus)]
    return find_collections(request.folder, split=request.split, choose=partial(_wanted, request))


def _check_silent(request: Request, names: Sequence[str], why: str) -> None:
    """Refuse settings that say nothing to what is measured.

    Raises:
        InputError: One was given.
    """
    defaults = {given.name: given.default for given in fields(request)}
    for name in names:
        if getattr(request, name) != defaults[name]:
            raise InputError(f"{name} was given, and {why}: leave it out")


def _wanted(request: Request, there: tuple[str, ...]) -> tuple[str, ...]:
    """Those of the sets that were asked for, in their usual order.

    Raises:
        InputError: One is not there.
    """
    folded = {name.casefold(): name for name in there}
    if unknown := [name for name in request.sets if name.casefold() not in folded]:
        raise InputError(f"no set {unknown[0]!r}, expected one of {', '.join(there)}")
    chosen = {folded[name.casefold()] for name in request.sets} or set(there)
    return tuple(name for name in there if name in chosen)


def _rerank(request: Request) -> Plan:
    if request.first_stage is None:
        raise InputError("reranking needs candidates: give a first stage, a bi-encoder or a run")
    measures = checked_measures(request.measures, request.depth)
    measure = partial(_reranked, measures=measures, candidates=request.candidates)
    parts = []
    for given in _collections(request):
        find = partial(
            first_rankings,
            request.first_stage,
            given,
            depth=request.depth,
            ignore_identical_ids=request.ignore_identical_ids,
        )
        # Kept: every model that is measured gets the same candidates, found once.
        parts.append(partial(measure, given=given, found=cache(find)))
    return Plan(
        task=request.task,
        takes="cross-encoder",
        parts=tuple(parts),
        averaged=False,
        facts={"depth": request.depth, "candidates": request.candidates, **_ignored(request)},
    )


def _reranked(
    model: Scorer,
    given: TestCollection,
    found: Callable[[], tuple[Rankings, dict[str, str]]],
    *,
    measures: list[str],
    candidates: int,
) -> list[SetResult]:
    first, texts = found()
    return measure_reranking(model, given, first, texts, measures=measures, candidates=candidates)


def _labels(request: Request) -> Plan:
    if request.folder.is_file():
        sets = [read_labelled(request.folder)]
    elif request.task == "nli":
        sets = read_nli(request.folder)
    else:
        sets = [read_paraphrases(request.folder)]
    measure = partial(measure_labels, names=request.labels)
    return Plan(
        task=request.task,
        takes="cross-encoder",
        parts=tuple(_single(partial(measure, pairs=pairs)) for pairs in sets),
    )


_NEEDS: dict[str, tuple[Need, ...]] = {
    "transfer": ("sklearn",),
    "argument": ("sklearn", "scipy"),
    "retrieval": ("ir_measures",),
    "rerank": ("ir_measures",),
}
_PLANS: dict[str, Callable[[Request], Plan]] = {
    "transfer": _transfer,
    "argument": _argument,
    "triplet": _triplet,
    "retrieval": _retrieval,
    "rerank": _rerank,
    "nli": _labels,
    "classification": _labels,
}
