"""Matryoshka: any objective over vectors, on their first dimensions too."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own customary name
from torch import Tensor, nn


def first_dimensions(vectors: Tensor, dim: int, *, normalize: bool) -> Tensor:
    """The first `dim` numbers of vectors (batch, width), set to length 1 where wanted."""
    cut = vectors[:, :dim]
    return F.normalize(cut, dim=1) if normalize else cut


class MatryoshkaModule(nn.Module):
    """Sum over m of w_m L(first m dimensions) (Kusupati et al. 2022, equation 1).

    Args:
        parts: An objective for each width.
        dims: The widths m, the full one last.
        weights: w_m.
        normalize: Whether shortened vectors are set to length 1, as the model then gives them.
    """

    def __init__(
        self,
        parts: Sequence[nn.Module],
        *,
        dims: Sequence[int],
        weights: Sequence[float],
        normalize: bool,
    ) -> None:
        super().__init__()
        self.parts = nn.ModuleList(parts)
        self.dims, self.weights, self.normalize = tuple(dims), tuple(weights), normalize

    def forward(self, vectors: Sequence[Tensor], target: Tensor | None) -> Tensor:
        """The loss of columns of vectors (batch, dim)."""
        losses = [
            weight * part(self._shortened(vectors, dim), self._shortened_target(target, dim))
            for part, dim, weight in zip(self.parts, self.dims, self.weights, strict=True)
        ]
        return torch.stack(losses).sum()

    def _shortened(self, vectors: Sequence[Tensor], dim: int) -> list[Tensor]:
        return [first_dimensions(x, dim, normalize=self.normalize) for x in vectors]

    def _shortened_target(self, target: Tensor | None, dim: int) -> Tensor | None:
        """A teacher's vectors are shortened as the student's; labels, scores and marks stay."""
        full = self.dims[-1]
        if target is None or dim == full or target.shape[1:] != (full,):
            return target
        if target.dtype == torch.bool:
            return target
        return first_dimensions(target, dim, normalize=self.normalize)
