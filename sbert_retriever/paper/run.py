"""Run the study, part by part and cell by cell."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from sbert_retriever.errors import InputError, ReadError
from sbert_retriever.paper.cells import Cell, Cells
from sbert_retriever.paper.page import write_page
from sbert_retriever.paper.parts import (
    ablations,
    arguments,
    batching,
    steps,
    transfer,
    triplets,
    untrained,
)
from sbert_retriever.paper.parts.part import Part
from sbert_retriever.paper.study import Study

PARTS = (
    untrained.PART,
    ablations.POOLING_PART,
    ablations.CONCATENATION_PART,
    steps.PART,
    transfer.PART,
    arguments.PART,
    batching.PART,
    triplets.PART,
)


def run_study(
    study: Study,
    page: Path,
    *,
    letters: Sequence[str] = (),
    training: bool = True,
    on_note: Callable[[str], None] = lambda _: None,
) -> None:
    """Measure what is not known yet, and write the page after each measurement.

    Args:
        study: Data, limits, and the folder of the results.
        page: Where the page goes.
        letters: Of the parts to measure; none means all. The page has every part.
        training: Whether cells that train are measured too.
        on_note: Called with a line before each cell.

    Raises:
        InputError: There is no part of a letter.
        ReadError: A data set is missing, or a line of it does not fit.
    """
    wanted = chosen(letters)
    cells = Cells(study.folder)
    todo = [cell for cell in _each(study, wanted) if training or not _trains(cell)]
    _check_data(study.data, [cell for cell in todo if cells.known(cell) is None])
    write_page(page, study, PARTS, cells)
    for number, cell in enumerate(todo, 1):
        if cells.known(cell) is None:
            on_note(f"{number} of {len(todo)}: {cell.name}")
            cells.measured(cell)
            write_page(page, study, PARTS, cells)


def chosen(letters: Sequence[str]) -> list[Part]:
    """The parts of some letters; none means all.

    Raises:
        InputError: There is no such part.
    """
    known = {part.letter: part for part in PARTS}
    if unknown := [letter for letter in letters if letter not in known]:
        raise InputError(f"there is no part {unknown[0]!r}, expected one of {', '.join(known)}")
    return [part for part in PARTS if not letters or part.letter in letters]


def _each(study: Study, parts: Sequence[Part]) -> list[Cell]:
    """The cells of the parts, each once; quick ones of all parts before those that train."""
    found = {cell.name: cell for part in parts for cell in part.cells(study)}
    return sorted(found.values(), key=_trains)


def _trains(cell: Cell) -> bool:
    return cell.name.startswith("train/")


def _check_data(data: Path, cells: Sequence[Cell]) -> None:
    """Refuse before the first measurement what a later one would miss.

    Raises:
        ReadError: A folder that one of the cells needs is not there.
    """
    needed = dict.fromkeys(folder for cell in cells for folder in cell.needs)
    missing = [folder for folder in needed if not (data / folder).is_dir()]
    if missing:
        raise ReadError(
            f"{data} has no folder {missing[0]!r}: what is to be measured needs {', '.join(needed)}"
        )
