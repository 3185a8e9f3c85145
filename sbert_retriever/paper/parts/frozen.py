"""Cells of models that the study does not train, which several parts measure."""

from __future__ import annotations

from dataclasses import asdict

from sbert_retriever.paper.cells import Cell
from sbert_retriever.paper.study import NEEDS, Study, measure

_LIMITS = {
    "sts": ("sts_pairs",),
    "transfer": ("transfer_sets", "transfer_examples"),
    "arguments": ("arguments",),
    "triplets": ("triplets",),
}


def frozen_cell(study: Study, row: str, what: str) -> Cell:
    """A row of `FROZEN`, measured.

    Args:
        study: Whose data and limits hold.
        row: Of `FROZEN`.
        what: As `measure` takes it.
    """
    size = asdict(study.size)
    return Cell(
        name=f"{what}/{row}",
        settings={
            "start": study.start,
            "row": row,
            "what": what,
            **{name: size[name] for name in _LIMITS[what]},
        },
        make=lambda: {"figures": {what: measure(study.frozen(row), what, study)}},
        needs=NEEDS[what],
    )
