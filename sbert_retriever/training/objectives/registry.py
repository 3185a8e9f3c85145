"""Objectives by the names that a configuration gives them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, TypeAlias

from sbert_retriever.errors import InputError
from sbert_retriever.training.objectives.classification import Classification
from sbert_retriever.training.objectives.distillation import DistilMargins, DistilVectors
from sbert_retriever.training.objectives.in_batch import InBatch
from sbert_retriever.training.objectives.pairs import (
    PairBinary,
    PairClassification,
    PairDistillation,
    PairRegression,
)
from sbert_retriever.training.objectives.regression import Regression
from sbert_retriever.training.objectives.triplet import BatchTriplet, Triplet

Objective: TypeAlias = (
    Classification
    | Regression
    | Triplet
    | BatchTriplet
    | InBatch
    | DistilVectors
    | DistilMargins
    | PairRegression
    | PairBinary
    | PairClassification
    | PairDistillation
)
"""The settings of one; `build` makes the module."""

OBJECTIVES: dict[str, type[Objective]] = {
    kind.name: kind
    for kind in (
        Classification,
        Regression,
        Triplet,
        BatchTriplet,
        InBatch,
        DistilVectors,
        DistilMargins,
        PairRegression,
        PairBinary,
        PairClassification,
        PairDistillation,
    )
}


def read_objective(given: str | Mapping[str, Any]) -> Objective:
    """An objective from its name, or from {"name": ..., setting: value, ...}.

    Raises:
        InputError: No such name or setting, or a value that is out of range.

    Examples:
        >>> read_objective({"name": "triplet", "margin": 0.5})
        Triplet(distance='euclidean', margin=0.5)
    """
    settings = {"name": given} if isinstance(given, str) else dict(given)
    name = settings.pop("name", None)
    if name not in OBJECTIVES:
        raise InputError(f"objective {name!r} is not one of {', '.join(OBJECTIVES)}")
    kind: Any = OBJECTIVES[name]
    known = [field.name for field in fields(kind)]
    if unknown := [key for key in settings if key not in known]:
        expected = ", ".join(known) or "none"
        raise InputError(f"objective {name!r} has no setting {unknown[0]!r}, expected {expected}")
    for field in fields(kind):
        lists = isinstance(field.default, tuple)
        if field.name in settings and isinstance(settings[field.name], list | tuple) != lists:
            found, expected = settings[field.name], "a list" if lists else "one value"
            raise InputError(f"{field.name} of {name} is {found!r}, expected {expected}")
    values = {k: tuple(v) if isinstance(v, list) else v for k, v in settings.items()}
    objective: Objective = kind(**values)
    return objective
