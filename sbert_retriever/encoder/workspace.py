"""Memory that a forward pass on a CPU writes to again, layer after layer and batch after batch.

A layer's results are some megabytes, which the C library takes from the system and gives back each
time, above all in threads other than the first: a pass over 64 abstracts met up to 200,000 page
faults, and took a tenth longer. GPUs have an allocator that keeps memory.
"""

from __future__ import annotations

import threading

import torch
from torch import Tensor

# Of one array; what is larger comes from the system and goes back to it.
_LARGEST_BYTES = 32 * 2**20


class Workspace(threading.local):
    """One array for each kind of result; each thread has its own."""

    def __init__(self) -> None:
        self._arrays: dict[str, Tensor] = {}

    def take(self, kind: str, rows: int, width: int, *, like: Tensor) -> Tensor | None:
        """An array (rows, width) of unknown content; the next of its kind overwrites it.

        Args:
            kind: What it is for.
            rows: How many.
            width: Of a row.
            like: A tensor of its device and floating type.

        Returns:
            None where a new array is as good: off the CPU, and for very large ones.
        """
        numbers = rows * width
        if like.device.type != "cpu" or numbers * like.element_size() > _LARGEST_BYTES:
            return None
        array = self._arrays.get(kind)
        if array is None or len(array) < numbers or array.dtype != like.dtype:
            with torch.inference_mode(False):  # so that it may be written to in either mode
                array = self._arrays[kind] = torch.empty(numbers, dtype=like.dtype)
        return array[:numbers].view(rows, width)
