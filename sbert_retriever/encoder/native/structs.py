"""The kernel's structures: what `bert_int8.cpp` reads, laid out as it reads it."""

from __future__ import annotations

import ctypes

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own customary name
from torch import Tensor

from sbert_retriever.encoder.bert import BertLayer, BertWeights
from sbert_retriever.encoder.int8 import Int8Linear

ACTIVATIONS = {"gelu": 0, "gelu_new": 1, "gelu_pytorch_tanh": 1, "relu": 2}
_PANEL = 64
_DEPTH = 4
_LINE = 64


class LinearStruct(ctypes.Structure):
    """`Linear`."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("weight", "scale", "sums", "bias")),
        ("inputs", ctypes.c_int32),
        ("columns", ctypes.c_int32),
    )


class LayerStruct(ctypes.Structure):
    """`Layer`."""

    _fields_ = (
        *((name, LinearStruct) for name in ("qkv", "out", "up", "down")),
        *((name, ctypes.c_void_p) for name in ("scale1", "shift1", "scale2", "shift2")),
    )


class ModelStruct(ctypes.Structure):
    """`Model`."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("layers", "words", "places", "scale", "shift")),
        *(
            (name, ctypes.c_int32)
            for name in ("layer_count", "width", "inner", "heads", "positions", "activation")
        ),
        ("eps", ctypes.c_float),
    )


class BatchStruct(ctypes.Structure):
    """`Batch`."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("ids", "types", "starts", "rows", "states")),
        ("texts", ctypes.c_int64),
        *((name, ctypes.c_int32) for name in ("first_only", "threads", "share")),
    )


class NativeModel:
    """A model's weights as the kernel wants them; it owns the memory that they lie in.

    Args:
        weights: In float32 on the CPU, their maps rounded to int8.
    """

    def __init__(self, weights: BertWeights) -> None:
        self._held: list[Tensor] = []
        self.width = weights.words.shape[1]
        layers = [self._layer(layer) for layer in weights.layers]
        self._layers = (LayerStruct * len(layers))(*layers)
        self.struct = ModelStruct(
            layers=ctypes.addressof(self._layers),
            words=self._at(weights.words),
            places=self._at(weights.places),
            scale=self._at(weights.norm[0]),
            shift=self._at(weights.norm[1]),
            layer_count=len(layers),
            width=self.width,
            inner=_int8(weights.layers[0].up).weight.shape[1],
            heads=weights.heads,
            positions=weights.places.shape[1],
            activation=ACTIVATIONS[weights.activation],
            eps=weights.eps,
        )

    def _layer(self, layer: BertLayer) -> LayerStruct:
        (scale1, shift1), (scale2, shift2) = layer.norm1, layer.norm2
        return LayerStruct(
            *(self._linear(_int8(x)) for x in (layer.qkv, layer.out, layer.up, layer.down)),
            *(self._at(x) for x in (scale1, shift1, scale2, shift2)),
        )

    def _linear(self, linear: Int8Linear) -> LinearStruct:
        packed = panels(linear.weight)
        more = packed.shape[0] * _PANEL - linear.weight.shape[1]
        columns = (F.pad(x, (0, more)) for x in (linear.scale, linear.sums, linear.bias))
        return LinearStruct(
            self._at(packed),
            *(self._at(x) for x in columns),
            inputs=packed.shape[1] * _DEPTH,
            columns=packed.shape[0] * _PANEL,
        )

    def _at(self, tensor: Tensor) -> int:
        """The address of a copy that begins on a cache line, which `self` keeps."""
        raw = tensor.contiguous().flatten().view(torch.uint8)
        room = torch.empty(raw.numel() + _LINE, dtype=torch.uint8)
        skipped = -room.data_ptr() % _LINE
        room[skipped : skipped + raw.numel()] = raw
        self._held.append(room)
        return room.data_ptr() + skipped


def panels(weight: Tensor) -> Tensor:
    """Weights (in, out) as (out / 64, in / 4, 64, 4), filled up with zeros."""
    inputs, columns = weight.shape
    filled = F.pad(weight, (0, -columns % _PANEL, 0, -inputs % _DEPTH))
    parts = filled.view(filled.shape[0] // _DEPTH, _DEPTH, -1, _PANEL)
    return parts.permute(2, 0, 3, 1).contiguous()


def _int8(linear: object) -> Int8Linear:
    if not isinstance(linear, Int8Linear):
        raise TypeError(f"a layer holds {type(linear).__name__}, expected Int8Linear")
    return linear
