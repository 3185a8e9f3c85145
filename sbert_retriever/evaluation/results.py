"""What a task found of a model: figures by set, and the values that a comparison needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sbert_retriever.evaluation.similarity import Numbers

AVERAGE = "average"


@dataclass(frozen=True, kw_only=True)
class SetResult:
    """What was found on one set.

    Args:
        name: Of the set.
        items: How many pairs, sentences or queries were measured.
        figures: {name of a measure: value}; the first is the headline.
        values: One number an item (items,): the model's score of it where there is `gold`, else
            what the headline is the mean of.
        gold: What people said of each item (items,); the headline is then Spearman's correlation
            of `values` with it, times 100.
        seconds: How long it took.
    """

    name: str
    items: int
    figures: Mapping[str, float]
    values: Numbers
    gold: Numbers | None = None
    seconds: float = 0.0

    @property
    def headline(self) -> str:
        """The name of the measure that comparisons are about."""
        return next(iter(self.figures))


@dataclass(frozen=True, kw_only=True)
class TaskResult:
    """What a task found of a model.

    Args:
        task: Its name.
        model: As it was asked for.
        sets: One or several.
        averaged: Whether the mean over the sets says anything; else the first set is the headline.
        facts: What else a reader should know: the language, the depth, the seed.
    """

    task: str
    model: str
    sets: Sequence[SetResult]
    averaged: bool = True
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def figures(self) -> dict[str, float]:
        """The mean over the sets of the figures that all have; or those of the first set."""
        first, *others = self.sets
        if not self.averaged:
            return dict(first.figures)
        shared = [name for name in first.figures if all(name in s.figures for s in others)]
        return {
            name: sum(one.figures[name] for one in self.sets) / len(self.sets) for name in shared
        }

    def to_dict(self) -> dict[str, Any]:
        """For JSON: task, model, facts, the figures; and those of each set where there are more."""
        found: dict[str, Any] = {
            "task": self.task,
            "model": self.model,
            **self.facts,
            "items": sum(o.items for o in self.sets) if self.averaged else self.sets[0].items,
            **self.figures,
        }
        if len(self.sets) > 1:
            each = {one.name: {"items": one.items, **one.figures} for one in self.sets}
            found["sets"] = {**each, AVERAGE: self.figures} if self.averaged else each
        return found

    def table(self) -> str:
        """A line a set, a column a figure; the average last."""
        names = list(dict.fromkeys(name for one in self.sets for name in one.figures))
        rows = [["", "items", *names]]
        rows += [_row(one.name, one.items, one.figures, names) for one in self.sets]
        if len(self.sets) > 1 and self.averaged:
            rows.append(_row(AVERAGE, "", self.figures, names))
        return aligned(rows)


def _row(
    name: str, items: int | str, figures: Mapping[str, float], names: Sequence[str]
) -> list[str]:
    return [name, str(items), *(shown(figures[key]) if key in figures else "" for key in names)]


def shown(figure: float) -> str:
    """Two places for what is out of 100, four for what is out of 1.

    Examples:
        >>> shown(82.0325), shown(0.64551)
        ('82.03', '0.6455')
    """
    return f"{figure:.4f}" if -1 <= figure <= 1 else f"{figure:.2f}"


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Rows as lines, the first column to the left and the others to the right.

    Examples:
        >>> print(aligned([["", "n"], ["stsb", "1379"]]))
                 n
        stsb  1379
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = (
        "  ".join(
            cell.ljust(width) if not column else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    )
    return "\n".join(line.rstrip() for line in lines)
