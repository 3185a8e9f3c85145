"""What the checks share, and what they answer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from os import PathLike
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from sbert_retriever.errors import SbertError
from sbert_retriever.index.steps import Steps, call
from sbert_retriever.types import Passage

Status = Literal["ok", "warning", "problem"]


@dataclass(frozen=True)
class Check:
    """One question, answered.

    Args:
        name: What was looked at.
        status: "ok", "warning" or "problem".
        finding: What was found.
        way_out: What to do about it; empty where nothing need be done.
    """

    name: str
    status: Status
    finding: str
    way_out: str = ""


@dataclass
class Visit:
    """What the checks share, and what they found so far."""

    location: str
    collection_name: str
    model: str | PathLike[str] | None
    device: str
    dtype: str
    api_key: str | None
    checks: list[Check] = field(default_factory=list)

    def add(self, name: str, status: Status, finding: str, way_out: str = "") -> None:
        """Note an answer."""
        self.checks.append(Check(name, status, finding, way_out if status != "ok" else ""))

    @contextmanager
    def noting(self, name: str, way_out: str = "") -> Iterator[None]:
        """Turn an error of ours into a problem, and go on."""
        try:
            yield
        except SbertError as error:
            self.add(name, "problem", str(error), way_out)


@dataclass(frozen=True)
class Sample:
    """A look at some passages: texts, vectors (n, dim) where there are, and marks."""

    passages: list[Passage]
    vectors: npt.NDArray[np.float32]


def ask(method: str, **arguments: Any) -> Steps[Any]:
    """One call of the engine."""
    return (yield call(method, **arguments))
