"""What a retriever holds, and how its operations are driven."""

from __future__ import annotations

from typing import TypeVar

from qdrant_client import models

from sbert_retriever.closing import Closing
from sbert_retriever.index.filters import build_filter
from sbert_retriever.index.steps import Steps
from sbert_retriever.index.store import PassageStore
from sbert_retriever.lazy_encoder import LazyEncoder
from sbert_retriever.search.request import FilterSpec
from sbert_retriever.search.second_stage import SecondStage

T = TypeVar("T")


class Held(Closing):
    """A collection, and the models that it is asked with.

    Args:
        store: The collection.
        encoder: Texts to vectors, loaded when first needed.
        second: The reranker, where there is one, and the collection's profile.
    """

    def __init__(
        self, store: PassageStore, encoder: LazyEncoder, second: SecondStage | None = None
    ) -> None:
        self._store = store
        self._encoder = encoder
        self._second = second or SecondStage()

    def _run(self, steps: Steps[T]) -> T:
        return self._store.connection.run(steps)

    async def _arun(self, steps: Steps[T]) -> T:
        return await self._store.connection.arun(steps)

    def _condition(self, spec: FilterSpec | None) -> models.Filter | None:
        return build_filter(spec, metadata_key=self._store.layout.metadata_key)
