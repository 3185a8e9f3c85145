"""(a) What an encoder's outputs are worth before it is trained for similarity: table 1."""

from __future__ import annotations

from sbert_retriever.evaluation.sts_sets import STS_TASKS
from sbert_retriever.paper.cells import Cell
from sbert_retriever.paper.parts.frozen import frozen_cell
from sbert_retriever.paper.parts.part import Known, Part
from sbert_retriever.paper.published import STS_AVERAGE
from sbert_retriever.paper.section import Section, Table, mean_of, ordering, pick, shown
from sbert_retriever.paper.study import FROZEN, Study
from sbert_retriever.paper.trainings import bi_encoder_cell

_TRAINED = "nli"
_NAMES = {**FROZEN, _TRAINED: "the start model trained on NLI (SBERT-NLI, trained here)"}


def cells(study: Study) -> list[Cell]:
    """Every frozen row, and the model trained on NLI."""
    return [
        *(frozen_cell(study, row, "sts") for row in FROZEN),
        bi_encoder_cell(study, ["nli"]),
    ]


def section(study: Study, known: Known) -> Section:
    """A row a model, a column a set, the average, and the paper's average."""
    rows, averages = [], {}
    for row, cell in zip(_NAMES, cells(study), strict=True):
        result = known(cell)
        figures = [pick(result, "figures", "sts", task, "spearman_cosine") for task in STS_TASKS]
        average = None if None in figures else mean_of(figures)
        averages[row] = average
        paper = STS_AVERAGE.get(row)
        rows.append(
            [
                _NAMES[row],
                *map(shown, figures),
                shown(average),
                f"{paper[1]:.2f} ({paper[0]})" if paper else "",
                shown(average - paper[1]) if paper and average is not None else "",
            ]
        )
    header = ["", *STS_TASKS, "average", "the paper's average", "difference"]
    return Section(
        before=[
            "Spearman's correlation of the cosine with what people said, times 100. The files of a "
            "year are taken together, as the paper does."
        ],
        tables=[Table(header, rows)],
        after=[
            ordering(
                {row: value for row, (_, value) in STS_AVERAGE.items()},
                averages,
            ),
            "The model that was trained here saw SICK's training pairs, with their inference "
            "labels, and 12 pairs of STSbenchmark's test set are among those: its figures of these "
            "two sets, and so its average, are not those of a model that knows neither, as the "
            "paper's is.",
            "The paper's rows are BERT-base, pretrained on text alone, and 300-dimensional GloVe "
            "vectors. The start model was trained to give one score to a pair, through its CLS "
            "output, so that its averaged outputs stand for something else than BERT's; its input "
            "vectors stand in for GloVe. The packaged models were trained for similarity by "
            "others, on far more pairs, and are shown as what can be had.",
        ],
    )


PART = Part(
    letter="a",
    title="Outputs of encoders, trained for similarity and not",
    trains=True,
    cells=cells,
    section=section,
)
