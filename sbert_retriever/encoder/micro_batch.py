"""Texts of callers in several threads, encoded together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from sbert_retriever.encoder.giving_up import check_wanted, for_others_too
from sbert_retriever.encoder.texts import checked
from sbert_retriever.errors import InputError
from sbert_retriever.micro_batching import BatchCounts, MicroBatcher
from sbert_retriever.types import Encoder, ModelIdentity, OnTruncate, Role

if TYPE_CHECKING:
    from sbert_retriever.types import Vectors

Turn: TypeAlias = Callable[..., Any]

# A batch should take some tens of milliseconds on a processor, so that nobody waits long for it.
_CHARACTERS_AT_ONCE = 8000
_CHARACTERS_READ = 1500
_CHARACTERS_OF_SPECIAL_TOKENS = 10


def text_batcher(encode: Callable[[list[str]], Vectors]) -> MicroBatcher[str, Any]:
    """A micro-batcher of texts, whose results are the rows of what `encode` gives."""

    def encoded(texts: list[str]) -> Vectors:
        with for_others_too():
            return encode(texts)

    return MicroBatcher(encoded, most=_CHARACTERS_AT_ONCE, size=_characters)  # type: ignore[arg-type]  # rows of an array


class MicroBatchedEncoder:
    """An encoder whose callers in several threads are encoded together. Itself an `Encoder`.

    Vectors are those that the encoder gives, but for the last digits: padding differs. It never
    warns of truncation. A caller that is given up ends between two batches; none ends within one,
    which has texts of others.

    Args:
        encoder: What encodes.
        wait_s: As for `MicroBatcher`.
        turn: Called with a function and its arguments, gives what they give: where models share a
            processor, it lets one of them work at a time. None calls at once.
    """

    def __init__(
        self, encoder: Encoder, *, wait_s: float = 0.002, turn: Turn | None = None
    ) -> None:
        self._encoder = encoder
        self._turn = turn or _at_once
        self._batcher: MicroBatcher[tuple[Role, str], Any] = MicroBatcher(
            self._encode,
            most=_CHARACTERS_AT_ONCE,
            size=lambda item: _characters(item[1]),
            wait_s=wait_s,
            check=check_wanted,
        )

    @property
    def encoder(self) -> Encoder:
        """What encodes."""
        return self._encoder

    @property
    def dim(self) -> int:
        """Width of the vectors."""
        return self._encoder.dim

    @property
    def identity(self) -> ModelIdentity:
        """What a collection remembers of the encoder."""
        return self._encoder.identity

    @property
    def on_truncate(self) -> OnTruncate:
        """What the encoder does with a text that is too long, where it is asked by itself."""
        policy: OnTruncate = getattr(self._encoder, "on_truncate", "ignore")
        return policy

    @property
    def counts(self) -> BatchCounts:
        """What was done so far."""
        return self._batcher.counts

    def encode_queries(self, texts: Iterable[str]) -> Vectors:
        """Encode questions: float32 (n, dim)."""
        return self._vectors("query", texts)

    def encode_passages(self, texts: Iterable[str]) -> Vectors:
        """Encode passages: float32 (n, dim)."""
        return self._vectors("passage", texts)

    def encode_tokens(self, texts: Iterable[str], *, role: Role) -> list[Vectors]:
        """One float32 (tokens, width) a text, for late interaction; each caller by itself.

        Raises:
            InputError: The encoder gives none.
        """
        encode = getattr(self._encoder, "encode_tokens", None)
        if encode is None:
            raise InputError(
                f"token vectors were asked for, and {type(self._encoder).__name__} gives none"
            )
        tokens: list[Vectors] = self._turn(partial(encode, role=role), list(checked(texts)))
        return tokens

    def warm_up(self) -> None:
        """Read the weights now, so that no text has to wait for them."""
        warm_up = getattr(self._encoder, "warm_up", None)
        if warm_up is not None:
            self._turn(warm_up)

    def _vectors(self, role: Role, texts: Iterable[str]) -> Vectors:
        given = checked(list(checked(texts)))
        rows = self._batcher.run([(role, text) for text in given])
        return np.stack(rows) if rows else np.empty((0, self.dim), dtype=np.float32)

    def _encode(self, items: list[tuple[Role, str]]) -> Sequence[Any]:
        with for_others_too():
            return self._rows(items)

    def _rows(self, items: list[tuple[Role, str]]) -> list[Any]:
        rows: list[Any] = [None] * len(items)
        roles: tuple[Role, Role] = ("query", "passage")
        for role in roles:
            places = [n for n, (asked, _) in enumerate(items) if asked == role]
            if places:
                vectors = self._of_role(role, [items[n][1] for n in places])
                for place, vector in zip(places, vectors, strict=True):
                    rows[place] = vector
        return rows

    def _of_role(self, role: Role, texts: list[str]) -> Vectors:
        detailed = getattr(self._encoder, "encode_detailed", None)
        vectors: Vectors
        if detailed is not None and self.on_truncate != "error":
            vectors = self._turn(partial(detailed, role=role), texts).vectors
            return vectors
        named = "encode_queries" if role == "query" else "encode_passages"
        vectors = self._turn(getattr(self._encoder, named), texts)
        return vectors


def _at_once(function: Callable[..., Any], *args: Any) -> Any:
    return function(*args)


def _characters(text: str) -> int:
    """What a text costs, roughly; a model reads no more than so many tokens of it."""
    return min(len(text), _CHARACTERS_READ) + _CHARACTERS_OF_SPECIAL_TOKENS
