"""Vectors with NaN or infinity in them are never handed out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sbert_retriever.errors import ModelError

if TYPE_CHECKING:
    from sbert_retriever.types import Vectors


def check_finite(vectors: Vectors, texts: list[str], *, start: int, dtype: str) -> None:
    """Refuse vectors that are not finite.

    Args:
        vectors: (n, width), one row a text.
        texts: What they were made of.
        start: The number of the first text, for the message.
        dtype: In which floating type the model computes.

    Raises:
        ModelError: A vector is not finite; the message names its position.
    """
    bad = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
    if len(bad):
        raise ModelError(
            f"the vector of texts[{start + bad[0]}] ({texts[bad[0]][:40]!r}) is not finite, and "
            f"{len(bad) - 1} more: the model overflows in {dtype} or its weights are damaged; "
            "try dtype='float32'"
        )
