"""The first stage's part: its candidates at every setting, and its vectors cut shorter."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sbert_retriever.index.vectors import unit_rows
from sbert_retriever.retriever import Retriever
from sbert_retriever.tradeoff.points import OperatingPoint
from sbert_retriever.types import Fusion, Hit, Passage, Profile, SearchMode

if TYPE_CHECKING:
    from sbert_retriever.types import Vectors

_PAGE = 1000
Hits = dict[str, list[Hit]]
"""{query id: its candidates, best first}."""


class Key(NamedTuple):
    """What the first stage of a point depends on."""

    candidates: int
    exact: bool
    ef: int | None
    oversampling: float | None
    rescore: bool | None
    mode: SearchMode
    fusion: Fusion | None


def first_stage_key(point: OperatingPoint) -> Key:
    """Points of one key have the same candidates."""
    profile = point.profile
    return Key(
        point.candidates,
        profile.exact,
        profile.ef,
        profile.oversampling,
        profile.rescore,
        point.mode,
        profile.fusion if point.mode == "hybrid" else None,
    )


class Candidates:
    """The first stage's hits at each setting that the points ask for, found once.

    Args:
        retriever: Asked for its first stage alone.
        queries: {query id: text}.
        vectors: {query id: its vector (dim,)}.
    """

    def __init__(
        self, retriever: Retriever, queries: Mapping[str, str], vectors: Mapping[str, Vectors]
    ) -> None:
        self._retriever = retriever
        self._queries = queries
        self._vectors = vectors
        self._found: dict[Key, Hits] = {}
        # One copy of a text, however many queries find it.
        self._passages: dict[str, Passage] = {}

    def of(self, point: OperatingPoint) -> Hits:
        """The candidates of every query at a point."""
        key = first_stage_key(point)
        if key not in self._found:
            self._found[key] = {
                query: [self._slim(hit) for hit in hits] for query, hits in self._search(point)
            }
        return self._found[key]

    def _search(self, point: OperatingPoint) -> Iterator[tuple[str, list[Hit]]]:
        if point.mode == "dense":
            for query, vector in self._vectors.items():
                yield query, searched(self._retriever, vector, point)
            return
        texts = list(self._queries.values())
        found = self._retriever.search_batch(
            texts, point.candidates, profile=first_stage_alone(point)
        )
        yield from zip(self._queries, found, strict=True)

    def _slim(self, hit: Hit) -> Hit:
        kept = self._passages.setdefault(hit.id, Passage(hit.id, hit.text))
        return replace(hit, passage=kept)


def first_stage_alone(point: OperatingPoint) -> Profile:
    """A point's settings without what comes after its first stage."""
    return replace(point.profile, rerank_depth=0, late=0, mode=point.mode)


def searched(retriever: Retriever, vector: Vectors, point: OperatingPoint) -> list[Hit]:
    """The dense first stage of one query, by its vector (dim,)."""
    profile = point.profile
    return retriever.search_by_vector(
        vector,
        point.candidates,
        exact=profile.exact,
        ef=profile.ef,
        oversampling=profile.oversampling,
        rescore=profile.rescore,
    )


@dataclass(frozen=True)
class Contents:
    """What a collection holds.

    Args:
        ids: Of all passages; empty where no vectors were asked for.
        vectors: float32 (n, dim), in the order of the ids.
        sample: The texts of some passages, drawn evenly.
    """

    ids: list[str]
    vectors: Vectors
    sample: list[str]


def read_contents(retriever: Retriever, *, vectors: bool, sample: int, seed: int) -> Contents:
    """Read a collection once, page by page.

    Args:
        retriever: Of the collection.
        vectors: Whether to keep every vector: n * dim * 4 bytes.
        sample: How many texts to draw.
        seed: Of the draw.
    """
    rng = np.random.default_rng(seed)
    ids: list[str] = []
    rows: list[Vectors] = []
    drawn: list[str] = []
    for number, (passage, vector) in enumerate(_scrolled(retriever, vectors=vectors)):
        if vector is not None:
            ids.append(passage.id)
            rows.append(vector)
        # Reservoir sampling (Vitter 1985, algorithm R): each passage is as likely as any other.
        place = number if number < sample else int(rng.integers(number + 1))
        if place < sample:
            drawn[place : place + 1] = [passage.text]
    matrix = np.array(rows, dtype=np.float32).reshape(len(rows), retriever.info().dim)
    return Contents(ids, matrix, drawn)


def _scrolled(retriever: Retriever, *, vectors: bool) -> Iterator[tuple[Passage, Vectors | None]]:
    store = retriever.store
    offset = None
    while True:
        page, offset = store.connection.run(
            store.scroll(condition=None, limit=_PAGE, offset=offset, vectors=vectors)
        )
        yield from page
        if offset is None:
            return


class CutVectors:
    """Exact search over the first dimensions of all vectors, set to length 1 again.

    Args:
        contents: With every vector.
        dimension: How many dimensions are kept.
    """

    def __init__(self, contents: Contents, dimension: int) -> None:
        self._ids = contents.ids
        self._dimension = dimension
        self._rows = _cut(contents.vectors, dimension)

    def search(self, vector: Vectors, k: int) -> list[str]:
        """The ids of the k nearest passages of a whole query vector (dim,), best first."""
        # Not by @: numpy's own threads go on spinning, and slow the next encoding threefold.
        scores = np.einsum("ij,j->i", self._rows, _cut(vector[None], self._dimension)[0])
        best = np.argpartition(-scores, k - 1)[:k] if k < len(scores) else np.arange(len(scores))
        order = best[np.lexsort((best, -scores[best]))]
        return [self._ids[row] for row in order]


def _cut(vectors: Vectors, dimension: int) -> Vectors:
    rows = vectors[:, :dimension]
    return np.ascontiguousarray(unit_rows(rows))
