"""Vectors, and how long the texts were that they are made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from sbert_retriever.types import Vectors


@dataclass(frozen=True)
class Encoding:
    """Vectors, and how long the texts were.

    Args:
        vectors: float32 (n, dim).
        token_counts: Tokens of each text before truncation, special ones and the prompt's
            included: int64 (n,).
        truncated: Which texts were cut: bool (n,).
    """

    vectors: Vectors
    token_counts: npt.NDArray[np.int64]
    truncated: npt.NDArray[np.bool_]


def joined(parts: Sequence[Encoding], dim: int) -> Encoding:
    """Encodings end to end; none gives vectors (0, dim)."""
    if len(parts) == 1:
        return parts[0]
    empty = Encoding(np.empty((0, dim), np.float32), np.empty(0, np.int64), np.empty(0, np.bool_))
    columns = zip(*((p.vectors, p.token_counts, p.truncated) for p in (empty, *parts)), strict=True)
    vectors, counts, truncated = (np.concatenate(column) for column in columns)
    return Encoding(vectors, counts, truncated)
