"""How one query is answered at a point, every stage for real and timed."""

from __future__ import annotations

from collections.abc import Sequence

from sbert_retriever.rerank import Reranker
from sbert_retriever.retriever import Retriever
from sbert_retriever.search.late import by_late_interaction
from sbert_retriever.tradeoff.first_stage import CutVectors, first_stage_alone
from sbert_retriever.tradeoff.points import OperatingPoint
from sbert_retriever.tradeoff.records import Timing
from sbert_retriever.tradeoff.second_stage import reranked
from sbert_retriever.tradeoff.timing import Asked, Clock
from sbert_retriever.types import Hit, Scorer


class Asking:
    """Makes ways to answer a query.

    Args:
        retriever: Of the collection.
        scorer: A cross-encoder, or None.
    """

    def __init__(self, retriever: Retriever, scorer: Scorer | None) -> None:
        self._retriever = retriever
        self._encoder = retriever.encoder
        self._scorer = scorer
        self._reranker = Reranker(scorer, on_failure="raise") if scorer is not None else None

    def late(
        self, queries: Sequence[str], found: Sequence[list[Hit]], point: OperatingPoint
    ) -> list[list[Hit]]:
        """The candidates of each query in the order of late interaction, as a search has it."""
        store = self._retriever.store
        late = self._retriever.late_encoder
        steps = by_late_interaction(
            store, late, queries, found, count=point.late, stored=late is self._encoder
        )
        return store.connection.run(steps)

    def at(self, point: OperatingPoint) -> Asked:
        """All stages of a point."""

        def ask(query: str, text: str) -> Timing:
            first = self._retriever.search_detailed(
                text, point.candidates, profile=first_stage_alone(point)
            )
            hits, spent = first.hits, first.timings_ms
            clock = Clock()
            if point.late:
                hits = self.late([text], [hits], point)[0]
            pairs = 0
            if point.rerank and self._reranker is not None:
                pairs = reranked(self._reranker, text, hits, point).rescored
            again = clock.lap() if point.late or point.rerank else 0.0
            return Timing(query, spent["encode"], spent["search"], again, pairs)

        return ask

    def cut(self, point: OperatingPoint, vectors: CutVectors) -> Asked:
        """Exact search over cut vectors."""

        def ask(query: str, text: str) -> Timing:
            clock = Clock()
            vector = self._encoder.encode_queries([text])[0]
            encoded = clock.lap()
            vectors.search(vector, point.k)
            return Timing(query, encoded, clock.lap())

        return ask

    def some(self, scorer: Scorer, passages: dict[str, list[str]]) -> Asked:
        """The cross-encoder over some passages a query: {query id: texts}."""

        def ask(query: str, text: str) -> Timing:
            pairs = [(text, passage) for passage in passages[query]]
            clock = Clock()
            scorer.score(pairs)
            return Timing(query, 0.0, 0.0, clock.lap(), len(pairs))

        return ask
