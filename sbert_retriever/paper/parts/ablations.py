"""(b) Pooling and (c) concatenation: the paper's table 6, on the dev split of STSbenchmark."""

from __future__ import annotations

from sbert_retriever.paper.cells import Cell
from sbert_retriever.paper.parts.part import Known, Part
from sbert_retriever.paper.published import CONCATENATION, POOLING
from sbert_retriever.paper.section import Section, Table, mean_of, ordering, pick, spread
from sbert_retriever.paper.study import Study
from sbert_retriever.paper.trainings import bi_encoder_cell

_OBJECTIVES = {"nli": "classification on NLI", "sts": "regression on STSb"}
_WHY = (
    "The paper averages ten seeds of BERT-base on a million NLI pairs; here it is the start model, "
    "the seeds and the pairs named at the top. Of one seed a small difference between rows may be "
    "that seed's."
)


def _pooling_cell(study: Study, mode: str, step: str, seed: int) -> Cell:
    return bi_encoder_cell(study, [step], pooling=mode, seed=seed)


def _concatenation_cell(study: Study, parts: tuple[str, ...], seed: int) -> Cell:
    return bi_encoder_cell(study, ["nli"], concatenation=parts, seed=seed)


def pooling_cells(study: Study) -> list[Cell]:
    """Three poolings, two objectives."""
    return [
        _pooling_cell(study, mode, step, seed)
        for mode in POOLING
        for step in _OBJECTIVES
        for seed in study.size.ablation_seeds
    ]


def concatenation_cells(study: Study) -> list[Cell]:
    """The seven concatenations of the paper."""
    return [
        _concatenation_cell(study, parts, seed)
        for parts in CONCATENATION
        for seed in study.size.ablation_seeds
    ]


def _stsb(known: Known, cells: list[Cell], split: str = "stsb-dev") -> list[float | None]:
    return [pick(known(c), "figures", split, split, "spearman_cosine") for c in cells]


def pooling_section(study: Study, known: Known) -> Section:
    """A row a pooling, two columns an objective."""
    found = {
        (mode, step): _stsb(
            known, [_pooling_cell(study, mode, step, seed) for seed in study.size.ablation_seeds]
        )
        for mode in POOLING
        for step in _OBJECTIVES
    }
    header = [
        "",
        *(text for name in _OBJECTIVES.values() for text in (name, "the paper's")),
    ]
    rows = [
        [
            mode.upper(),
            *(
                text
                for step, paper in zip(_OBJECTIVES, figures, strict=True)
                for text in (spread(found[mode, step]), f"{paper:.2f}")
            ),
        ]
        for mode, figures in POOLING.items()
    ]
    orders = [
        f"{name[0].upper()}{name[1:]}: "
        + ordering(
            {mode.upper(): figures[number] for mode, figures in POOLING.items()},
            {mode.upper(): mean_of(found[mode, step]) for mode in POOLING},
        )
        for number, (step, name) in enumerate(_OBJECTIVES.items())
    ]
    return Section(["Spearman times 100 on STSb dev."], [Table(header, rows)], [*orders, _WHY])


def concatenation_section(study: Study, known: Known) -> Section:
    """A row a concatenation."""
    found = {
        parts: _stsb(
            known, [_concatenation_cell(study, parts, s) for s in study.size.ablation_seeds]
        )
        for parts in CONCATENATION
    }
    named = {parts: f"({', '.join(parts)})".replace("|", "\\|") for parts in CONCATENATION}
    rows = [
        [named[parts], spread(found[parts]), f"{paper:.2f}"]
        for parts, paper in CONCATENATION.items()
    ]
    return Section(
        ["What the classifier of NLI sees of the two vectors. Spearman times 100 on STSb dev."],
        [Table(["", "measured", "the paper's"], rows)],
        [
            ordering(
                {named[parts]: paper for parts, paper in CONCATENATION.items()},
                {named[parts]: mean_of(found[parts]) for parts in CONCATENATION},
            ),
            _WHY,
        ],
    )


POOLING_PART = Part(
    letter="b",
    title="Pooling",
    trains=True,
    cells=pooling_cells,
    section=pooling_section,
)
CONCATENATION_PART = Part(
    letter="c",
    title="Concatenation",
    trains=True,
    cells=concatenation_cells,
    section=concatenation_section,
)
