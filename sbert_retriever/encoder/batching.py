"""Texts of like length together, as many at once as a budget of tokens allows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from sbert_retriever.errors import InputError

# Tokens in a batch and tokens from which a batch ends where the length changes, by device.
# Measured on the CPU only (MiniLM, float32, one thread, processor time; short sentences and
# abstracts a second): 1024/512 391 and 17, 2048/1024 372 and 18, 8192/2048 (4096) 307 and 15;
# sentence-transformers 323 and 14.
_BATCH_TOKENS = {"cpu": (1024, 512), "cuda": (65536, 32768), "mps": (16384, 8192)}
# In int8 each thread computes its own texts, and wants several shares of them in a batch.
_INT8_THREAD_TOKENS = 1024

TokenIds = npt.NDArray[np.int32]
"""The token ids of one text: int32 (length,)."""


@dataclass(frozen=True)
class TokenBatch:
    """Token ids of several texts, longest first, and the rows they came from.

    Args:
        token_ids: One array a text.
        rows: The text's place in the caller's order.
    """

    token_ids: tuple[TokenIds, ...]
    rows: tuple[int, ...]

    @property
    def size(self) -> int:
        """Tokens, padding included."""
        return len(self.token_ids[0]) * len(self.rows)

    def halves(self) -> tuple[TokenBatch, TokenBatch]:
        """Two batches, of the longer and of the shorter texts."""
        middle = (len(self.rows) + 1) // 2
        return (
            TokenBatch(self.token_ids[:middle], self.rows[:middle]),
            TokenBatch(self.token_ids[middle:], self.rows[middle:]),
        )

    def padded(self, pad_id: int, *, device: torch.device) -> tuple[Tensor, Tensor | None]:
        """Token ids (batch, length) int64 and a mask (batch, length) bool.

        The mask is None where all texts have one length: attention without a mask is faster.
        """
        lengths = [len(ids) for ids in self.token_ids]
        longest = lengths[0]
        if lengths[-1] == longest:
            return torch.from_numpy(np.stack(self.token_ids)).long().to(device), None
        grid = np.full((len(lengths), longest), pad_id, dtype=np.int64)
        mask = np.arange(longest) < np.array(lengths)[:, None]
        grid[mask] = np.concatenate(self.token_ids)
        return torch.from_numpy(grid).to(device), torch.from_numpy(mask).to(device)


def batch_sizes(
    batch_tokens: int | None, device: torch.device, dtype: torch.dtype
) -> tuple[int, int]:
    """`max_tokens` and `full_tokens` of `token_batches` on a device.

    Args:
        batch_tokens: What the caller wants for the first; None suits the device.
        device: Where the model runs.
        dtype: What it computes in.

    Raises:
        InputError: `batch_tokens` is below 1.
    """
    most, full = _BATCH_TOKENS[device.type]
    if dtype == torch.int8:
        most = _INT8_THREAD_TOKENS * torch.get_num_threads()
        full = most // 2
    if batch_tokens is not None and batch_tokens < 1:
        raise InputError(f"batch_tokens={batch_tokens}, expected 1 or more")
    return most if batch_tokens is None else batch_tokens, full


def token_batches(
    token_ids: Sequence[TokenIds], *, max_tokens: int, full_tokens: int | None = None
) -> Iterator[TokenBatch]:
    """Batches of near-equal length, longest first.

    The longest go first, so that a batch too big for the memory shows at once.

    Args:
        token_ids: One array a text.
        max_tokens: Tokens in a batch, padding included; a longer text is a batch of its own.
        full_tokens: A batch with this many tokens ends where the length changes, so that it
            needs no padding. None never ends one early.

    Examples:
        >>> texts = [np.zeros(n, dtype=np.int32) for n in (2, 5, 5, 1)]
        >>> [batch.rows for batch in token_batches(texts, max_tokens=10)]
        [(1, 2), (0, 3)]
    """
    order = sorted(range(len(token_ids)), key=lambda row: -len(token_ids[row]))
    rows: list[int] = []
    for row in order:
        if rows and _is_full(token_ids, rows, row, max_tokens, full_tokens):
            yield _batch(token_ids, rows)
            rows = []
        rows.append(row)
    if rows:
        yield _batch(token_ids, rows)


def _is_full(
    token_ids: Sequence[TokenIds],
    rows: list[int],
    row: int,
    max_tokens: int,
    full_tokens: int | None,
) -> bool:
    longest = len(token_ids[rows[0]])
    if longest * (len(rows) + 1) > max_tokens:
        return True
    changes = len(token_ids[row]) != len(token_ids[rows[-1]])
    return full_tokens is not None and changes and longest * len(rows) >= full_tokens


def _batch(token_ids: Sequence[TokenIds], rows: list[int]) -> TokenBatch:
    return TokenBatch(tuple(token_ids[row] for row in rows), tuple(rows))
