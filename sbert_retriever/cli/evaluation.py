"""`sbert-retriever evaluate`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sbert_retriever.cli import options
from sbert_retriever.cli.opening import NOBODY
from sbert_retriever.cli.output import printable, put, put_json, say
from sbert_retriever.errors import InputError
from sbert_retriever.types import DEFAULT_RERANKER

if TYPE_CHECKING:
    from sbert_retriever.types import Encoder

_FIRST_STAGE, _FOLDS, _INNER_FOLDS = "all-MiniLM-L6-v2", 10, 1


def _file(name: str, text: str) -> Any:
    return typer.Option(name, metavar="FILE", help=text, show_default=False)


def evaluate(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="A folder, a packaged name or a hub id; for retrieval also a TREC run.",
        ),
    ],
    task: Annotated[
        str,
        typer.Option(
            "--task",
            metavar="TASK",
            help="stsb, sts12 ... sts16, sick, sts (those seven), transfer, argument, triplet, "
            "retrieval, rerank, nli, classification.",
        ),
    ],
    data: Annotated[
        str | None,
        typer.Option(
            "--data",
            metavar="DIR",
            help="The folder of the data sets, or of one of them; a file of triplets or of "
            "labelled pairs.",
            show_default=False,
        ),
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(
            "--against",
            metavar="MODEL",
            help="Another model: is the difference more than luck?",
            show_default=False,
        ),
    ] = None,
    test: Annotated[
        str, typer.Option("--test", metavar="NAME", help="Of that: bootstrap or permutation.")
    ] = "bootstrap",
    draws: Annotated[
        int, typer.Option("--draws", metavar="N", help="Of that: how often items are drawn.")
    ] = 2000,
    language: Annotated[
        str, typer.Option("--language", metavar="CODE", help="Of stsb: en, de, es or fr.")
    ] = "en",
    sets: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME",
            help="Of transfer, retrieval and rerank: only this set; may be repeated.",
            show_default=False,
        ),
    ] = None,
    split: Annotated[
        str, typer.Option("--split", metavar="NAME", help="Of judgements, triplets, stsb and sick.")
    ] = "test",
    queries: Annotated[str | None, _file("--queries", "Questions, in the place of --data.")] = None,
    qrels: Annotated[
        str | None, _file("--qrels", "Their judgements: BEIR, TREC or JSON lines.")
    ] = None,
    corpus: Annotated[str | None, _file("--corpus", "The passages: BEIR's corpus.jsonl.")] = None,
    index: Annotated[
        str | None,
        typer.Option(
            "--index",
            metavar="LOCATION",
            help="Of retrieval: search this live collection instead of every passage.",
            show_default=False,
        ),
    ] = None,
    collection: options.Collection = "default",
    tenant: options.Tenant = None,
    api_key: options.ApiKey = None,
    measures: Annotated[
        str | None,
        typer.Option(
            "--measures",
            metavar="NAME,NAME",
            help="Of rankings, the first is compared: nDCG@10, nDCG_exp@10 (gains 2^grade - 1), "
            "MAP@100, MRR@10, recall@10, precision@10.",
            show_default=False,
        ),
    ] = None,
    depth: Annotated[
        int, typer.Option("--depth", metavar="N", help="Passages that a question gets.")
    ] = 100,
    ignore_identical_ids: Annotated[
        bool,
        typer.Option(
            "--ignore-identical-ids",
            help="Of retrieval and rerank: a passage with the question's own id does not count, "
            "as in BEIR's evaluation (ArguAna, Quora).",
        ),
    ] = False,
    first_stage: Annotated[
        str,
        typer.Option(
            "--first-stage", metavar="MODEL", help="Of rerank: a bi-encoder, or a TREC run."
        ),
    ] = _FIRST_STAGE,
    candidates: Annotated[
        int, typer.Option("--candidates", metavar="N", help="Of rerank: how many are scored.")
    ] = 25,
    cross_encoder: Annotated[
        str,
        typer.Option(
            "--cross-encoder",
            metavar="MODEL",
            help='Of argument: shown beside a bi-encoder; "none" leaves it out.',
        ),
    ] = DEFAULT_RERANKER,
    label: Annotated[
        str | None,
        typer.Option(
            "--label",
            metavar="NAME",
            help="Of a cross-encoder with several: the one that is the score.",
            show_default=False,
        ),
    ] = None,
    labels: Annotated[
        str | None,
        typer.Option(
            "--labels",
            metavar="NAME,NAME",
            help="Of nli and classification: what the model's labels are called in the data.",
            show_default=False,
        ),
    ] = None,
    folds: Annotated[
        int, typer.Option("--folds", metavar="N", help="Of transfer and argument.")
    ] = _FOLDS,
    inner_folds: Annotated[
        int,
        typer.Option(
            "--inner-folds",
            metavar="N",
            help="Of transfer: to choose the regularisation by; 1 holds out a fifth once.",
        ),
    ] = _INNER_FOLDS,
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="Of folds and draws.")] = 0,
    pooling: Annotated[
        str | None,
        typer.Option(
            "--pooling",
            metavar="NAME",
            help="mean, max, cls: makes a bi-encoder of any transformer.",
            show_default=False,
        ),
    ] = None,
    plot: Annotated[str | None, _file("--plot", "Draw the figures: .png, .svg or .pdf.")] = None,
    curve: Annotated[
        str | None,
        _file("--curve", "Draw the losses of the training run that MODEL, a folder, was made by."),
    ] = None,
    device: options.Device = "auto",
    dtype: options.Dtype = "float32",
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Measure a model on a task, alone or against another.

    Correlations, accuracies and F1 are times 100; measures of rankings are 0 to 1. The data is
    read before a model is loaded, but for the texts of a corpus.
    """
    from sbert_retriever.cli.measuring import Report, Runner
    from sbert_retriever.evaluation.classifier import Protocol
    from sbert_retriever.evaluation.models import ModelOptions
    from sbert_retriever.evaluation.plots import (
        check_drawing,
        read_history,
        write_learning_curve,
    )
    from sbert_retriever.evaluation.retrieval import MEASURES
    from sbert_retriever.evaluation.significance import check_comparison
    from sbert_retriever.evaluation.tasks import Request, make_plan

    how = ModelOptions(device=device, dtype=dtype, pooling=pooling)
    request = Request(
        task=task,
        data=_path(data),
        language=language,
        sets=tuple(sets or ()),
        split=split,
        queries=_path(queries),
        qrels=_path(qrels),
        corpus=_path(corpus),
        measures=MEASURES if measures is None else _words(measures),
        depth=depth,
        candidates=candidates,
        ignore_identical_ids=ignore_identical_ids,
        first_stage=_first_stage(first_stage, device, dtype) if task == "rerank" else None,
        labels=None if labels is None else _words(labels),
        protocol=Protocol(folds=folds, inner_folds=inner_folds, seed=seed),
    )
    _check_heard(task, "--first-stage", ("rerank",), given=first_stage != _FIRST_STAGE)
    _check_heard(task, "--cross-encoder", ("argument",), given=cross_encoder != DEFAULT_RERANKER)
    _check_heard(task, "--folds", ("transfer", "argument"), given=folds != _FOLDS)
    _check_heard(task, "--inner-folds", ("transfer",), given=inner_folds != _INNER_FOLDS)
    chosen = check_comparison(test, draws=draws)
    check_drawing(plot)
    check_drawing(curve)
    histories = {} if curve is None else {model: read_history(model)}
    plan = make_plan(request)
    live = {"collection": collection, "tenant": tenant, "api_key": api_key}
    runner = Runner(plan, how, label=label, index=index, live=live, quiet=quiet)
    found = [runner.measured(model)]
    if against is not None:
        found.append(runner.measured(against))
    if task == "argument" and not runner.saw_cross_encoder and cross_encoder != NOBODY:
        found.append(runner.measured(cross_encoder, beside=True))
    report = Report(found, compared=against is not None, test=chosen, draws=draws, seed=seed)
    if json:
        put_json(report.to_dict())
    else:
        put(printable(report.text()))
    if plot is not None:
        report.draw(plot)
        say(f"wrote {plot}")
    if curve is not None:
        write_learning_curve(histories, curve)
        say(f"wrote {curve}")


def _check_heard(task: str, option: str, tasks: tuple[str, ...], *, given: bool) -> None:
    """Refuse an option that says nothing to the task, as `Request` does with its own settings.

    Raises:
        InputError: It was given, and the task is none of its own.
    """
    if given and task not in tasks:
        raise InputError(
            f"{option} is for {', '.join(tasks)}, and the task is {task}: leave it out"
        )


def _path(name: str | None) -> Path | None:
    return None if name is None else Path(name)


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())


def _first_stage(name: str, device: str, dtype: str) -> Encoder | Path:
    """A run where the name is that of a file; weights are read when they are first used."""
    from sbert_retriever.evaluation.models import ModelOptions, load_bi_encoder

    if Path(name).is_file():
        return Path(name)
    return load_bi_encoder(name, ModelOptions(device=device, dtype=dtype))
