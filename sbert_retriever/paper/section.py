"""Sections of the page: tables of measured figures beside the paper's, and what they say of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

NOT_RUN = "not run yet"


@dataclass(frozen=True)
class Table:
    """A table in Markdown.

    Args:
        header: Names of its columns.
        rows: Each as long as the header.
    """

    header: Sequence[str]
    rows: Sequence[Sequence[str]]

    def markdown(self) -> str:
        """Its lines."""
        lines = [self.header, ["---"] * len(self.header), *self.rows]
        return "\n".join(f"| {' | '.join(line)} |" for line in lines)


@dataclass(frozen=True)
class Section:
    """A part's share of the page.

    Args:
        before: Paragraphs: what is measured, from what, on how much.
        tables: With the figures.
        after: Paragraphs: what the figures say of the paper's findings.
    """

    before: Sequence[str]
    tables: Sequence[Table]
    after: Sequence[str] = ()

    def markdown(self) -> str:
        """Its text, without a heading."""
        parts = [*self.before, *(t.markdown() for t in self.tables), *self.after]
        return "\n\n".join(part for part in parts if part)


def shown(value: float | None) -> str:
    """A figure with two places.

    Examples:
        >>> shown(54.814), shown(None)
        ('54.81', 'not run yet')
    """
    return NOT_RUN if value is None else f"{value:.2f}"


def spread(values: Sequence[float | None]) -> str:
    """The mean of several seeds and their standard deviation; of one, itself.

    Examples:
        >>> spread([70.0, 72.0]), spread([70.0]), spread([])
        ('71.00 ± 1.41 (2 seeds)', '70.00', 'not run yet')
    """
    there = [value for value in values if value is not None]
    if len(there) < 2:
        return shown(there[0] if there else None)
    mean = sum(there) / len(there)
    deviation = (sum((x - mean) ** 2 for x in there) / (len(there) - 1)) ** 0.5
    return f"{mean:.2f} ± {deviation:.2f} ({len(there)} seeds)"


def mean_of(values: Sequence[float | None]) -> float | None:
    """The mean of those that are there; None where none is."""
    there = [value for value in values if value is not None]
    return sum(there) / len(there) if there else None


def ordering(paper: Mapping[str, float], here: Mapping[str, float | None]) -> str:
    """In which of its pairs the paper's order shows in what was measured.

    Args:
        paper: {row: the paper's figure}.
        here: {row: the measured figure}; None for what was not measured.

    Examples:
        >>> ordering({"a": 3.0, "b": 2.0, "c": 1.0}, {"a": 9.0, "b": 5.0, "c": 6.0})
        'Of the 3 pairs of rows that the paper puts in an order, 2 come out the same way here. The \
other way round: c above b by 1.00 (the paper: b above c by 1.00).'
    """
    pairs = [
        (high, low) if paper[high] > paper[low] else (low, high)
        for high, low in combinations([row for row in paper if here.get(row) is not None], 2)
        if paper[high] != paper[low]
    ]
    if not pairs:
        return ""
    gaps = {pair: (here[pair[0]] or 0.0) - (here[pair[1]] or 0.0) for pair in pairs}
    same = sum(gap > 0 for gap in gaps.values())
    said = (
        f"Of the {len(pairs)} pairs of rows that the paper puts in an order, {same} come out the "
        "same way here."
    )
    other = [
        f"{low} above {high} by {-gap:.2f} (the paper: {high} above {low} by "
        f"{paper[high] - paper[low]:.2f})"
        for (high, low), gap in gaps.items()
        if gap <= 0
    ]
    return f"{said} The other way round: {'; '.join(other)}." if other else said


def pick(result: Mapping[str, Any] | None, *keys: str) -> float | None:
    """A figure inside a cell's result; None where it is not there.

    Examples:
        >>> pick({"figures": {"stsb": 70.0}}, "figures", "stsb"), pick(None, "figures")
        (70.0, None)
    """
    found: Any = result
    for key in keys:
        found = found.get(key) if isinstance(found, Mapping) else None
    return found if isinstance(found, int | float) else None
