"""The way of one question: the same words, else the nearest phrasings, else a second look."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from time import perf_counter

from qdrant_client import models

from sbert_retriever.faq.keeping import Shelf
from sbert_retriever.faq.matching import Matched, matched, weighed
from sbert_retriever.faq.passages import EXACT, entry_id_of, exact_key
from sbert_retriever.index.filters import FilterSpec, build_filter
from sbert_retriever.index.store import source_is
from sbert_retriever.rerank import Reranker, RerankOptions
from sbert_retriever.retriever import Retriever
from sbert_retriever.types import Hit, Passage, Profile, SearchMode

PHRASINGS = 50
"""How many phrasings the first stage finds."""
RESCORED = 5
"""How many entries the cross-encoder looks at."""
ANSWER_READ = 200
"""How many characters of an answer it reads."""


@dataclass(frozen=True, kw_only=True)
class Found:
    """What a question came to, before it is decided what to do with it.

    Args:
        matched: The entries, the best first.
        timings_ms: Milliseconds by stage.
        fallback: Why the first stage answered, where the second failed or had no time.
    """

    matched: Matched
    timings_ms: Mapping[str, float]
    fallback: str | None = None


@dataclass(frozen=True, kw_only=True)
class Lookup:
    """How questions are looked up.

    Args:
        retriever: Over the phrasings.
        shelf: The entries.
        mode: Which vectors the first stage searches.
        reranker: The second stage; None is none.
    """

    retriever: Retriever
    shelf: Shelf
    mode: SearchMode
    reranker: Reranker | None = None

    def exact(self, question: str, condition: FilterSpec | None) -> list[Hit]:
        """The phrasings that are this question, but for case and punctuation."""
        key = exact_key(question)
        if key is None:
            return []
        specs: list[FilterSpec | None] = [{EXACT: key}, condition]
        metadata_key = self.retriever.store.layout.metadata_key
        built = [build_filter(spec, metadata_key=metadata_key) for spec in specs]
        wanted = models.Filter(must=[part for part in built if part is not None])
        page, _ = self.retriever.scroll(filter=wanted, limit=PHRASINGS)
        return [Hit(passage, 1.0) for passage in page]

    def nearest(
        self,
        questions: Sequence[str],
        *,
        condition: FilterSpec | None,
        budget_ms: float | None = None,
    ) -> list[Found]:
        """What each question matches; they go through the encoder together.

        The budget is for all of them: each has an equal part of what those before left.
        """
        profile = Profile(name="faq", candidates=PHRASINGS, rerank_depth=0, mode=self.mode)
        results = self.retriever.search_batch_detailed(
            questions, PHRASINGS, filter=condition, profile=profile
        )
        spent = results[0].timings_ms["total"] if results else 0.0
        found: list[Found] = []
        for question, result in zip(questions, results, strict=True):
            left = None
            if budget_ms is not None:
                left = max(budget_ms - spent, 0.0) / (len(questions) - len(found))
            first = matched(result.hits, complete=len(result.hits) < PHRASINGS)
            found.append(self._second(question, first, result.timings_ms, left))
            spent += found[-1].timings_ms["rerank"]
        return found

    def score(self, question: str, entry: str) -> float | None:
        """The first stage's score of one entry; None where it is gone."""
        profile = Profile(name="faq", candidates=PHRASINGS, rerank_depth=0, mode=self.mode)
        hits = self.retriever.search(question, 1, filter=source_is(entry), profile=profile)
        return hits[0].score if hits else None

    def _second(
        self, question: str, first: Matched, timings: Mapping[str, float], left_ms: float | None
    ) -> Found:
        """Have the cross-encoder look at the first entries."""
        if self.reranker is None or not first.matches:
            return Found(matched=first, timings_ms=timings)
        started = perf_counter()
        pairs = self._with_answers([match.hit for match in first.matches[:RESCORED]])
        result = self.reranker.rerank_detailed(question, pairs, RerankOptions(budget_ms=left_ms))
        spent = (perf_counter() - started) * 1e3
        reason = next((hit.fallback for hit in result.hits if hit.fallback), None)
        times = {**timings, "rerank": spent, "total": timings["total"] + spent}
        logits = {hit.id: hit.score for hit in result.hits if hit.reranked}
        return Found(
            matched=weighed(first, logits, self.reranker.score_kind),
            timings_ms=times,
            fallback=reason,
        )

    def _with_answers(self, hits: Sequence[Hit]) -> list[Hit]:
        """The phrasings with how their answers begin: it was trained on questions and answers."""
        entries = self.shelf.get([entry_id_of(hit) for hit in hits])
        pairs = []
        for hit in hits:
            entry = entries.get(entry_id_of(hit))
            answer = "" if entry is None else entry.answer[:ANSWER_READ]
            text = f"{hit.text} {answer}"
            pairs.append(replace(hit, passage=Passage(hit.id, text, hit.metadata)))
        return pairs
