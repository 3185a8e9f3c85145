"""The words of the configuration: kinds of models, of data, of numbers."""

from __future__ import annotations

from typing import Literal, TypeAlias

ModelKind: TypeAlias = Literal["bi-encoder", "two-encoders", "cross-encoder"]
DataKind: TypeAlias = Literal[
    "sts", "nli", "pairs", "triplets", "ranking", "margins", "parallel", "texts", "labelled"
]
Precision: TypeAlias = Literal["auto", "float32", "bfloat16", "float16"]
Weights: TypeAlias = Literal["pretrained", "random"]
View: TypeAlias = Literal["crops", "twice"]
Format: TypeAlias = Literal["tsv", "csv", "jsonl", "parquet"]
