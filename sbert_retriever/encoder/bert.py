"""A lean BERT forward pass for inference (Devlin et al. 2019): query, key and value in one product.

Against transformers' BertModel, MiniLM in float32 on two cores, interleaved medians: one query
of 12 tokens 4.9 ms (7.6), 64 x 16 tokens 86 ms (97), 8 x 220 tokens 214 ms (217). The large
batches run at the speed of the matrix products. Weights that lie input-major in memory took a
query from 7.9 to 6.7 ms, and abstracts from 32.0 to 34.4 a second. What did not pay: weights packed
beforehand for oneDNN with bias, GELU and residual fused (27 ms a query), attention written out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own customary name
from torch import Tensor

from sbert_retriever.encoder.attention import by_kernel, by_text, packs_well
from sbert_retriever.encoder.batching import TokenIds
from sbert_retriever.encoder.known_tokens import check_token_ids, check_type_ids
from sbert_retriever.encoder.packing import PackedTexts
from sbert_retriever.encoder.workspace import Workspace
from sbert_retriever.errors import ModelError, ModelFormatError

Norm = tuple[Tensor, Tensor]
"""Scale and shift of a layer norm, (width,) each."""

Shape = tuple[int | None, ...]
"""Of a tensor that is read; None is any size."""

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": torch.ops.aten.gelu_,
    "gelu_new": partial(torch.ops.aten.gelu_, approximate="tanh"),
    "gelu_pytorch_tanh": partial(torch.ops.aten.gelu_, approximate="tanh"),
    "relu": torch.relu_,
}
"""Each works in place."""


class Affine(Protocol):
    """An affine map, however its weights are kept."""

    @property
    def bias(self) -> Tensor:
        """What is added: (out,)."""

    def __call__(self, x: Tensor, out: Tensor | None = None) -> Tensor:
        """Map (..., in) to (..., out), into `out` (rows, out) where that is given and of use."""


@dataclass(frozen=True)
class Linear:
    """An affine map.

    Args:
        weight: (in, out).
        bias: (out,).
    """

    weight: Tensor
    bias: Tensor

    def __call__(self, x: Tensor, out: Tensor | None = None) -> Tensor:
        """Map (..., in) to (..., out), into `out` (rows, out) where that is given."""
        rows = torch.addmm(self.bias, x.reshape(-1, x.shape[-1]), self.weight, out=out)
        return rows.view(*x.shape[:-1], -1)


@dataclass(frozen=True)
class BertLayer:
    """One layer's weights.

    Args:
        qkv: Query, key and value in one.
        out: After the attention.
        up: Into the inner width.
        down: Out of it.
        norm1: After the attention.
        norm2: After the feed-forward part.
    """

    qkv: Affine
    out: Affine
    up: Affine
    down: Affine
    norm1: Norm
    norm2: Norm


@dataclass(frozen=True)
class BertWeights:
    """What a BERT is made of.

    Args:
        words: (vocabulary, width).
        places: Position and type embeddings, summed in float32 and rounded once: (types,
            positions, width).
        norm: After the embeddings.
        layers: In their order.
        heads: Of the attention.
        eps: Of the layer norms.
        activation: A key of `ACTIVATIONS`.
    """

    words: Tensor
    places: Tensor
    norm: Norm
    layers: tuple[BertLayer, ...]
    heads: int
    eps: float
    activation: str


def read_weights(
    config: Mapping[str, Any],
    state: Mapping[str, Tensor],
    *,
    device: torch.device,
    dtype: torch.dtype,
) -> BertWeights:
    """The weights of a state dict, with or without the prefix "bert.".

    Raises:
        ModelFormatError: A tensor is missing or has another shape than the config says.
    """
    read = TensorReader(state, device=device, dtype=dtype)
    words = read("embeddings.word_embeddings.weight", shape=(None, None))
    width = words.shape[1]
    _check_sizes(config, width=width)
    positions = read.exact("embeddings.position_embeddings.weight", shape=(None, width))
    types = read.exact("embeddings.token_type_embeddings.weight", shape=(None, width))
    inner = len(read("encoder.layer.0.intermediate.dense.bias", shape=(None,)))
    return BertWeights(
        words=words,
        places=(types[:, None] + positions).to(dtype),
        norm=read.norm("embeddings.LayerNorm", width=width),
        layers=tuple(
            _layer(read, i, width=width, inner=inner)
            for i in range(int(config["num_hidden_layers"]))
        ),
        heads=int(config["num_attention_heads"]),
        eps=float(config.get("layer_norm_eps", 1e-12)),
        activation=config.get("hidden_act", "gelu"),
    )


class BertBackbone:
    """Token ids to hidden states, as transformers' BertModel without its pooler.

    Args:
        weights: What `read_weights` reads.
    """

    def __init__(self, weights: BertWeights) -> None:
        self.weights = weights
        self.device = weights.words.device
        size = weights.words.shape[1] // weights.heads
        self.packs_well = packs_well(self.device, weights.words.dtype, size)
        """Whether `packed` is the quick way here, rather than padding."""
        self._within = by_kernel if self.packs_well else by_text
        self._layers = weights.layers
        self._activation = ACTIVATIONS[weights.activation]
        self._space = Workspace()

    def check(
        self, token_ids: Sequence[TokenIds], type_ids: Sequence[TokenIds] | None = None
    ) -> None:
        """Refuse tokens that the model has no embedding for, before they go to a device.

        Raises:
            ModelError: A text has one, or more tokens than the model has places.
        """
        types, places, _ = self.weights.places.shape
        check_token_ids(token_ids, known=len(self.weights.words))
        check_type_ids(type_ids, known=types)
        longest = max(map(len, token_ids), default=0)
        if longest > places:
            raise ModelError(
                f"a text has {longest} tokens, and the model reads {places}: load it with "
                f"max_length={places} or less"
            )

    def __call__(
        self, input_ids: Tensor, attention_mask: Tensor | None, type_ids: Tensor | None = None
    ) -> Tensor:
        """Hidden states (batch, length, width) of token ids (batch, length) int64.

        Args:
            input_ids: Token ids, padded on the right.
            attention_mask: (batch, length) bool, True where a token counts; None where all do.
            type_ids: (batch, length) int64, which text of a pair a token is of; None is the first.
        """
        x = self._embedded(input_ids, torch.arange(input_ids.shape[1]), type_ids)
        for layer in self._layers:
            x = self._after(layer, x, self._attend(self._wide(layer.qkv, x), attention_mask))
        return x

    def packed(self, texts: PackedTexts, *, first_only: bool = False) -> Tensor:
        """Hidden states (tokens, width) of texts end to end, without any padding.

        Args:
            texts: On the model's device.
            first_only: Gives the states (texts, width) of each text's first token; the last layer
                is computed for these alone.
        """
        x = self._embedded(texts.ids, texts.places, texts.types)
        for layer in self._layers[: -1 if first_only else None]:
            x = self._after(layer, x, self._attend_packed(self._wide(layer.qkv, x), texts))
        if not first_only:
            return x
        last = self._layers[-1]
        mixed = self._attend_packed(self._wide(last.qkv, x), texts, first_only=True)
        return self._after(last, x[texts.starts[:-1].long()], mixed)

    def _embedded(self, input_ids: Tensor, places: Tensor, type_ids: Tensor | None) -> Tensor:
        types = 0 if type_ids is None else type_ids
        places = places.to(input_ids.device)
        x = F.embedding(input_ids, self.weights.words) + self.weights.places[types, places]
        return self._normed(x, self.weights.norm)

    def _after(self, layer: BertLayer, x: Tensor, mixed: Tensor) -> Tensor:
        """What a layer makes of (..., width) and of its attention."""
        x = self._normed(self._narrow(layer.out, mixed).add_(x), layer.norm1)
        inner = self._activation(self._wide(layer.up, x))
        return self._normed(self._narrow(layer.down, inner).add_(x), layer.norm2)

    def _wide(self, affine: Affine, x: Tensor) -> Tensor:
        """What one of the maps to more numbers makes of (..., in); the next overwrites it."""
        return self._mapped("wide", affine, x)

    def _narrow(self, affine: Affine, x: Tensor) -> Tensor:
        """What one of the maps to the model's width makes of (..., in); the next overwrites it."""
        return self._mapped("narrow", affine, x)

    def _mapped(self, kind: str, affine: Affine, x: Tensor) -> Tensor:
        rows, width = x.numel() // x.shape[-1], len(affine.bias)
        return affine(x, self._space.take(kind, rows, width, like=x))

    def _attend(self, qkv: Tensor, mask: Tensor | None) -> Tensor:
        """Attention within each row of (batch, length, 3 * width): (batch, length, width)."""
        batch, length, _ = qkv.shape
        q, k, v = qkv.view(batch, length, 3, self.weights.heads, -1).permute(2, 0, 3, 1, 4)
        spread = None if mask is None else mask[:, None, None, :]
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=spread)
        return mixed.transpose(1, 2).flatten(2)

    def _attend_packed(
        self, qkv: Tensor, texts: PackedTexts, *, first_only: bool = False
    ) -> Tensor:
        """Attention within each text of (tokens, 3 * width): (tokens or texts, width)."""
        q, k, v = qkv.view(len(qkv), 3, self.weights.heads, -1).unbind(1)
        if first_only:
            q = q[texts.starts[:-1].long()]
        return self._within(q, k, v, texts, first_only=first_only).flatten(1)

    def _normed(self, x: Tensor, norm: Norm) -> Tensor:
        return F.layer_norm(x, norm[0].shape, *norm, self.weights.eps)


def runs_here(config: Mapping[str, Any]) -> bool:
    """Whether a configuration is the BERT of this module."""
    return (
        config.get("model_type") == "bert"
        and config.get("hidden_act", "gelu") in ACTIVATIONS
        and config.get("position_embedding_type", "absolute") == "absolute"
        and not config.get("is_decoder", False)
    )


def _check_sizes(config: Mapping[str, Any], *, width: int) -> None:
    """Refuse a config.json that is another model's than the weights.

    Raises:
        ModelFormatError: It is.
    """
    asked = config.get("hidden_size", width)
    if asked != width:
        raise ModelFormatError(
            f"config.json says hidden_size {asked!r}, and the weights have {width}"
        )
    layers, heads = config.get("num_hidden_layers"), config.get("num_attention_heads")
    if not (isinstance(layers, int) and layers > 0):
        raise ModelFormatError(f"config.json says num_hidden_layers {layers!r}, expected 1 or more")
    if not (isinstance(heads, int) and heads > 0 and width % heads == 0):
        raise ModelFormatError(
            f"config.json says num_attention_heads {heads!r}, expected a divisor of {width}"
        )


def _layer(read: TensorReader, number: int, *, width: int, inner: int) -> BertLayer:
    at = f"encoder.layer.{number}."
    parts = (f"{at}attention.self.{part}" for part in ("query", "key", "value"))
    return BertLayer(
        qkv=read.linear(*parts, inputs=width, outputs=width),
        out=read.linear(f"{at}attention.output.dense", inputs=width, outputs=width),
        up=read.linear(f"{at}intermediate.dense", inputs=width, outputs=inner),
        down=read.linear(f"{at}output.dense", inputs=inner, outputs=width),
        norm1=read.norm(f"{at}attention.output.LayerNorm", width=width),
        norm2=read.norm(f"{at}output.LayerNorm", width=width),
    )


class TensorReader:
    """Tensors by name, whatever prefix the checkpoint puts before them.

    Args:
        state: A state dict.
        device: Where the tensors go.
        dtype: In which floating type.
    """

    def __init__(
        self, state: Mapping[str, Tensor], *, device: torch.device, dtype: torch.dtype
    ) -> None:
        self._state = {_modern(name): tensor for name, tensor in state.items()}
        self._device, self._dtype = device, dtype

    def exact(self, name: str, *, shape: Shape | None = None) -> Tensor:
        """A tensor in float32; None in its shape is any size.

        Raises:
            ModelFormatError: It is missing, or has another shape: the int8 kernel, which looks at
                none, would write past its end.
        """
        if name not in self._state:
            raise ModelFormatError(
                f"the weights hold no {name}, which a BERT of this configuration has"
            )
        tensor = self._state[name]
        if shape is not None and not _fits(tuple(tensor.shape), shape):
            wanted = " x ".join("any" if size is None else str(size) for size in shape)
            raise ModelFormatError(
                f"the weights hold a {name} of shape {tuple(tensor.shape)}, expected {wanted} as "
                "the others have it: get the whole model again"
            )
        return tensor.to(self._device, torch.float32)

    def __call__(self, name: str, *, shape: Shape | None = None) -> Tensor:
        """A tensor in the reader's floating type."""
        return self.exact(name, shape=shape).to(self._dtype)

    def linear(self, *names: str, inputs: int | None = None, outputs: int | None = None) -> Linear:
        """One affine map, or several stacked; None as a size of each is any."""
        weights = [self(f"{name}.weight", shape=(outputs, inputs)) for name in names]
        biases = [
            self(f"{name}.bias", shape=(len(weight),))
            for name, weight in zip(names, weights, strict=True)
        ]
        weight = torch.cat(weights).t()
        if self._device.type == "cpu" and self._dtype == torch.float32:
            weight = weight.contiguous()
        return Linear(weight, torch.cat(biases))

    def norm(self, name: str, *, width: int) -> Norm:
        """Scale and shift of a layer norm."""
        return self(f"{name}.weight", shape=(width,)), self(f"{name}.bias", shape=(width,))


def _fits(found: tuple[int, ...], shape: Shape) -> bool:
    return len(found) == len(shape) and all(
        wanted in (None, size) for size, wanted in zip(found, shape, strict=True)
    )


def _modern(name: str) -> str:
    """A tensor's name without the prefix, and in today's spelling."""
    name = name.removeprefix("bert.")
    return name.replace("LayerNorm.gamma", "LayerNorm.weight").replace(
        "LayerNorm.beta", "LayerNorm.bias"
    )
