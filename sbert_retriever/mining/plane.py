"""Vectors seen from the side where they differ most: their two principal components."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt


class Plane(NamedTuple):
    """Where each vector lies in two dimensions.

    Args:
        positions: float32 (n, 2).
        shown: Share of the vectors' variance that the two dimensions keep, from 0 to 1.
    """

    positions: npt.NDArray[np.float32]
    shown: float


def principal_plane(rows: npt.NDArray[np.float32]) -> Plane:
    """Principal component analysis of rows (n, dim); equal rows lie at the origin.

    The sign of each axis is such that its largest component is positive.

    Examples:
        >>> principal_plane(np.float32([[0, 0], [0, 2]])).positions.tolist()
        [[-1.0, 0.0], [1.0, 0.0]]
    """
    n, dim = rows.shape
    if n < 2:
        return Plane(np.zeros((n, 2), dtype=np.float32), 0.0)
    centred = rows - rows.mean(axis=0, dtype=np.float64).astype(np.float32)
    variances, axes = np.linalg.eigh((centred.T @ centred).astype(np.float64))
    chosen = axes[:, ::-1][:, :2]
    chosen = chosen * np.sign(chosen[np.abs(chosen).argmax(axis=0), np.arange(chosen.shape[1])])
    positions = np.zeros((n, 2), dtype=np.float32)
    positions[:, : min(dim, 2)] = centred @ chosen.astype(np.float32)
    total = float(variances.sum())
    shown = float(variances[::-1][:2].sum()) / total if total > 0 else 0.0
    return Plane(positions, min(max(shown, 0.0), 1.0))
