"""The paper's objectives, and the loop that trains a model for them.

Names are loaded when first used; `Trainer` needs the extra `train`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sbert_retriever.training.config import TrainConfig, TrainStep
    from sbert_retriever.training.config_file import config_from, read_config
    from sbert_retriever.training.data import TrainData
    from sbert_retriever.training.dev import TrainDev
    from sbert_retriever.training.development import DevReport
    from sbert_retriever.training.hard_negatives import MinedNegatives, mine_hard_negatives
    from sbert_retriever.training.objectives.classification import Classification
    from sbert_retriever.training.objectives.distillation import DistilMargins, DistilVectors
    from sbert_retriever.training.objectives.in_batch import InBatch
    from sbert_retriever.training.objectives.pairs import (
        PairBinary,
        PairClassification,
        PairDistillation,
        PairRegression,
    )
    from sbert_retriever.training.objectives.registry import OBJECTIVES, read_objective
    from sbert_retriever.training.objectives.regression import Regression
    from sbert_retriever.training.objectives.triplet import BatchTriplet, Triplet
    from sbert_retriever.training.trainer import StepReport, Trainer, TrainReport
else:
    _ROOM = "sbert_retriever.training"
    _HOMES = {
        "Trainer": f"{_ROOM}.trainer",
        "TrainReport": f"{_ROOM}.trainer",
        "StepReport": f"{_ROOM}.trainer",
        "TrainConfig": f"{_ROOM}.config",
        "TrainStep": f"{_ROOM}.config",
        "TrainData": f"{_ROOM}.data",
        "TrainDev": f"{_ROOM}.dev",
        "DevReport": f"{_ROOM}.development",
        "read_config": f"{_ROOM}.config_file",
        "config_from": f"{_ROOM}.config_file",
        "OBJECTIVES": f"{_ROOM}.objectives.registry",
        "read_objective": f"{_ROOM}.objectives.registry",
        "Classification": f"{_ROOM}.objectives.classification",
        "Regression": f"{_ROOM}.objectives.regression",
        "Triplet": f"{_ROOM}.objectives.triplet",
        "BatchTriplet": f"{_ROOM}.objectives.triplet",
        "InBatch": f"{_ROOM}.objectives.in_batch",
        "DistilVectors": f"{_ROOM}.objectives.distillation",
        "DistilMargins": f"{_ROOM}.objectives.distillation",
        "PairRegression": f"{_ROOM}.objectives.pairs",
        "PairBinary": f"{_ROOM}.objectives.pairs",
        "PairClassification": f"{_ROOM}.objectives.pairs",
        "PairDistillation": f"{_ROOM}.objectives.pairs",
        "mine_hard_negatives": f"{_ROOM}.hard_negatives",
        "MinedNegatives": f"{_ROOM}.hard_negatives",
    }

    def __getattr__(name: str) -> Any:
        """Load a name from its module."""
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        value = getattr(import_module(_HOMES[name]), name)
        globals()[name] = value
        return value


__all__ = [
    "Trainer",
    "TrainReport",
    "StepReport",
    "TrainConfig",
    "TrainStep",
    "TrainData",
    "TrainDev",
    "DevReport",
    "read_config",
    "config_from",
    "OBJECTIVES",
    "read_objective",
    "Classification",
    "Regression",
    "Triplet",
    "BatchTriplet",
    "InBatch",
    "DistilVectors",
    "DistilMargins",
    "PairRegression",
    "PairBinary",
    "PairClassification",
    "PairDistillation",
    "mine_hard_negatives",
    "MinedNegatives",
]
