"""Results that are kept as soon as they are there, so that a stopped study goes on where it was."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter
from typing import Any, TypeAlias

from sbert_retriever.tradeoff.machine import machine

Result: TypeAlias = dict[str, Any]
"""What a cell found, as JSON keeps it."""


@dataclass(frozen=True, kw_only=True)
class Cell:
    """Something to measure once.

    Args:
        name: Of its file; parts that need the same thing name the same cell.
        settings: All that the result depends on; a kept result with others is measured again.
        make: Measures it.
        needs: The folders of data that this takes.
        tidy: Lets go of what `make` left, once the result is kept.
    """

    name: str
    settings: Mapping[str, Any]
    make: Callable[[], Result] = field(compare=False)
    needs: tuple[str, ...] = ()
    tidy: Callable[[], None] = field(default=lambda: None, compare=False)


class Cells:
    """The kept results of a study.

    Args:
        folder: Made where it is absent.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def known(self, cell: Cell) -> Result | None:
        """What was kept of a cell; None where nothing was, or under other settings."""
        try:
            kept = json.loads(self._path(cell).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        same = isinstance(kept, dict) and kept.get("settings") == _as_json(cell.settings)
        return kept["result"] if same else None

    def measured(self, cell: Cell) -> Result:
        """What was kept, or is measured now and kept."""
        known = self.known(cell)
        return self._made(cell) if known is None else known

    def _made(self, cell: Cell) -> Result:
        started = perf_counter()
        result: Result = _as_json(cell.make())
        kept = {
            "settings": cell.settings,
            "result": result,
            "seconds": round(perf_counter() - started, 1),
            "made": datetime.now(UTC).date().isoformat(),
            "machine": machine(),
        }
        path = self._path(cell)
        path.parent.mkdir(parents=True, exist_ok=True)
        # In one step, so that a killed run leaves no half of a file.
        beside = path.with_suffix(".tmp")
        beside.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n", encoding="utf-8")
        beside.replace(path)
        cell.tidy()
        return result

    def facts(self, cells: list[Cell]) -> tuple[float, list[str]]:
        """The seconds that kept cells took in all, and the machines that they were made on."""
        found = [
            json.loads(self._path(cell).read_text(encoding="utf-8"))
            for cell in cells
            if self.known(cell) is not None
        ]
        return sum(kept["seconds"] for kept in found), sorted({kept["machine"] for kept in found})

    def _path(self, cell: Cell) -> Path:
        return self.folder / f"{cell.name}.json"


def _as_json(value: Any) -> Any:
    """A value as it comes back from a file."""
    return json.loads(json.dumps(value))
