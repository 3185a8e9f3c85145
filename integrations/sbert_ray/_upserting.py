"""The worker that brings windows into a collection on a server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sbert_ray._answers import answers
from sbert_ray._models import Model
from sbert_retriever.retriever import Retriever
from sbert_retriever.retriever.writing import said_elsewhere
from sbert_retriever.types import IndexReport, Passage


class Indexer:
    """An actor: opens the collection for itself, and calls `Retriever.index` on each window.

    Args:
        location: The server's URL.
        model: What to load.
        settings: More for `Retriever.open`.
    """

    def __init__(self, *, location: str, model: Model, settings: dict[str, Any]) -> None:
        self._location = location
        self._model = model
        self._settings = settings
        self._retriever: Retriever | None = None

    def __call__(self, batch: Mapping[str, Any]) -> dict[str, list[str]]:
        """An answer to each window."""
        return answers(batch, self._index)

    def _index(self, passages: list[Passage]) -> IndexReport:
        if self._retriever is None:
            self._retriever = Retriever.open(
                self._location,
                model=self._model.given(),
                truncate_dim=self._model.truncate_dim,
                device=self._model.device,
                dtype=self._model.dtype,
                create=False,
                **self._settings,
            )
        # The whole run warns once, when all are counted.
        return self._retriever.index(passages, on_truncate=said_elsewhere(self._retriever))
