"""What a model is trained for: pure functions of vectors, a thin module each, known by name.

| name | learns from | the function |
|---|---|---|
| classification | nli | `softmax_classification` |
| regression | sts | `cosine_regression` |
| triplet | triplets, ranking | `triplet` |
| batch-triplet | labelled | `batch_all`, `batch_hard` |
| in-batch | pairs, triplets, ranking, texts | `info_nce` |
| distil-vectors | parallel, texts | `vector_distillation` |
| distil-margins | margins, triplets, ranking | `margin_mse` |
| pair-regression | sts | `pair_regression` |
| pair-binary | sts, triplets, ranking | `pair_binary` |
| pair-classification | nli | `pair_classification` |
| pair-distillation | pairs, triplets, ranking, parallel | `pair_distillation` |
"""

from __future__ import annotations

from sbert_retriever.training.objectives.classification import Classification
from sbert_retriever.training.objectives.distillation import DistilMargins, DistilVectors
from sbert_retriever.training.objectives.in_batch import InBatch
from sbert_retriever.training.objectives.pairs import (
    PairBinary,
    PairClassification,
    PairDistillation,
    PairRegression,
)
from sbert_retriever.training.objectives.registry import OBJECTIVES, Objective, read_objective
from sbert_retriever.training.objectives.regression import Regression
from sbert_retriever.training.objectives.triplet import BatchTriplet, Triplet

__all__ = [
    "OBJECTIVES",
    "BatchTriplet",
    "Classification",
    "DistilMargins",
    "DistilVectors",
    "InBatch",
    "Objective",
    "PairBinary",
    "PairClassification",
    "PairDistillation",
    "PairRegression",
    "Regression",
    "Triplet",
    "read_objective",
]
