"""Attention within each of several texts that lie end to end.

On CUDA by torch's kernel for texts of different lengths, in half precision and where this torch has
it (2.10 and later; elsewhere it raises NotImplementedError, so the device decides). Everywhere else
text by text, which is what the tests hold the kernel's callers to.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own customary name
from torch import Tensor

from sbert_retriever.encoder.packing import PackedTexts

Attention = Callable[..., Tensor]
"""`(q, k, v, texts, first_only=...)`: q (tokens, heads, size), or (texts, heads, size) of the first
tokens alone; k and v (tokens, heads, size); gives what q has."""

_HALVES = (torch.float16, torch.bfloat16)
_LARGEST_HEAD = 256


def packs_well(device: torch.device, dtype: torch.dtype, size: int) -> bool:
    """Whether a device has a kernel for texts end to end.

    Args:
        device: Where it would run.
        dtype: Of the queries, keys and values.
        size: Width of a head.
    """
    fits = dtype in _HALVES and size % 8 == 0 and size <= _LARGEST_HEAD
    if device.type != "cuda" or not fits or torch.version.hip is not None:
        return False
    return torch.cuda.get_device_capability(device) >= (8, 0) and _kernel() is not None


@lru_cache(maxsize=1)
def _kernel() -> Callable[..., Tensor] | None:
    try:
        from torch.nn.attention.varlen import varlen_attn
    except ImportError:
        return None
    return varlen_attn  # type: ignore[return-value]  # a tuple only where return_aux asks for it


def by_kernel(
    q: Tensor, k: Tensor, v: Tensor, texts: PackedTexts, *, first_only: bool = False
) -> Tensor:
    """Attention on a device that `packs_well`."""
    kernel = _kernel()
    if kernel is None:
        return by_text(q, k, v, texts, first_only=first_only)
    if not first_only:
        return kernel(q, k, v, texts.starts, texts.starts, texts.longest, texts.longest)
    ones = torch.arange(len(texts.lengths) + 1, dtype=torch.int32, device=q.device)
    return kernel(q, k, v, ones, texts.starts, 1, texts.longest)


def by_text(
    q: Tensor, k: Tensor, v: Tensor, texts: PackedTexts, *, first_only: bool = False
) -> Tensor:
    """Attention text by text, on any device and in any floating type."""
    lengths = list(texts.lengths)
    asked = [1] * len(lengths) if first_only else lengths
    split = torch.split
    parts = zip(split(q, asked), split(k, lengths), split(v, lengths), strict=True)
    return torch.cat([_one(*part) for part in parts])


def _one(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Attention of one text: (queries, heads, size)."""
    q, k, v = (x.transpose(0, 1)[None] for x in (q, k, v))
    return F.scaled_dot_product_attention(q, k, v)[0].transpose(0, 1)
