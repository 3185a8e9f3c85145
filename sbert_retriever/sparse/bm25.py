"""BM25 (Robertson and Zaragoza 2009) as sparse vectors, whose inner product is the score.

A passage's vector has the term frequencies, saturated and normalised by its length; a question's
has a one for each term; the inverse document frequency is the engine's, which knows how many of its
passages have a term, and is kept right as passages come and go.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import qdrant_edge as edge

from sbert_retriever.errors import InputError
from sbert_retriever.types import SparseIdentity, SparseVector

NAME = "bm25"


class Bm25:
    """Terms to numbers, without a model. Words are stemmed, stop words left out.

    The embedded engine brings the same terms and numbers as a server's own BM25.

    Args:
        language: Of stems and stop words, as an English word: "english", "german", "none", ...
        k: How soon more of the same term adds little.
        b: How much a passage's length counts, from 0 to 1.
        avg_len: Words of a usual passage.

    Raises:
        InputError: The language is unknown, or a number is out of range.

    Examples:
        >>> Bm25().encode_queries(["the cats"]) == Bm25().encode_queries(["cat"])
        True
    """

    def __init__(
        self,
        *,
        language: str = "english",
        k: float = 1.2,
        b: float = 0.75,
        avg_len: float = 200.0,
    ) -> None:
        if not (k > 0 and 0 <= b <= 1 and avg_len > 0):
            raise InputError(
                f"Bm25 has k={k}, b={b}, avg_len={avg_len}: expected k and avg_len above 0, and b "
                "from 0 to 1"
            )
        self._settings: dict[str, Any] = {"language": language, "k": k, "b": b, "avg_len": avg_len}
        try:
            self._model = edge.Bm25(edge.Bm25Config(**self._settings))
        except Exception as error:
            raise InputError(
                f"BM25 cannot be made for language {language!r} ({error}): name another, or 'none'"
            ) from error

    @property
    def identity(self) -> SparseIdentity:
        """What the collection remembers."""
        return SparseIdentity(name=NAME, score_kind="bm25", idf=True, settings=self._settings)

    def encode_queries(self, texts: Iterable[str]) -> list[SparseVector]:
        """A vector for each question."""
        return [_vector(self._model.embed_query(text)) for text in texts]

    def encode_passages(self, texts: Iterable[str]) -> list[SparseVector]:
        """A vector for each passage."""
        return [_vector(self._model.embed_document(text)) for text in texts]


def _vector(made: Any) -> SparseVector:
    return SparseVector(list(made.indices), list(made.values))
