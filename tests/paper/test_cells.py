"""A result is kept before what it was measured on is let go."""

from __future__ import annotations

from pathlib import Path

import pytest

from sbert_retriever.paper.cells import Cell, Cells


def test_what_a_cell_left_goes_when_its_result_is_there(tmp_path: Path) -> None:
    seen: list[list[str]] = []
    cell = Cell(
        name="train/a",
        settings={},
        make=lambda: {"figure": 1.0},
        tidy=lambda: seen.append([path.name for path in tmp_path.rglob("*.json")]),
    )
    assert Cells(tmp_path).measured(cell) == {"figure": 1.0}
    assert seen == [["a.json"]]


def test_a_result_that_cannot_be_kept_costs_no_model(tmp_path: Path) -> None:
    """It was deleted first: a full disk lost hours of training."""
    (tmp_path / "train").write_text("in the way")
    gone: list[bool] = []
    cell = Cell(name="train/a", settings={}, make=dict, tidy=lambda: gone.append(True))
    with pytest.raises(OSError, match="train"):
        Cells(tmp_path).measured(cell)
    assert not gone
