"""Results that leave a device while it computes on."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor


class Results:
    """Rows of a matrix, gathered from batches in any order.

    On CUDA each batch is copied into pinned memory behind the work that makes it, and nobody waits
    before `matrix` is asked for.

    Args:
        shape: (rows, width) of the matrix.
        device: Where the batches are.
    """

    def __init__(self, shape: tuple[int, int], device: torch.device) -> None:
        self._shape, self._device = shape, device
        self._parts: list[tuple[list[int], Tensor]] = []
        self._left = _event() if device.type == "cuda" else None

    def add(self, rows: Sequence[int], values: Tensor) -> None:
        """The rows (n, width) at these places; the tensor may be a result that is not there yet."""
        if self._left is not None and values.is_cuda:
            host = torch.empty(values.shape, dtype=values.dtype, pin_memory=True)
            values = host.copy_(values, non_blocking=True)
            self._left.record(torch.cuda.current_stream(self._device))
        self._parts.append((list(rows), values))

    def matrix(self) -> npt.NDArray[np.float32]:
        """The matrix, float32, when all of it is there."""
        if self._left is not None:
            self._left.synchronize()
        matrix = np.empty(self._shape, dtype=np.float32)
        for rows, values in self._parts:
            matrix[rows] = values.cpu().numpy()
        return matrix


def _event() -> torch.cuda.Event:
    return torch.cuda.Event()  # type: ignore[no-untyped-call]  # torch gives it no types
