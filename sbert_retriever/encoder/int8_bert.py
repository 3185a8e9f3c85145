"""BERT with int8 matrix products: through the compiled kernel, or through torch without it.

Both round alike. The kernel keeps a few texts' activations in the processor's cache from the first
layer to the last, each thread its own texts, and needs no padding.
"""

from __future__ import annotations

import ctypes
import warnings
from dataclasses import replace
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from sbert_retriever.encoder.bert import Affine, BertBackbone, BertLayer, BertWeights, Linear
from sbert_retriever.encoder.int8 import rounded_linear
from sbert_retriever.encoder.native.build import NoKernelError, kernel
from sbert_retriever.encoder.native.structs import BatchStruct, NativeModel
from sbert_retriever.encoder.packing import PackedTexts
from sbert_retriever.errors import FallbackWarning, ModelError

_SHARE = 256
"""Tokens that a thread takes at a time: enough to keep the products busy, few enough for the
cache."""


def int8_backbone(weights: BertWeights) -> BertBackbone:
    """A model with int8 products; without the kernel, which is said once, it is slower.

    Args:
        weights: In float32 on the CPU.
    """
    rounded = replace(weights, layers=tuple(map(_rounded, weights.layers)))
    try:
        return NativeBert(rounded, kernel())
    except NoKernelError as error:
        _say_slower(str(error))
        return BertBackbone(rounded)


@lru_cache(maxsize=8)
def _say_slower(why: str) -> None:
    warnings.warn(
        f"dtype='int8' runs through torch, several times slower than compiled: {why}",
        FallbackWarning,
        stacklevel=2,
    )


def _rounded(layer: BertLayer) -> BertLayer:
    return replace(
        layer,
        qkv=_int8(layer.qkv),
        out=_int8(layer.out),
        up=_int8(layer.up),
        down=_int8(layer.down),
    )


def _int8(affine: Affine) -> Affine:
    return rounded_linear(affine) if isinstance(affine, Linear) else affine


class NativeBert(BertBackbone):
    """As its parent, in the compiled kernel. Many threads may use it.

    Args:
        weights: With int8 maps, on the CPU.
        library: The kernel.
    """

    def __init__(self, weights: BertWeights, library: ctypes.CDLL) -> None:
        super().__init__(weights)
        self._model = NativeModel(weights)
        self._run = library.sbert_bert_int8

    def __call__(
        self, input_ids: Tensor, attention_mask: Tensor | None, type_ids: Tensor | None = None
    ) -> Tensor:
        """Hidden states (batch, length, width); what is padding comes back as 0."""
        batch, length = input_ids.shape
        states = torch.zeros(batch, length, self._model.width)
        if attention_mask is None:
            lengths = np.full(batch, length, dtype=np.int64)
            self._compute(input_ids.flatten(), type_ids, lengths, states, length)
            return states
        lengths = attention_mask.sum(1).numpy()
        types = None if type_ids is None else type_ids[attention_mask]
        self._compute(input_ids[attention_mask], types, lengths, states, length)
        return states

    def packed(self, texts: PackedTexts, *, first_only: bool = False) -> Tensor:
        """Hidden states (tokens, width), or (texts, width) of each text's first token."""
        lengths = np.array(texts.lengths, dtype=np.int64)
        rows = len(lengths) if first_only else len(texts.ids)
        states = torch.empty(rows, self._model.width)
        self._compute(texts.ids, texts.types, lengths, states, None, first_only=first_only)
        return states

    def _compute(
        self,
        ids: Tensor,
        types: Tensor | None,
        lengths: np.ndarray,
        states: Tensor,
        apart: int | None,
        *,
        first_only: bool = False,
    ) -> None:
        """Fill `states`; texts lie `apart` rows from each other in it, or end to end."""
        self._check(ids, types, lengths)
        starts = np.concatenate([[0], lengths.cumsum()]).astype(np.int64)
        count = len(lengths)
        step = 1 if first_only else apart
        rows = starts if step is None else np.arange(count, dtype=np.int64) * step
        threads = torch.get_num_threads()
        batch = BatchStruct(
            ids=ids.data_ptr(),
            types=None if types is None else types.data_ptr(),
            starts=starts.ctypes.data,
            rows=rows.ctypes.data,
            states=states.data_ptr(),
            texts=count,
            first_only=int(first_only),
            threads=threads,
            share=_share(int(starts[-1]), threads),
        )
        if self._run(ctypes.byref(self._model.struct), ctypes.byref(batch)):
            raise torch.OutOfMemoryError(f"not enough memory for {starts[-1]} tokens")

    def _check(self, ids: Tensor, types: Tensor | None, lengths: np.ndarray) -> None:
        """Refuse what lies outside the embeddings: the kernel would read past their end.

        Raises:
            ModelError: The tokenizer is another model's.
        """
        kinds, positions, _ = self.weights.places.shape
        limits = [("token id", ids, len(self.weights.words)), ("token type", types, kinds)]
        for name, values, limit in limits:
            if values is not None and len(values) and not 0 <= values.min() <= values.max() < limit:
                raise ModelError(f"{name} {int(values.max())}, and the model knows {limit}")
        if lengths.max(initial=0) > positions:
            raise ModelError(f"a text of {lengths.max()} tokens, and the model reads {positions}")


def _share(tokens: int, threads: int) -> int:
    """Tokens that a thread takes at a time; few tokens are shared out evenly."""
    return max(1, min(_SHARE, -(-tokens // threads)))
