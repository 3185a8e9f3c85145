"""Texts end to end without padding, as one long row of tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from sbert_retriever.encoder.batching import TokenIds


@dataclass(frozen=True)
class PackedTexts:
    """The tokens of several texts, one text after the other.

    Args:
        ids: Token ids, (tokens,) int64.
        places: Where in its text each token stands, (tokens,) int64.
        types: Which text of a pair each token is of, (tokens,) int64; None is the first.
        starts: Where each text begins, and where the last one ends, (texts + 1,) int32.
        lengths: Tokens of each text.
    """

    ids: Tensor
    places: Tensor
    types: Tensor | None
    starts: Tensor
    lengths: tuple[int, ...]

    @property
    def longest(self) -> int:
        """Tokens of the longest text."""
        return max(self.lengths)

    def spread(self, states: Tensor) -> tuple[Tensor, Tensor | None]:
        """States (tokens, width) as (texts, longest, width), with a mask (texts, longest) bool.

        The mask is None where all texts have one length.
        """
        count, longest = len(self.lengths), self.longest
        if min(self.lengths) == longest:
            return states.view(count, longest, -1), None
        texts = torch.arange(count, device=states.device).repeat_interleave(
            self.starts.diff(), output_size=len(states)
        )
        rows = texts * longest + self.places
        grid = states.new_zeros(count * longest, states.shape[1])
        mask = torch.zeros(count * longest, dtype=torch.bool, device=states.device)
        grid[rows], mask[rows] = states, True
        return grid.view(count, longest, -1), mask.view(count, longest)


def packed(
    token_ids: Sequence[TokenIds],
    type_ids: Sequence[TokenIds] | None,
    *,
    device: torch.device,
) -> PackedTexts:
    """Texts end to end on a device; a GPU copies them while it computes."""
    lengths = np.array([len(ids) for ids in token_ids])
    starts = np.concatenate([[0], lengths.cumsum()])
    places = np.arange(starts[-1]) - np.repeat(starts[:-1], lengths)
    types = None if type_ids is None else to_device(np.concatenate(type_ids), np.int64, device)
    return PackedTexts(
        ids=to_device(np.concatenate(token_ids), np.int64, device),
        places=to_device(places, np.int64, device),
        types=types,
        starts=to_device(starts, np.int32, device),
        lengths=tuple(lengths.tolist()),
    )


def to_device(values: np.ndarray, kind: type[np.generic], device: torch.device) -> Tensor:
    """An array as a tensor on a device, through pinned memory where that is a CUDA device."""
    tensor = torch.from_numpy(values.astype(kind, copy=False))
    if device.type != "cuda":
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)
