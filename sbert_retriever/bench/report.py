"""What was measured, as a table for people and as JSON."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any

from sbert_retriever.bench.contenders import Contender, Models
from sbert_retriever.bench.measure import Measured


def ratio(first: Measured, other: Measured) -> float:
    """How many times faster the first was: the median of the ratios of each round.

    Examples:
        >>> a = Measured(case="c", contender="a", unit="texts/s", rates=(4.0, 9.0, 6.0))
        >>> b = Measured(case="c", contender="b", unit="texts/s", rates=(2.0, 3.0, 3.0))
        >>> ratio(a, b)
        2.0
    """
    return statistics.median(a / b for a, b in zip(first.rates, other.rates, strict=True))


def table(found: Sequence[Measured]) -> str:
    """A line for each contender of each case; the ratio is the first contender's to its own."""
    rows: list[tuple[str, ...]] = [_HEAD]
    for _, group in groupby(found, key=lambda m: m.case):
        first, *others = list(group)
        rows.append(_row(first, ""))
        rows += [_row(other, f"{ratio(first, other):.2f}") for other in others]
    widths = [max(len(row[n]) for row in rows) for n in range(len(rows[0]))]
    return "\n".join(_line(row, widths) for row in rows)


def as_json(found: Iterable[Measured], models: Models, first: Contender) -> dict[str, Any]:
    """Everything: the machine, the versions, the models, and the rate of every round.

    Args:
        found: What was measured.
        models: As they were asked for.
        first: Whose device and floating type are said, and not "auto".
    """
    from sbert_retriever.tradeoff.machine import machine

    return {
        "machine": machine(),
        "versions": versions(),
        "bi_encoder": models.bi_encoder,
        "cross_encoder": models.cross_encoder,
        "device": first.device or models.device,
        "dtype": first.dtype or models.dtype,
        "cases": [
            {
                "case": m.case,
                "contender": m.contender,
                "unit": m.unit,
                "median": m.median,
                "rates": list(m.rates),
            }
            for m in found
        ],
    }


def versions() -> dict[str, str]:
    """Versions of what is measured and of what it stands on, where they are installed."""
    from importlib.metadata import PackageNotFoundError, version

    found: dict[str, str] = {}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


_HEAD = ("case", "contender", "median", "lowest", "highest", "ratio", "")
_PACKAGES = (
    "sbert-retriever",
    "torch",
    "transformers",
    "qdrant-client",
    "qdrant-edge-py",
    "sentence-transformers",
    "fastembed",
    "langchain-huggingface",
    "langchain-qdrant",
)


def _row(measured: Measured, compared: str) -> tuple[str, ...]:
    low, high = measured.spread
    return (
        measured.case,
        measured.contender,
        f"{measured.median:,.1f}",
        f"{low:,.1f}",
        f"{high:,.1f}",
        compared,
        measured.unit,
    )


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    cells = [
        cell.ljust(width) if n in (0, 1, 6) else cell.rjust(width)
        for n, (cell, width) in enumerate(zip(row, widths, strict=True))
    ]
    return "  ".join(cells).rstrip()
