"""What a part of the study is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from sbert_retriever.paper.cells import Cell, Result
from sbert_retriever.paper.section import Section
from sbert_retriever.paper.study import Study

Known: TypeAlias = Callable[[Cell], Result | None]
"""What was kept of a cell, or None."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """A part of the study.

    Args:
        letter: "a" to "h".
        title: Its heading.
        trains: Whether it needs training runs.
        cells: What has to be measured.
        section: The page's text, out of what has been measured so far.
    """

    letter: str
    title: str
    trains: bool
    cells: Callable[[Study], list[Cell]]
    section: Callable[[Study, Known], Section]
