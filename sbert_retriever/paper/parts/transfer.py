"""(e) Transfer: the paper's table 5."""

from __future__ import annotations

from sbert_retriever.evaluation.senteval import TRANSFER_TASKS
from sbert_retriever.paper.cells import Cell
from sbert_retriever.paper.parts.frozen import frozen_cell
from sbert_retriever.paper.parts.part import Known, Part
from sbert_retriever.paper.published import TRANSFER
from sbert_retriever.paper.section import Section, Table, mean_of, ordering, pick, shown
from sbert_retriever.paper.study import FROZEN, PACKAGED, Study
from sbert_retriever.paper.trainings import bi_encoder_cell

_ROWS = ("mean", "static", "random", *PACKAGED)
_NAMES = {row: FROZEN[row] for row in _ROWS} | {"nli": "SBERT-NLI, trained here"}


def cells(study: Study) -> list[Cell]:
    """Frozen rows, and the model trained on NLI."""
    return [
        *(frozen_cell(study, row, "transfer") for row in _ROWS),
        bi_encoder_cell(study, ["nli"]),
    ]


def section(study: Study, known: Known) -> Section:
    """A row a model and one of the paper's below it, a column a task."""
    rows, means = [], {}
    for row, cell in zip(_NAMES, cells(study), strict=True):
        result = known(cell)
        figures = [
            pick(result, "figures", "transfer", task, "accuracy")
            for task in study.size.transfer_sets
        ]
        means[row] = None if None in figures else mean_of(figures)
        columns = dict(zip(study.size.transfer_sets, figures, strict=True))
        measured = [shown(columns[t]) if t in columns else "" for t in TRANSFER_TASKS]
        rows.append([_NAMES[row], *measured, shown(means[row])])
        if row in TRANSFER:
            name, paper = TRANSFER[row]
            rows.append([f"the paper's {name}", *(f"{figure:.2f}" for figure in paper)])
    return Section(
        [
            "Accuracy times 100 of logistic regression on frozen vectors; 10 folds for MR, CR, "
            "SUBJ and MPQA, the given split for the others. The regularisation is chosen on a "
            "fifth held out of what is trained on, where SentEval takes ten inner folds.",
        ],
        [Table(["", *TRANSFER_TASKS, "average"], rows)],
        [
            ordering(
                {_NAMES[row]: paper[-1] for row, (_, paper) in TRANSFER.items()},
                {_NAMES[row]: mean for row, mean in means.items()},
            ),
            "The paper's vectors have 768 numbers (GloVe's 300), these 384. Averaged outputs that "
            "are of no use to the cosine can still carry what a classifier needs, which the paper "
            "found of BERT too.",
        ],
    )


PART = Part(letter="e", title="Transfer", trains=True, cells=cells, section=section)
