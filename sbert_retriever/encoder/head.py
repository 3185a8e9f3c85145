"""Hidden states to vectors: pooling, Dense layers, truncation, length 1; all in float32."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own customary name
from torch import Tensor, nn

from sbert_retriever.encoder.checkpoint import Checkpoint, DenseSpec
from sbert_retriever.encoder.pooling import pool
from sbert_retriever.encoder.weights import load_state
from sbert_retriever.errors import ModelFormatError


@dataclass(frozen=True)
class Head:
    """What comes after the transformer.

    Args:
        pooling: One mode or several, concatenated.
        denses: Layers after it.
        truncate_dim: Keep this many of the first dimensions (Matryoshka); None keeps all.
        normalize: Whether vectors leave with length 1, truncated ones too.
    """

    pooling: tuple[str, ...]
    denses: tuple[nn.Module, ...]
    truncate_dim: int | None
    normalize: bool

    def __call__(self, hidden: Tensor, mask: Tensor | None) -> Tensor:
        """Vectors (batch, dim) float32 of hidden states (batch, length, width)."""
        vectors = pool(hidden, mask, self.pooling)
        for dense in self.denses:
            vectors = dense(vectors)
        vectors = vectors[:, : self.truncate_dim]
        return F.normalize(vectors, dim=1) if self.normalize else vectors


def load_head(checkpoint: Checkpoint, *, truncate_dim: int | None, device: torch.device) -> Head:
    """Read the modules after a checkpoint's transformer.

    Raises:
        ModelFormatError: A Dense layer's weights do not fit its configuration.
    """
    denses = tuple(load_dense(spec).to(device) for spec in checkpoint.denses)
    return Head(checkpoint.pooling, denses, truncate_dim, checkpoint.normalize)


class Dense(nn.Module):
    """A linear layer, an activation, and what it was given on top where it is residual.

    Args:
        spec: Its sizes.
    """

    def __init__(self, spec: DenseSpec) -> None:
        super().__init__()
        self.linear = nn.Linear(spec.in_features, spec.out_features, bias=spec.bias)
        self._activation: nn.Module = getattr(nn, spec.activation)()
        self.residual: nn.Module | None = None
        if spec.residual and spec.in_features == spec.out_features:
            self.residual = nn.Identity()
        elif spec.residual:
            self.residual = nn.Linear(spec.in_features, spec.out_features, bias=False)

    def forward(self, vectors: Tensor) -> Tensor:
        """Vectors (..., out) of vectors (..., in)."""
        made: Tensor = self._activation(self.linear(vectors))
        return made if self.residual is None else made + self.residual(vectors)


def load_dense(spec: DenseSpec) -> Dense:
    """Read a Dense layer.

    Raises:
        ModelFormatError: Its weights do not fit its configuration.
    """
    dense = Dense(spec)
    try:
        dense.load_state_dict(_in_full(load_state(spec.folder)))
    except RuntimeError as error:
        raise ModelFormatError(
            f"the weights in {spec.folder} do not fit its config.json: {error}"
        ) from error
    return dense.eval().requires_grad_(False)


def _in_full(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The names with the layer they belong to, which old files leave out."""
    return {name if "." in name else f"linear.{name}": tensor for name, tensor in state.items()}
