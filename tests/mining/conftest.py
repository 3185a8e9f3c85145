"""Collections of vectors that are written as they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from sbert_retriever import Passage, Retriever
from sbert_retriever.index.points import draft

Fill = Callable[..., Retriever]


@pytest.fixture
def fill() -> Fill:
    """Write vectors (n, dim) under the ids given, past the encoder."""

    def fill(retriever: Retriever, rows: Any, ids: Sequence[str] | None = None) -> Retriever:
        store = retriever.store
        names = [f"p{n:03}" for n in range(len(rows))] if ids is None else ids
        passages = [
            Passage(name, f"text of {name}", {"even": n % 2 == 0}) for n, name in enumerate(names)
        ]
        drafts = [draft(passage, store.layout) for passage in passages]
        store.connection.run(store.write(drafts, np.asarray(rows, dtype=np.float32)))
        return retriever

    return fill


def circle(*degrees: float) -> np.ndarray:
    """Unit vectors in a plane, by their angle: cosines are those of the differences."""
    angles = np.radians(degrees)
    return np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)


@pytest.fixture(name="circle")
def circle_fixture() -> Callable[..., np.ndarray]:
    return circle
