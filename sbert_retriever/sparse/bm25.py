"""BM25 (Robertson and Zaragoza 2009) as sparse vectors, whose inner product is the score.

A passage's vector has the term frequencies, saturated and normalised by its length; a question's
has a one for each term; the inverse document frequency is the engine's, which knows how many of its
passages have a term. Those that were deleted or replaced count until the engine tidies up.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import Any
from zlib import crc32

import qdrant_edge as edge

from sbert_retriever.errors import InputError
from sbert_retriever.types import SparseIdentity, SparseVector

NAME = "bm25"
# The look-behind keeps a long word that is no name from being tried once for each of its letters.
_NAME = re.compile(r"(?<!\w)\w+(?:[.:/@_-]\w+)+")


class Bm25:
    """Terms to numbers, without a model. Words are stemmed, stop words left out.

    The terms and numbers are those of Qdrant's own BM25, and one more for each name: `os.path.join`
    and `XK-4711` are terms as wholes too, so that a passage that has the name itself comes before
    those that have its parts.

    Args:
        language: Of stems and stop words, as an English word: "english", "german", "none", ...
        k: How soon more of the same term adds little.
        b: How much a passage's length counts, from 0 to 1.
        avg_len: Words of a usual passage.
        names: Whether names are terms as wholes.

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
        names: bool = True,
    ) -> None:
        if not (k > 0 and 0 <= b <= 1 and avg_len > 0):
            raise InputError(
                f"Bm25 has k={k}, b={b}, avg_len={avg_len}: expected k and avg_len above 0, and b "
                "from 0 to 1"
            )
        self._settings: dict[str, Any] = {"language": language, "k": k, "b": b, "avg_len": avg_len}
        self._names = names
        try:
            self._model = edge.Bm25(edge.Bm25Config(**self._settings))
        except Exception as error:
            raise InputError(
                f"BM25 cannot be made for language {language!r} ({error}): name another, or 'none'"
            ) from error

    @property
    def identity(self) -> SparseIdentity:
        """What the collection remembers."""
        return SparseIdentity(
            name=NAME,
            score_kind="bm25",
            idf=True,
            settings={**self._settings, "names": self._names},
        )

    def encode_queries(self, texts: Iterable[str]) -> list[SparseVector]:
        """A vector for each question."""
        return [
            _vector(self._model.embed_query(text), self._names_of(text, in_query=True))
            for text in texts
        ]

    def encode_passages(self, texts: Iterable[str]) -> list[SparseVector]:
        """A vector for each passage."""
        return [
            _vector(self._model.embed_document(text), self._names_of(text, in_query=False))
            for text in texts
        ]

    def _names_of(self, text: str, *, in_query: bool) -> dict[int, float]:
        """The names in a text as {index: value}."""
        if not self._names:
            return {}
        counts = Counter(crc32(f"name {name}".encode()) for name in names(text))
        if in_query:
            return dict.fromkeys(counts, 1.0)
        k, b, average = (self._settings[key] for key in ("k", "b", "avg_len"))
        rest = k * (1 - b + b * len(text.split()) / average)
        return {index: tf * (k + 1) / (tf + rest) for index, tf in counts.items()}


def names(text: str) -> list[str]:
    """What reads as a name or a code: parts joined by a dot, a hyphen and the like, in lower case.

    Examples:
        >>> names("Call os.path.join, or order the XK-4711.")
        ['os.path.join', 'xk-4711']
    """
    return [name.lower() for name in _NAME.findall(text)]


def share_of_names(text: str) -> float:
    """How much of a question is names, from 0 to 1, by characters.

    Examples:
        >>> share_of_names("os.path.join"), share_of_names("how do I join two paths?")
        (1.0, 0.0)
    """
    letters = sum(not c.isspace() for c in text)
    return sum(map(len, names(text))) / letters if letters else 0.0


def _vector(made: Any, more: dict[int, float]) -> SparseVector:
    terms = dict(zip(made.indices, made.values, strict=True)) | more
    return SparseVector(list(terms), list(terms.values()))
