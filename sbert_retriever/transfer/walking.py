"""Walk through a whole collection, page by page."""

from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np

from sbert_retriever.index.steps import Steps
from sbert_retriever.index.store import PassageStore
from sbert_retriever.ingest.exchange import Entry
from sbert_retriever.types import Failure, Passage

_PAGE = 500
_SEED = 0


class Sample:
    """Ids drawn from a stream, each equally likely, the same ones for the same stream."""

    def __init__(self, size: int) -> None:
        self.ids: list[str] = []
        self._size = size
        self._seen = 0
        self._random = random.Random(_SEED)

    def see(self, passage_id: str) -> None:
        """Draw it, or not."""
        self._seen += 1
        if len(self.ids) < self._size:
            self.ids.append(passage_id)
        elif (place := self._random.randrange(self._seen)) < self._size:
            self.ids[place] = passage_id


def passages(store: PassageStore, sample: Sample | None = None) -> Iterator[Passage]:
    """Every passage of a collection."""
    offset: str | int | None = None
    while True:
        steps = store.scroll(condition=None, limit=_PAGE, offset=offset)
        page, offset = store.connection.run(steps)
        for passage, _ in page:
            if sample is not None:
                sample.see(passage.id)
            yield passage
        if offset is None:
            return


def entries(store: PassageStore, sample: Sample, failures: list[Failure]) -> Iterator[Entry]:
    """Every passage of a collection with its vector; those without one go to the failures."""
    offset: str | int | None = None
    while True:
        steps = store.scroll(condition=None, limit=_PAGE, offset=offset, vectors=True)
        page, offset = store.connection.run(steps)
        for passage, vector in page:
            if vector is None or not np.isfinite(vector).all():
                what = "has no vector" if vector is None else "has NaN or infinity in its vector"
                failures.append(Failure(passage.id, f"{what}: index it again, or delete it"))
                continue
            sample.see(passage.id)
            yield Entry(None, passage, vector)
        if offset is None:
            return


def missing_from(other: PassageStore, store: PassageStore) -> Steps[list[str]]:
    """Ids of a collection that another one lacks."""
    missing: list[str] = []
    offset: str | int | None = None
    while True:
        page, offset = yield from store.scroll(condition=None, limit=_PAGE, offset=offset)
        ids = [passage.id for passage, _ in page]
        known = other.connection.run(other.fingerprints(ids))
        missing.extend(i for i in ids if i not in known)
        if offset is None:
            return missing
