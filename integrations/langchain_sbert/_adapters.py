"""LangChain's embeddings as the core's encoders, and the other way round."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from langchain_core.embeddings import Embeddings

from langchain_sbert.embeddings import SBERTEmbeddings
from sbert_retriever.errors import InputTypeError, ModelError
from sbert_retriever.types import Encoder, ModelIdentity

if TYPE_CHECKING:
    from sbert_retriever.types import Vectors

_NAMES_OF_A_MODEL = ("model_name", "model", "model_id")


def encoder_of(embedding: Embeddings) -> Encoder:
    """The encoder behind embeddings: our own as it is, any other adapted.

    Raises:
        InputTypeError: It is no `Embeddings`.
    """
    if isinstance(embedding, SBERTEmbeddings):
        return embedding.encoder
    if not isinstance(embedding, Embeddings):
        raise InputTypeError(
            f"embedding is {type(embedding).__name__}, expected LangChain Embeddings such as "
            "SBERTEmbeddings(model='all-MiniLM-L6-v2')"
        )
    return EmbeddingsEncoder(embedding)


class EmbeddingsEncoder:
    """Any LangChain embeddings as an encoder.

    What is known of their model is the class, the model's name where they tell it, and the width
    of their vectors, which one embedding measures; a collection compares no more than that.

    Args:
        embeddings: With synchronous methods; an event loop's calls go through a thread.
    """

    def __init__(self, embeddings: Embeddings) -> None:
        self._embeddings = embeddings

    @cached_property
    def dim(self) -> int:
        """Width of the vectors."""
        return len(self._array(self._embeddings.embed_query("dimension")))

    @cached_property
    def identity(self) -> ModelIdentity:
        """What the collection remembers."""
        model = _model_name(self._embeddings)
        name = self._class_name if model is None else f"{self._class_name}({model})"
        return ModelIdentity(name=name, dim=self.dim)

    def encode_queries(self, texts: Iterable[str]) -> Vectors:
        """Questions to vectors (n, dim), one call each."""
        given = list(texts)
        return self._matrix([self._embeddings.embed_query(text) for text in given], given)

    def encode_passages(self, texts: Iterable[str]) -> Vectors:
        """Passages to vectors (n, dim), in one call."""
        given = list(texts)
        return self._matrix(self._embeddings.embed_documents(given) if given else [], given)

    @property
    def _class_name(self) -> str:
        return type(self._embeddings).__qualname__

    def _array(self, vector: Any) -> Vectors:
        """One vector, as it was given."""
        try:
            row = np.asarray(vector, dtype=np.float32)
        except (TypeError, ValueError) as error:
            raise ModelError(
                f"{self._class_name} gave no vector ({error}): nothing was written"
            ) from error
        if row.ndim != 1:
            raise ModelError(
                f"{self._class_name} gave {type(vector).__name__} of the shape {row.shape}, "
                "expected a vector for each text: nothing was written"
            )
        return row

    def _matrix(self, found: Any, texts: Sequence[str]) -> Vectors:
        """Check that no text lost its vector and no vector its width."""
        rows = [self._array(row) for row in (found if isinstance(found, Iterable) else [found])]
        if len(rows) != len(texts):
            raise ModelError(
                f"{self._class_name} gave {len(rows)} vectors for {len(texts)} texts, so "
                "they cannot be matched: nothing was written"
            )
        widths = {len(row) for row in rows} - {self.dim}
        if widths:
            raise ModelError(
                f"{self._class_name} gave a vector of {min(widths)} dimensions, and its others "
                f"have {self.dim}: nothing was written"
            )
        return np.stack(rows) if rows else np.empty((0, self.dim), dtype=np.float32)


def _model_name(embeddings: Embeddings) -> str | None:
    names = (getattr(embeddings, name, None) for name in _NAMES_OF_A_MODEL)
    return next((name for name in names if isinstance(name, str)), None)


class EncoderEmbeddings(Embeddings):
    """An encoder as LangChain embeddings, loaded when first used.

    Args:
        load: Hands over the encoder.
    """

    def __init__(self, load: Callable[[], Encoder]) -> None:
        self._load = load

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Passages to vectors."""
        rows: list[list[float]] = self._load().encode_passages(texts).tolist()
        return rows

    def embed_query(self, text: str) -> list[float]:
        """A question to a vector."""
        row: list[float] = self._load().encode_queries([text])[0].tolist()
        return row
