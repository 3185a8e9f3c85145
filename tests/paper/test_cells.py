"""A result is kept before what it was measured on is let go."""

from __future__ import annotations

from pathlib import Path

import pytest

from sbert_retriever.paper.cells import Cell, Cells
from sbert_retriever.paper.run import PARTS
from sbert_retriever.paper.sizes import size_named
from sbert_retriever.paper.study import Study


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


def test_a_result_is_known_whatever_the_device_is_called(tmp_path: Path) -> None:
    """Gone on with as --device cpu, a study that was begun as auto trained all models again."""
    begun, gone_on = (
        Study(data=tmp_path, size=size_named("small"), folder=tmp_path, device=device)
        for device in ("auto", "cpu")
    )
    for part in PARTS:
        settings = [[cell.settings for cell in part.cells(study)] for study in (begun, gone_on)]
        assert settings[0] == settings[1], part.letter
