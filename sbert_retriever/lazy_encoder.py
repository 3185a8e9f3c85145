"""An encoder that is loaded at the first text, by one thread, and checked against the contract."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any

import numpy as np

from sbert_retriever.encoder.micro_batch import text_batcher
from sbert_retriever.errors import InputError, InputTypeError, ModelError
from sbert_retriever.forks import Lock
from sbert_retriever.index.contract import Contract
from sbert_retriever.ingest.encoding import Encoded
from sbert_retriever.micro_batching import MicroBatcher
from sbert_retriever.rerank.late import TokenEncoder
from sbert_retriever.types import Encoder, ModelIdentity, OnTruncate

if TYPE_CHECKING:
    from sbert_retriever.encoder.bi_encoder import BiEncoder
    from sbert_retriever.encoder.two_encoders import TwoEncoders
    from sbert_retriever.types import Vectors


# More of one caller are a batch of their own.
_FEW_TEXTS = 16
_OF_ONE_ENCODER = ("max_length", "pooling", "normalize")


class LazyEncoder:
    """A model's name, or an encoder, and the contract it must keep.

    Args:
        model: A name, a folder, an `Encoder`; None is the contract's own model.
        device: For a name or a folder.
        dtype: For a name or a folder.
        truncate_dim: For a name or a folder: how many numbers of a vector are kept.

    Raises:
        InputError: There is nothing to cut.
        InputTypeError: The model is nothing of these.
    """

    def __init__(
        self,
        model: str | PathLike[str] | Encoder | None,
        *,
        device: str,
        dtype: str,
        truncate_dim: int | None = None,
    ) -> None:
        self._name = fspath(model) if isinstance(model, str | PathLike) else None
        self._device = device
        self._dtype = dtype
        self._truncate_dim = truncate_dim
        if truncate_dim is not None and self._name is None:
            raise InputError(
                "truncate_dim goes with a model's name: a collection that is there has its width, "
                "and BiEncoder.load(..., truncate_dim=) makes an encoder that cuts"
            )
        self._encoder = None if model is None or self._name is not None else _checked(model)
        self._contract: Contract | None = None
        self._guard = Lock()
        self._batcher: MicroBatcher[str, Any] | None = None

    @property
    def given(self) -> bool:
        """Whether a model was asked for."""
        return self._encoder is not None or self._name is not None

    @property
    def loaded(self) -> bool:
        """Whether it can encode without loading anything first."""
        return self._encoder is not None

    @property
    def joins_callers(self) -> bool:
        """Whether it is loaded, and answers several callers sooner as one batch."""
        return bool(getattr(self._encoder, "joins_callers", False))

    @property
    def on_truncate(self) -> OnTruncate:
        """What the encoder does with a text that is too long; "warn" before it is loaded."""
        policy: OnTruncate = getattr(self._encoder, "on_truncate", "warn")
        return policy

    @property
    def identity(self) -> ModelIdentity:
        """What the encoder is; loads it."""
        return self.get().identity

    def bind(self, contract: Contract) -> None:
        """Hold the encoder to a contract; one that was asked for is checked at once.

        Raises:
            ContractError: It is another model.
        """
        if self.given:
            contract.check(self.identity)
        self._contract = contract

    def get(self) -> Encoder:
        """The encoder, loaded once.

        Raises:
            ModelNotFoundError: Nothing holds the model's name.
            ContractError: What was found under the name is not what the collection was built with.
        """
        with self._guard:
            if self._encoder is None:
                self._encoder = self._load()
            return self._encoder

    def encode_queries(self, texts: list[str]) -> Vectors:
        """Questions to vectors (n, dim); those of several threads go through the model together."""
        encoder = self.get()
        if len(texts) > _FEW_TEXTS or not self.joins_callers:
            return encoder.encode_queries(texts)
        return np.stack(self._joined(encoder).run(texts)) if texts else encoder.encode_queries([])

    def _joined(self, encoder: Encoder) -> MicroBatcher[str, Any]:
        with self._guard:
            if self._batcher is None:
                self._batcher = text_batcher(encoder.encode_queries)
            return self._batcher

    def encode_passages(
        self, texts: list[str], *, on_truncate: OnTruncate | None = None
    ) -> Encoded:
        """Passages to vectors (n, dim), with how many were cut.

        Args:
            texts: What is encoded.
            on_truncate: Anything but "error" has an encoder that refuses long texts cut them, if
                it can count them; None is its own.

        Raises:
            TextTooLongError: The encoder refuses long texts, and was not told otherwise.
        """
        encoder = self.get()
        detailed = getattr(encoder, "encode_detailed", None)
        refuses = getattr(encoder, "on_truncate", None) == "error"
        if detailed is None or (refuses and on_truncate in (None, "error")):
            # An encoder that is to refuse long texts does so here, before any is written.
            return Encoded(encoder.encode_passages(texts))
        encoding = detailed(texts, role="passage")
        cut = encoding.token_counts[encoding.truncated]
        return Encoded(encoding.vectors, len(cut), int(cut.max(initial=0)))

    def encode_passage_tokens(self, texts: list[str]) -> list[Vectors]:
        """Passages to token vectors, float32 (tokens, width) each.

        Raises:
            InputError: The encoder gives none.
        """
        encoder = self.get()
        if not isinstance(encoder, TokenEncoder):
            raise InputError(
                f"token vectors were asked for, and {type(encoder).__name__} gives none: use a "
                "BiEncoder, or leave them out"
            )
        return encoder.encode_tokens(texts, role="passage")

    def token_width(self) -> int:
        """Width of its token vectors.

        Raises:
            InputError: The encoder gives none.
        """
        return int(self.encode_passage_tokens(["width"])[0].shape[1])

    def _load(self) -> Encoder:
        if self._name is not None:
            return _kind(self._name).load(
                self._name,
                device=self._device,
                dtype=self._dtype,
                truncate_dim=self._truncate_dim,
            )
        asked = self._contract.model if self._contract is not None else None
        if asked is None or asked.name is None or asked.pooling is None:
            name = asked.name if asked is not None else None
            raise ModelError(
                f"the collection was built with {name or 'an unknown encoder'}, which cannot be "
                "loaded by name: open it with model= and that encoder"
            )
        load = partial(
            _kind(asked.name).load,
            asked.name,
            device=self._device,
            dtype=self._dtype,
            query_prompt=asked.query_prompt,
            passage_prompt=asked.passage_prompt,
            truncate_dim=asked.dim,
        )
        from sbert_retriever.encoder.two_encoders import holds_two

        settings: dict[str, Any] = {name: getattr(asked, name) for name in _OF_ONE_ENCODER}
        encoder = _pair(load, asked, settings) if holds_two(asked.name) else load(**settings)
        Contract(model=asked).check(encoder.identity)
        return encoder


def _pair(load: Callable[..., Encoder], asked: ModelIdentity, settings: dict[str, Any]) -> Encoder:
    """Two encoders by a contract, which has the passages' settings: the questions' may be others.

    As the folder says; or with what differs from that, said for both; or with the poolings said
    for both, which may be the passages' own.
    """
    encoder = load()
    plain = encoder.identity
    changed = {name: value for name, value in settings.items() if value != getattr(plain, name)}
    for said in (changed, {"pooling": asked.pooling, "normalize": asked.normalize, **changed}):
        if asked.differences(encoder.identity):
            encoder = load(**said)
    return encoder


def _kind(name: str) -> type[BiEncoder] | type[TwoEncoders]:
    """What loads a model: it has one encoder, or one for queries and one for passages."""
    from sbert_retriever.encoder.bi_encoder import BiEncoder
    from sbert_retriever.encoder.two_encoders import TwoEncoders, holds_two

    return TwoEncoders if holds_two(name) else BiEncoder


def _checked(model: object) -> Encoder:
    if isinstance(model, type) or not isinstance(model, Encoder):
        name = f"the class {model.__name__}" if isinstance(model, type) else type(model).__name__
        raise InputTypeError(
            f"model is {name}, expected a name, a folder or an Encoder "
            "(dim, identity, encode_queries, encode_passages)"
        )
    return model
