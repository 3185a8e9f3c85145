"""A batch that does not fit into the device's memory is halved, and the work goes on."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from sbert_retriever.encoder.batching import TokenBatch
from sbert_retriever.errors import FallbackWarning, ModelError
from sbert_retriever.forks import Lock

Run = Callable[[TokenBatch], Tensor]
"""What is made of a batch, one row a text."""

# Beside torch's own error class, what its CPU allocator and cuBLAS say.
_SAID = (
    "not enough memory",
    "can't allocate memory",
    "out of memory",
    "CUBLAS_STATUS_ALLOC_FAILED",
)


class HalvingRunner:
    """Runs batches; one that finds no memory is run in halves, and later ones are made smaller.

    Many threads may use it.

    Args:
        device: Where the batches run.
        batch_tokens: Tokens in a batch at first, padding included.
        adjustable: Whether the model's `load` takes `batch_tokens` and `cpu_fallback`, so that
            messages may name them.
    """

    def __init__(self, device: torch.device, batch_tokens: int, *, adjustable: bool = True) -> None:
        self.batch_tokens = batch_tokens
        """Tokens in a batch, as far as is known to fit."""
        self._device = device
        self._adjustable = adjustable
        self._lock = Lock()
        self._warned = False

    def __call__(
        self, batch: TokenBatch, run: Run, *, on_cpu: Run | None = None
    ) -> Iterator[tuple[TokenBatch, Tensor]]:
        """The batch, or its parts in turn, each with what `run` makes of it.

        Args:
            batch: Texts.
            run: Gives one row a text.
            on_cpu: As `run`, for a text that is too big even alone; None raises there.

        Raises:
            ModelError: One text alone finds no memory, and nothing runs it on the CPU.
        """
        made = self._tried(batch, run)
        if made is not None:
            yield batch, made
        elif len(batch.rows) == 1:
            yield batch, self._alone(batch, on_cpu)
        else:
            self._shrink(batch)
            for half in batch.halves():
                yield from self(half, run, on_cpu=on_cpu)

    def _tried(self, batch: TokenBatch, run: Run) -> Tensor | None:
        """What `run` makes of a batch; None where there was no memory for it."""
        try:
            return run(batch)
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
        # Past the except block, the failed batch's tensors are let go with their traceback.
        if self._device.type == "cuda":
            torch.cuda.empty_cache()
        return None

    def _shrink(self, batch: TokenBatch) -> None:
        """Make later batches smaller: of several texts, since one alone says nothing of them."""
        with self._lock:
            self.batch_tokens = max(1, min(self.batch_tokens, batch.size // 2))
        advice = f"; load with batch_tokens={self.batch_tokens} to start there"
        self._warn(
            f"a batch of {batch.size} tokens: it goes on in halves"
            f"{advice if self._adjustable else ''}"
        )

    def _warn(self, what: str) -> None:
        """Say once for what there is no memory."""
        with self._lock:
            warned, self._warned = self._warned, True
        if not warned:
            warnings.warn(f"{self._device} has no memory for {what}", FallbackWarning, stacklevel=2)

    def _alone(self, batch: TokenBatch, on_cpu: Run | None) -> Tensor:
        if on_cpu is None:
            spare = ", with cpu_fallback=True," if self._adjustable else ""
            raise ModelError(
                f"{self._device} has no memory for one text of {batch.size} tokens: load with a "
                f"smaller max_length{spare} or with device='cpu'"
            )
        self._warn(f"one text of {batch.size} tokens: it goes through the CPU")
        return on_cpu(batch)


def is_out_of_memory(error: RuntimeError) -> bool:
    """Whether an error says that a device has no memory left."""
    return isinstance(error, torch.OutOfMemoryError) or any(said in str(error) for said in _SAID)
