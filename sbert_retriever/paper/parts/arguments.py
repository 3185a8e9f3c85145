"""(f) Bi-encoder against cross-encoder on arguments, within topics and across: table 3."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, TypeAlias

import numpy as np

from sbert_retriever.evaluation.arguments import ArgumentPairs, Rows, fold_rows, measure_arguments
from sbert_retriever.evaluation.models import ModelOptions, load_bi_encoder, load_cross_encoder
from sbert_retriever.evaluation.similarity import correlations
from sbert_retriever.evaluation.sts import pair_scores
from sbert_retriever.paper.cells import Cell, Result
from sbert_retriever.paper.parts.frozen import frozen_cell
from sbert_retriever.paper.parts.part import Known, Part
from sbert_retriever.paper.published import ARGUMENTS
from sbert_retriever.paper.section import Section, Table, mean_of, ordering, pick, shown
from sbert_retriever.paper.study import FROZEN, NEEDS, PACKAGED, Study
from sbert_retriever.paper.trainings import COSINE_RATE, DROPOUT, Settings, let_go, trained

Kind: TypeAlias = Literal["bi-encoder", "cross-encoder"]
_CUTS = {"10-fold": 10, "cross-topic": 4}
_FROZEN = ("mean", "static", *PACKAGED)
_MOST_GRADE = 2.0


def cells(study: Study) -> list[Cell]:
    """Models as they are, then both kinds trained in as many folds as the size takes."""
    return [
        *(frozen_cell(study, row, "arguments") for row in _FROZEN),
        _cross_encoder_cell(study),
        *(
            _fold_cell(study, kind, cut, fold)
            for kind, cut in ARGUMENTS
            for fold in _folds(study, cut)
        ),
    ]


def _folds(study: Study, cut: str) -> range:
    return range(min(study.size.argument_folds, _CUTS[cut]))


def _cross_encoder_cell(study: Study) -> Cell:
    return Cell(
        name="arguments/cross-encoder",
        settings={"start": study.start, "arguments": study.size.arguments},
        make=lambda: {
            "figures": {
                "arguments": {
                    one.name: dict(one.figures)
                    for one in measure_arguments(study.cross_encoder(), study.arguments())
                }
            }
        },
        needs=NEEDS["arguments"],
    )


def _fold_cell(study: Study, kind: str, cut: str, fold: int) -> Cell:
    size, name = study.size, _name(kind, cut, fold)
    return Cell(
        name=f"train/{name}",
        settings={
            "start": study.start,
            "arguments": size.arguments,
            "epochs": size.argument_epochs,
            "learning_rate": COSINE_RATE,
            "dropout": None if kind == "cross-encoder" else DROPOUT,
            "cut": cut,
            "fold": fold,
        },
        make=lambda: _made(study, kind, cut, fold),
        needs=NEEDS["arguments"],
        tidy=lambda: let_go(study, name),
    )


def _name(kind: str, cut: str, fold: int) -> str:
    return f"arguments-{kind}-{cut}-{fold}"


def _made(study: Study, kind: str, cut: str, fold: int) -> Result:
    arguments = study.arguments()
    train, test = list(_rows(arguments, cut))[fold]
    name = _name(kind, cut, fold)
    steps, folder = trained(study, name, _config(study, kind, arguments, train))
    load = load_cross_encoder if kind == "cross-encoder" else load_bi_encoder
    model = load(str(folder), ModelOptions(device=study.device))
    pairs = arguments.pairs
    left, right = (tuple(texts[row] for row in test) for texts in (pairs.left, pairs.right))
    scores = next(iter(pair_scores(model, left, right).values()))
    figures = correlations(np.array(pairs.gold)[test], scores)
    return {"steps": steps, "pairs": len(test), "figures": figures}


def _rows(arguments: ArgumentPairs, cut: str) -> Iterator[tuple[Rows, Rows]]:
    return fold_rows(arguments, folds=_CUTS[cut], seed=0, by_topic=cut == "cross-topic")


def _config(study: Study, kind: str, arguments: ArgumentPairs, rows: Rows) -> Settings:
    pairs = arguments.pairs
    examples = [
        {"first": pairs.left[row], "second": pairs.right[row], "score": pairs.gold[row]}
        for row in rows
    ]
    step = {
        "name": "arguments",
        "objective": "regression" if kind == "bi-encoder" else "pair-regression",
        "data": [{"kind": "sts", "rows": examples, "score_range": [0, _MOST_GRADE]}],
        "epochs": study.size.argument_epochs,
        "learning_rate": COSINE_RATE,
        "smart_batching": True,
    }
    whole: Settings = {
        "model": study.start,
        "kind": kind,
        "seed": 0,
        "device": study.device,
        "steps": [step],
    }
    bi_encoder = {"pooling": "mean", "normalize": False, "dropout": DROPOUT}
    return whole if kind == "cross-encoder" else {**whole, **bi_encoder}


def section(study: Study, known: Known) -> Section:
    """Models as they are, then trained ones beside the paper's."""
    return Section(
        [
            "The UKP Argument Aspect corpus stands in for the Argument Facet Similarity corpus, "
            "which was not to be had: 3,595 pairs in 28 topics instead of 6,000 in 3, and four "
            "labels (graded 0, 0, 1, 2) instead of means of gradings 0 to 5.",
            "As they are, with nothing trained but a ridge regression on the frozen vectors (or on "
            "the score), Spearman times 100, the mean over the folds:",
        ],
        [_frozen_table(study, known), _trained_table(study, known)],
        [
            "The lower table: the start model trained by regression, the mean over "
            f"{len(_folds(study, '10-fold'))} of 10 folds and {len(_folds(study, 'cross-topic'))} "
            "of 4 folds of seven topics each.",
            ordering(
                {f"{kind}, {cut}": paper[1] for (kind, cut), (_, paper) in ARGUMENTS.items()},
                {
                    f"{kind}, {cut}": _mean(study, known, kind, cut, "spearman")
                    for kind, cut in ARGUMENTS
                },
            ),
            "With 21 topics to train on, those left out are less strange than the paper's third "
            "one after two, so that the loss across topics is expected to be smaller here.",
        ],
    )


def _frozen_table(study: Study, known: Known) -> Table:
    rows = {FROZEN[row]: frozen_cell(study, row, "arguments") for row in _FROZEN}
    rows["the start model as a cross-encoder"] = _cross_encoder_cell(study)
    return Table(
        ["", "its own score", "10-fold", "cross-topic", "F1, 10-fold", "F1, cross-topic"],
        [[name, *_frozen_row(known(cell))] for name, cell in rows.items()],
    )


def _frozen_row(result: Any) -> list[str]:
    at = ("figures", "arguments")
    own = pick(result, *at, "all pairs", "spearman_cosine")
    score = pick(result, *at, "all pairs", "spearman_score")
    return [
        shown(score if own is None else own),
        *(shown(pick(result, *at, cut, "spearman_folds")) for cut in _CUTS),
        *(shown(pick(result, *at, cut, "f1")) for cut in _CUTS),
    ]


def _trained_table(study: Study, known: Known) -> Table:
    rows = []
    for (kind, cut), (name, paper) in ARGUMENTS.items():
        row = [f"{kind}, {cut}"]
        for measure, figure in zip(("pearson", "spearman"), paper, strict=True):
            row += [shown(_mean(study, known, kind, cut, measure)), f"{figure:.2f} ({name})"]
        rows.append(row)
    return Table(["trained", "Pearson", "the paper's", "Spearman", "the paper's"], rows)


def _mean(study: Study, known: Known, kind: str, cut: str, measure: str) -> float | None:
    return mean_of(
        [
            pick(known(_fold_cell(study, kind, cut, fold)), "figures", measure)
            for fold in _folds(study, cut)
        ]
    )


PART = Part(
    letter="f",
    title="Bi-encoder against cross-encoder on argument similarity",
    trains=True,
    cells=cells,
    section=section,
)
