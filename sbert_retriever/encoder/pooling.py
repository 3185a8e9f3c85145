"""Token vectors to one vector: pure functions, in float32, padding never counted.

Each takes hidden states (batch, length, width) in float32 and a mask (batch, length), True
where a token counts, or None where all do; each gives (batch, width). Mean, max and CLS are
the paper's section 3; the others are found in published checkpoints.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor


def mean(hidden: Tensor, mask: Tensor | None) -> Tensor:
    """The average of the token vectors."""
    return _sum(hidden, mask) / _count(hidden, mask)


def mean_sqrt_len(hidden: Tensor, mask: Tensor | None) -> Tensor:
    """The sum of the token vectors over the square root of their number."""
    return _sum(hidden, mask) / _count(hidden, mask).sqrt()


def max_over_time(hidden: Tensor, mask: Tensor | None) -> Tensor:
    """The largest value in each dimension."""
    if mask is not None:
        hidden = hidden.masked_fill(~mask.unsqueeze(-1), float("-inf"))
    return hidden.amax(dim=1)


def cls(hidden: Tensor, mask: Tensor | None) -> Tensor:
    """The first token that counts."""
    if mask is None:
        return hidden[:, 0]
    return _pick(hidden, mask.int().argmax(dim=1))


def weighted_mean(hidden: Tensor, mask: Tensor | None) -> Tensor:
    """The average weighted by position: 1, 2, 3, ... (SGPT)."""
    weights = torch.arange(1, hidden.shape[1] + 1, device=hidden.device, dtype=hidden.dtype)
    weights = weights.expand(hidden.shape[:2])
    if mask is not None:
        weights = weights * mask
    total = torch.einsum("nlw,nl->nw", hidden, weights)
    return total / weights.sum(dim=1, keepdim=True).clamp(min=1e-9)


def last_token(hidden: Tensor, mask: Tensor | None) -> Tensor:
    """The last token that counts."""
    if mask is None:
        return hidden[:, -1]
    positions = torch.arange(hidden.shape[1], device=hidden.device)
    return _pick(hidden, (mask * positions).argmax(dim=1))


POOLINGS: dict[str, Callable[[Tensor, Tensor | None], Tensor]] = {
    "mean": mean,
    "max": max_over_time,
    "cls": cls,
    "mean_sqrt_len": mean_sqrt_len,
    "weighted_mean": weighted_mean,
    "last_token": last_token,
}


def pool(hidden: Tensor, mask: Tensor | None, modes: tuple[str, ...]) -> Tensor:
    """Pool by one or several modes, concatenated.

    Args:
        hidden: (batch, length, width) in any floating type.
        mask: (batch, length) bool, or None where every token counts.
        modes: Names of `POOLINGS`.

    Returns:
        (batch, width * len(modes)) in float32.

    Examples:
        >>> hidden = torch.tensor([[[1.0], [3.0], [50.0]]])
        >>> pool(hidden, torch.tensor([[True, True, False]]), ("mean", "max")).tolist()
        [[2.0, 3.0]]
    """
    hidden = hidden.float()
    pooled = [POOLINGS[mode](hidden, mask) for mode in modes]
    return pooled[0] if len(pooled) == 1 else torch.cat(pooled, dim=1)


def _sum(hidden: Tensor, mask: Tensor | None) -> Tensor:
    return (
        hidden.sum(dim=1)
        if mask is None
        else torch.einsum("nlw,nl->nw", hidden, mask.to(hidden.dtype))
    )


def _count(hidden: Tensor, mask: Tensor | None) -> Tensor:
    if mask is None:
        return hidden.new_full((1, 1), hidden.shape[1])
    return mask.sum(dim=1, keepdim=True).to(hidden.dtype).clamp(min=1e-9)


def _pick(hidden: Tensor, positions: Tensor) -> Tensor:
    return hidden[torch.arange(len(hidden), device=hidden.device), positions]
