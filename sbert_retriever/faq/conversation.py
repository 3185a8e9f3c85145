"""Questions of a conversation, one at a time, to `FaqAnswer`s."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from time import perf_counter

from sbert_retriever.errors import InputError, InputTypeError
from sbert_retriever.faq.asking import Found, Lookup
from sbert_retriever.faq.deciding import Judge
from sbert_retriever.faq.entries import FaqAnswer, FaqCandidate, FaqEntry, Outcome
from sbert_retriever.faq.keeping import Shelf
from sbert_retriever.faq.kept import Kept
from sbert_retriever.faq.matching import Match, Matched, matched
from sbert_retriever.faq.passages import ANSWER, KIND
from sbert_retriever.index.filters import FilterSpec
from sbert_retriever.search.request import Query, query_text

FOLLOW_UP_WORDS = 6
"""A question of more words is taken by itself."""
SUPPORTING = 3
"""A follow-up is answered by an entry that is among so many by itself, in a large FAQ."""
_RANK = {"answer": 2, "choose": 1, "abstain": 0}


@dataclass
class Conversation:
    """Answers questions.

    Args:
        lookup: Finds what a question matches.
        shelf: The entries.
        judge: Decides what to do with it.
        kept: What was calibrated, here or elsewhere.
        on_unanswered: Told of each question that gets no answer.
    """

    lookup: Lookup
    shelf: Shelf
    judge: Judge
    kept: Kept
    on_unanswered: Callable[[str], None] | None = None

    def ask(
        self,
        question: str,
        previous: str | None,
        budget_ms: float | None,
        *,
        k: int,
        filter: FilterSpec | None,
    ) -> FaqAnswer:
        """As `Faq.ask`."""
        started = perf_counter()
        query_text(question, "question")
        if previous is not None and not isinstance(previous, str):
            raise InputTypeError(f"previous is {type(previous).__name__}, expected str or None")
        Query(k=k, filter=filter, budget_ms=budget_ms)  # checked before anything is looked up
        if budget_ms is not None and self.lookup.reranker is None:
            raise InputError(
                "budget_ms is time for a cross-encoder, and this FAQ is open without one: open it "
                "with reranker= (--reranker; serve: --faq-rerank), or leave the budget out"
            )
        self.kept.follow()
        self.judge.tell_outdated()
        answer = self._exact(question, k, filter)
        if answer is None:
            spent = (perf_counter() - started) * 1e3
            left = None if budget_ms is None else max(budget_ms - spent, 0.0)
            answer = self._nearest(question, previous, left, k, filter)
            answer = replace(answer, timings_ms={"exact": spent, **answer.timings_ms})
        if answer.outcome != "answer" and self.on_unanswered is not None:
            self.on_unanswered(question)
        total = (perf_counter() - started) * 1e3
        return replace(answer, timings_ms={**answer.timings_ms, "total": total})

    def warm_up(self) -> None:
        """Read the models' weights, and warn of what the first question would warn of."""
        self.judge.tell_outdated()
        self.lookup.nearest(["warm up"], condition=None)
        if self.lookup.reranker is not None:
            self.lookup.reranker.warm_up_once()

    # Inside -----------------------------------------------------------------------------

    def _exact(self, question: str, k: int, condition: FilterSpec | None) -> FaqAnswer | None:
        started = perf_counter()
        hits = self.lookup.exact(question, condition)
        if not hits:
            return None
        found = matched(hits)
        spent = (perf_counter() - started) * 1e3
        # A question that two entries claim is for the user to decide.
        sure = len(found.matches) == 1
        known = self.judge.calibration
        certain = known.exact if sure and known is not None else None
        return self._answer(
            question,
            Found(matched=found, timings_ms={"exact": spent}),
            k,
            outcome=("answer" if sure else "choose", certain),
            exact=True,
        )

    def _nearest(
        self,
        question: str,
        previous: str | None,
        budget_ms: float | None,
        k: int,
        condition: FilterSpec | None,
    ) -> FaqAnswer:
        follows = previous if len(question.split()) <= FOLLOW_UP_WORDS else None
        asked = [question, f"{follows} {question}"] if follows else [question]
        found = self.lookup.nearest(asked, condition=condition, budget_ms=budget_ms)
        alone = self._answer(question, found[0], k)
        if len(asked) == 1:
            return alone
        if not self._says_something(question, found[0].matched, found[1].matched):
            return alone
        joined = self._supported(self._answer(asked[1], found[1], k), found[0].matched)
        # By itself where that is as good: who changes the subject means the new one.
        return max(alone, joined, key=lambda answer: _RANK[answer.outcome])

    def _says_something(self, question: str, alone: Matched, joined: Matched) -> bool:
        """Whether a follow-up by itself is near to what it matches with the last question.

        "Thanks" is not: with a question before it, it would match what that one did.
        """
        if self.judge.thresholds is None or not joined.matches:
            return True
        entry = joined.matches[0].entry
        score = alone.score_of(entry)
        if score is None:  # of many entries, only the nearest were found
            score = self.lookup.score(question, entry)
        return score is not None and score >= self.judge.thresholds.said_by_itself

    def _supported(self, joined: FaqAnswer, alone: Matched) -> FaqAnswer:
        """An answer to two questions together, as a list where the second says nothing for it.

        The first alone is often enough to match its own entry, whatever is asked after it.
        """
        if joined.entry is None:
            return joined
        several = max(1, min(SUPPORTING, self.shelf.count() // 10))
        if joined.entry.id in [match.entry for match in alone.matches[:several]]:
            return joined
        return replace(joined, outcome="choose", answer=None, entry=None, phrasing=None)

    def _answer(
        self,
        question: str,
        found: Found,
        k: int,
        *,
        outcome: tuple[Outcome, float | None] | None = None,
        exact: bool = False,
    ) -> FaqAnswer:
        decided, confidence = outcome or self.judge.decided(found.matched)
        candidates = self._candidates(found.matched, k)
        best = candidates[0] if candidates else None
        if best is None or best.entry.id != found.matched.matches[0].entry:
            # Deleted meanwhile: what was decided was decided of that one.
            decided, confidence = ("choose" if candidates else "abstain"), None
        given = best if decided == "answer" else None
        return FaqAnswer(
            question=question,
            outcome=decided,
            answer=None if given is None else given.entry.answer,
            confidence=confidence,
            entry=None if given is None else given.entry,
            phrasing=None if given is None else given.phrasing,
            candidates=candidates,
            exact=exact,
            timings_ms=found.timings_ms,
            fallback=found.fallback,
        )

    def _candidates(self, found: Matched, k: int) -> tuple[FaqCandidate, ...]:
        first = found.matches[:k]
        entries = self.shelf.get([match.entry for match in first])
        # An entry that was deleted meanwhile is in none of them.
        return tuple(_candidate(m, entries[m.entry]) for m in first if m.entry in entries)


def _candidate(match: Match, entry: FaqEntry) -> FaqCandidate:
    hit = match.hit
    return FaqCandidate(
        entry=entry,
        phrasing=entry.title if hit.metadata.get(KIND) == ANSWER else hit.text,
        score=hit.score,
        score_kind=hit.score_kind,
        first_score=hit.first_score,
    )
