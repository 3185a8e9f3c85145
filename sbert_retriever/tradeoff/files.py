"""What a measurement leaves in a folder."""

from __future__ import annotations

import os
from os import PathLike
from pathlib import Path

from sbert_retriever.errors import InputError
from sbert_retriever.evaluation.needs import check_installed
from sbert_retriever.tradeoff.records import Records, write_records
from sbert_retriever.tradeoff.report import TradeoffReport

STEM = "tradeoff"
PER_QUERY = f"{STEM}.jsonl"


def check_place(folder: str | PathLike[str], *, plots: bool = True) -> None:
    """Refuse before the measurement what `write_all` would refuse after it.

    Args:
        folder: Where it is absent, the one that it would be made in is looked at.
        plots: Whether to draw.

    Raises:
        InputError: No file can be written there.
        MissingExtraError: ir-measures is not installed, or plots are wanted and matplotlib is not.
    """
    check_installed("ir_measures", *(("matplotlib",) if plots else ()))
    place = Path(folder).absolute()
    there = next(path for path in (place, *place.parents) if path.exists())
    if not there.is_dir():
        raise InputError(f"{there} is a file, and results go into a folder: name another")
    if not os.access(there, os.W_OK):
        raise InputError(f"{there} may not be written to: name a folder of your own")


def write_all(
    folder: str | PathLike[str], records: Records, report: TradeoffReport, *, plots: bool = True
) -> list[Path]:
    """Write the per-query file, JSON, CSV, and the plot as PNG and SVG.

    Args:
        folder: Made where it is absent.
        records: What was measured.
        report: What was computed from it.
        plots: Whether to draw.

    Returns:
        The files, the per-query one first.

    Raises:
        MissingExtraError: Plots are wanted and matplotlib is not installed.
    """
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    per_query = place / PER_QUERY
    write_records(per_query, records)
    texts = {".json": report.to_json() + "\n", ".csv": report.to_csv()}
    written = [per_query]
    for suffix, text in texts.items():
        path = place / f"{STEM}{suffix}"
        path.write_text(text, encoding="utf-8", newline="\n")
        written.append(path)
    if plots:
        from sbert_retriever.tradeoff.plot import write_plots

        written += write_plots(report, place / STEM)
    return written
