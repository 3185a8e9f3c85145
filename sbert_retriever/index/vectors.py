"""Vectors that no engine should be given: it would take them and lose their passages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from sbert_retriever.errors import InputError, ModelError
from sbert_retriever.types import ScoreKind, SparseVector

_LARGEST_HALF = 65504.0


Rows = TypeVar("Rows", npt.NDArray[np.float32], npt.NDArray[np.float64])


def unit_rows(rows: Rows) -> Rows:
    """Vectors (n, dim) with length 1, in the type that they have; a zero vector stays one."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return (rows / np.where(lengths > 0, lengths, 1)).astype(rows.dtype, copy=False)


def check_vectors(
    vectors: npt.NDArray[Any], ids: Sequence[str], *, score_kind: ScoreKind, half: bool = False
) -> None:
    """Refuse vectors that would be lost in the engine, naming their passages.

    Args:
        vectors: (n, dim).
        ids: n passage ids.
        score_kind: A zero vector has no cosine.
        half: Whether their numbers are kept as they are in float16.

    Raises:
        InputError: NaN, infinity, what float16 has no number for, or under cosine zero or beyond
            float32 in length.
    """
    bad = faulty_rows(vectors, score_kind=score_kind, half=half)
    if bad:
        names = ", ".join(f"{ids[n][:80]!r} ({why})" for n, why in list(bad.items())[:5])
        raise InputError(
            f"{len(bad)} of {len(ids)} vectors cannot be stored: {names}. Nothing of this batch "
            "was written: check the encoder"
        )


def faulty_rows(
    vectors: npt.NDArray[Any], *, score_kind: ScoreKind, half: bool = False
) -> dict[int, str]:
    """Rows of (n, dim) that no engine should be given, with the reason."""
    finite = np.isfinite(vectors).all(axis=1)
    bad = {int(n): "NaN or infinity" for n in np.flatnonzero(~finite)}
    if half:
        # The engine makes an infinity of them.
        large = finite & (np.abs(vectors) > _LARGEST_HALF).any(axis=1)
        bad |= {int(n): "too large for float16 (65,504 at most)" for n in np.flatnonzero(large)}
    if score_kind == "cosine":
        with np.errstate(over="ignore"):
            norms = np.linalg.norm(np.where(finite[:, None], vectors, 1.0), axis=1)
        # The engine makes a zero of what has no length in float32.
        bad |= {int(n): "too long for float32" for n in np.flatnonzero(np.isinf(norms))}
        # Below this the engine does not normalise, and the cosine is wrong.
        bad |= {int(n): "all zero, so it has no cosine" for n in np.flatnonzero(norms < 1e-6)}
    return bad


def check_sparse(vectors: Sequence[SparseVector], names: Sequence[str]) -> None:
    """Refuse sparse vectors that an engine would take and answer wrongly from.

    Args:
        vectors: One for each name.
        names: What they belong to, for the message.

    Raises:
        ModelError: Another number of vectors, or of values than of indices; an index twice; a value
            that is not finite.
    """
    if len(vectors) != len(names):
        raise ModelError(
            f"the sparse encoder gave {len(vectors)} vectors for {len(names)} texts: nothing of "
            "this window was written"
        )
    for vector, name in zip(vectors, names, strict=True):
        distinct = len(set(vector.indices)) == len(vector.indices) == len(vector.values)
        if not (distinct and np.isfinite(vector.values).all()):
            raise ModelError(
                f"the sparse vector of {name[:80]!r} has {len(vector.indices)} indices and "
                f"{len(vector.values)} values, expected each index once, with a finite number"
            )
