"""Hidden states to vectors: pooling, Dense layers, truncation, length 1; all in float32."""

from __future__ import annotations

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
    denses = tuple(_load_dense(spec).to(device) for spec in checkpoint.denses)
    return Head(checkpoint.pooling, denses, truncate_dim, checkpoint.normalize)


def _load_dense(spec: DenseSpec) -> nn.Module:
    linear = nn.Linear(spec.in_features, spec.out_features, bias=spec.bias)
    state = load_state(spec.folder)
    try:
        linear.load_state_dict({n.removeprefix("linear."): x for n, x in state.items()})
    except RuntimeError as error:
        raise ModelFormatError(
            f"the weights in {spec.folder} do not fit its config.json: {error}"
        ) from error
    activation: nn.Module = getattr(nn, spec.activation)()
    return nn.Sequential(linear, activation).eval().requires_grad_(False)
