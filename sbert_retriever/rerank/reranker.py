"""Rescore the first stage's hits with a cross-encoder, as many as the time allows."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
import numpy.typing as npt

from sbert_retriever.encoder.progress import progress_bar
from sbert_retriever.errors import FallbackWarning, InputError, InputTypeError
from sbert_retriever.forks import Lock
from sbert_retriever.index.steps import RetryPolicy, Steps, arun, run, work
from sbert_retriever.rerank.cost import CostModel
from sbert_retriever.rerank.early_stop import Settled, worth_scoring
from sbert_retriever.rerank.options import (
    EarlyStop,
    Ended,
    RerankOptions,
    RerankResult,
    checked_hits,
    checked_runs,
)
from sbert_retriever.rerank.outcome import (
    Ordering,
    SecondStage,
    first_stage_order,
    left_over,
    rescored,
)
from sbert_retriever.rerank.pace import LOOK_AHEAD, Pace
from sbert_retriever.rerank.scoring import (
    Floats,
    Pair,
    Prepared,
    guessed_lengths,
    measure,
    prepared,
    probe,
    probe_lengths,
    scored,
)
from sbert_retriever.types import Hit, RerankMode, Scorer

if TYPE_CHECKING:
    from sbert_retriever.encoder.cross_encoder import LongPassages
    from sbert_retriever.encoder.labels import Scale
    from sbert_retriever.types import ScoreKind

_PAIRS_AT_ONCE = 4096
_PROBED_WITHIN_S = 1.0
"""Where there was no time for a pair, the scorer's speed is measured anew, at most so often."""
_PROBED_LATE_S = 10.0
"""So often it is measured also where that is likely to take longer than the budget."""


@dataclass(frozen=True)
class _Failed:
    """What the scorer raised."""

    error: Exception


class Reranker:
    """Puts hits in a better order. Safe to use from many threads.

    Args:
        scorer: A `CrossEncoder`, or any `Scorer`.
        on_failure: "fallback" keeps the first stage's order, says so on each hit and warns;
            "raise" hands the scorer's error on.
        rrf_k: The constant of reciprocal rank fusion.
        clock: Seconds; replaced in tests.

    Raises:
        InputTypeError: The scorer has no method `score`.
        InputError: `on_failure` is unknown.
    """

    def __init__(
        self,
        scorer: Scorer,
        *,
        on_failure: Literal["fallback", "raise"] = "fallback",
        rrf_k: int = 60,
        clock: Callable[[], float] = perf_counter,
    ) -> None:
        if not isinstance(scorer, Scorer):
            raise InputTypeError(
                f"scorer is {type(scorer).__name__}, expected a CrossEncoder or an object with "
                "score(pairs): use Reranker.load for a name"
            )
        if on_failure not in ("fallback", "raise"):
            raise InputError(f"on_failure={on_failure!r}, expected 'fallback' or 'raise'")
        self.scorer = scorer
        self.cost = CostModel()
        self._raises = on_failure == "raise"
        self._rrf_k = rrf_k
        self._clock = clock
        self._warming = Lock()
        self._probed = 0.0

    @classmethod
    def load(
        cls,
        name: str | os.PathLike[str],
        *,
        device: str = "auto",
        dtype: str = "auto",
        max_length: int | None = None,
        label: int | str | None = None,
        scale: Scale = "logit",
        long_passages: LongPassages = "truncate",
        on_failure: Literal["fallback", "raise"] = "fallback",
    ) -> Reranker:
        """A reranker with the `CrossEncoder` of that name, whose `load` documents the rest."""
        from sbert_retriever.encoder.cross_encoder import CrossEncoder

        scorer = CrossEncoder.load(
            name,
            device=device,
            dtype=dtype,
            max_length=max_length,
            label=label,
            scale=scale,
            long_passages=long_passages,
        )
        return cls(scorer, on_failure=on_failure)

    @property
    def score_kind(self) -> ScoreKind:
        """The scale of the scorer's scores."""
        return cast("ScoreKind", getattr(self.scorer, "score_kind", "logit"))

    def rerank(
        self,
        query: str,
        hits: Sequence[Hit],
        *,
        k: int | None = None,
        candidates: int | None = None,
        budget_ms: float | None = None,
        mode: RerankMode = "replace",
        weight: float | None = None,
        early_stop: EarlyStop | None = None,
        min_score: float | None = None,
        pair_length: int | None = None,
    ) -> list[Hit]:
        """Rescore hits and put them in order.

        Rescored hits come first; the others follow in the order in which they came, with the
        scores that they came with. The hits given are not changed.

        Args:
            query: One question.
            hits: The first stage's, best first.
            k: How many to return; None is all, 0 none.
            candidates: How many, from the front, may be rescored; None is all.
            budget_ms: Milliseconds for all of it; as many candidates as fit are rescored, from the
                front. The scorer's speed is measured before its first budget begins: `warm_up`.
            mode: Whether the scorer's order replaces the one before or is fused with it.
            weight: For "fuse": None fuses ranks (reciprocal rank fusion, score_kind "rrf"); a
                number in 0 to 1 is the share of the scorer's scores, each stage's set to 0 .. 1
                over the rescored hits (score_kind "fused").
            early_stop: When to leave the rest unscored, which `k` is needed for; None never.
            min_score: Drop hits that the scorer gives less, on its own scale (`score_kind`),
                whatever the mode. Hits that it was not asked about are dropped too, unless the
                first stage's order is kept.
            pair_length: Tokens a pair may have in this call; None is the scorer's own limit.

        Raises:
            InputError: A value is out of range.
            InputTypeError: A value has the wrong type.
            Exception: What the scorer raised, where `on_failure` is "raise".

        Warns:
            FallbackWarning: The scorer failed, and the first stage's order is kept.
        """
        asked = RerankOptions(
            k=k,
            candidates=candidates,
            budget_ms=budget_ms,
            mode=mode,
            weight=weight,
            early_stop=early_stop,
            min_score=min_score,
            pair_length=pair_length,
        )
        return self.rerank_detailed(query, hits, asked).hits

    def rerank_detailed(
        self, query: str, hits: Sequence[Hit], options: RerankOptions | None = None
    ) -> RerankResult:
        """`rerank`, with what was done."""
        return run(self.steps(query, hits, options or RerankOptions()), None, RetryPolicy())

    async def arerank(
        self, query: str, hits: Sequence[Hit], options: RerankOptions | None = None
    ) -> RerankResult:
        """`rerank_detailed` without blocking the event loop: the scorer works in a thread."""
        steps = self.steps(query, hits, options or RerankOptions())
        return await arun(steps, None, RetryPolicy(), native=False)

    def warm_up(self) -> None:
        """Read the scorer's weights and measure its speed, so that no query has to wait for it."""
        measure(self.scorer, self.cost, self._clock)
        self._probed = self._clock()

    def warm_up_once(self) -> None:
        """`warm_up`, unless that was done already."""
        with self._warming:
            if not self.cost.ready:
                self.warm_up()

    def rerank_batch(
        self,
        queries: Sequence[str],
        hits: Sequence[Sequence[Hit]],
        *,
        k: int | None = None,
        candidates: int | None = None,
        mode: RerankMode = "replace",
        weight: float | None = None,
        min_score: float | None = None,
        pair_length: int | None = None,
        show_progress: bool = False,
    ) -> list[list[Hit]]:
        """`rerank` for many queries, whose pairs go through the scorer sorted by length together.

        Args:
            queries: Questions.
            hits: The first stage's hits of each.
            k: As for `rerank`.
            candidates: As for `rerank`.
            mode: As for `rerank`.
            weight: As for `rerank`.
            min_score: As for `rerank`.
            pair_length: As for `rerank`.
            show_progress: Whether a progress bar goes to stderr.

        Raises:
            InputError: There are more queries than lists of hits, or fewer; a value out of range.
            InputTypeError: A value has the wrong type.
            Exception: What the scorer raised, where `on_failure` is "raise".

        Warns:
            FallbackWarning: The scorer failed, and the first stage's order of some queries is kept.
        """
        asked = RerankOptions(
            k=k,
            candidates=candidates,
            mode=mode,
            weight=weight,
            min_score=min_score,
            pair_length=pair_length,
        )
        runs = checked_runs(queries, hits)
        found: list[list[Hit]] = []
        with progress_bar("Reranking", total=len(runs), shown=show_progress) as advance:
            for part in _portions(runs, asked):
                found += self._together(part, asked)
                advance(len(part))
        return found

    def steps(self, query: str, hits: Sequence[Hit], options: RerankOptions) -> Steps[RerankResult]:
        """`rerank_detailed` as an operation for `index.steps`, one piece of work a batch."""
        given = checked_hits(query, hits)
        head = given[: options.candidates]
        if options.k == 0 or not head:
            judged = 0 if options.min_score is not None else options.k
            return RerankResult(hits=given[:judged], candidates=0, rescored=0, ended="all")
        if options.budget_ms is not None and not self.cost.ready:
            failed = yield work(_attempted, self.warm_up_once)
            if isinstance(failed, _Failed):
                reason = self._reason(failed)
                return first_stage_order(given, head, options, reason, "failed")
        started = self._clock()
        result: RerankResult = yield from self._timed(query, given, head, options, started)
        return replace(result, seconds=self._clock() - started)

    def _timed(
        self, query: str, hits: list[Hit], head: list[Hit], asked: RerankOptions, started: float
    ) -> Steps[RerankResult]:
        """Score batch by batch, then put in order."""
        deadline = None if asked.budget_ms is None else started + asked.budget_ms / 1e3
        worth = worth_scoring(head, asked)
        pairs = self._within_reach([(query, hit.text) for hit in worth], asked, deadline)
        ready: Any = yield work(_attempted, prepared, self.scorer, pairs, asked.pair_length)
        if isinstance(ready, _Failed):
            return first_stage_order(hits, head, asked, self._reason(ready), "failed")
        pace = Pace.over(ready.lengths, asked.early_stop, deadline, self.cost, self._clock)
        scores = np.empty(0, dtype=np.float32)
        settled = Settled(asked)
        while not settled.yet and (take := pace.take(len(scores))):
            turns = pace.turns[len(scores) : len(scores) + take]
            batch: Any = yield work(_attempted, self._score, ready, turns)
            if isinstance(batch, _Failed):
                return first_stage_order(hits, head, asked, self._reason(batch), "failed")
            scores = np.concatenate([scores, batch])
            seen = [head[position] for position in pace.turns[: len(scores)]]
            settled.see(self._ordering(asked).order(seen, scores))
        if not len(scores):
            reason = f"{asked.budget_ms or 0:.0f} ms for the rerank are too short: {pace.least()}"
            if self._to_be_probed(deadline):
                yield work(_attempted, self._probe)
            return first_stage_order(hits, head, asked, reason, "no time")
        ended = _ended(len(scores), len(worth), len(head), settled=settled.yet)
        return self._finished(hits, head, SecondStage.of(pace.turns, scores, ready), asked, ended)

    def _within_reach(
        self, pairs: list[Pair], asked: RerankOptions, deadline: float | None
    ) -> list[Pair]:
        """Twice the pairs that there is likely to be time for: tokenising all would cost some."""
        if deadline is None:
            return pairs
        limit = asked.pair_length or getattr(self.scorer, "max_length", None)
        guessed = np.minimum(guessed_lengths(pairs), limit or np.inf)
        fitting = self.cost.fitting(guessed, deadline - self._clock())
        return pairs[: max(LOOK_AHEAD, 2 * fitting)]

    def _ordering(self, asked: RerankOptions) -> Ordering:
        return Ordering(asked.mode, asked.weight, self._rrf_k, self.score_kind)

    def _score(self, pairs: Prepared, indexes: Sequence[int]) -> Floats:
        """Score a batch, and learn what it took."""
        started = self._clock()
        scores = scored(pairs, indexes)
        self.cost.observe(pairs.lengths[list(indexes)], self._clock() - started)
        return scores

    def _to_be_probed(self, deadline: float | None) -> bool:
        """Whether the scorer's speed is measured anew, since nothing was scored to learn from.

        What is remembered may be of a busy hour: without this, no pair would be tried again.
        """
        now = self._clock()
        since = now - self._probed
        likely = 2 * self.cost.seconds(probe_lengths(), cautious=True)
        fits = deadline is not None and now + likely <= deadline
        return since >= (_PROBED_WITHIN_S if fits else _PROBED_LATE_S)

    def _probe(self) -> None:
        self._probed = self._clock()
        lengths, seconds = probe(self.scorer, self._clock)
        self.cost.renew(lengths, seconds)

    def _finished(
        self,
        hits: list[Hit],
        head: list[Hit],
        second: SecondStage,
        asked: RerankOptions,
        ended: Ended,
    ) -> RerankResult:
        """The rescored hits in their order, then the others in theirs."""
        found = rescored(head, second, self._ordering(asked), asked.min_score)
        if asked.min_score is None:
            seen = set(second.positions)
            left = [hit for position, hit in enumerate(head) if position not in seen]
            found += left_over(left, cut_short=ended == "budget")
            found += left_over(hits[len(head) :], cut_short=False)
        return RerankResult(
            hits=found[: asked.k],
            candidates=len(head),
            rescored=len(second.positions),
            ended=ended,
        )

    def _reason(self, failed: _Failed) -> str:
        """What went wrong, in words and as a warning.

        Raises:
            Exception: What the scorer raised, where `on_failure` is "raise".
        """
        if self._raises:
            raise failed.error
        text = str(failed.error).strip().partition("\n")[0][:200]
        reason = f"the reranker failed ({type(failed.error).__name__}: {text})"
        warnings.warn(f"{reason}: the first stage's order is kept", FallbackWarning, stacklevel=2)
        return reason

    def _together(
        self, runs: Sequence[tuple[str, list[Hit]]], asked: RerankOptions
    ) -> list[list[Hit]]:
        """Rerank some queries with one pass of the scorer."""
        heads = [hits[: asked.candidates] for _, hits in runs]
        pairs = [
            (query, hit.text) for (query, _), head in zip(runs, heads, strict=True) for hit in head
        ]
        outcome = _attempted(self._all, pairs, asked.pair_length)
        if isinstance(outcome, _Failed):
            reason = self._reason(outcome)
            return [
                first_stage_order(hits, head, asked, reason, "failed").hits
                for (_, hits), head in zip(runs, heads, strict=True)
            ]
        cuts = np.cumsum([len(head) for head in heads])[:-1]
        parts = zip(runs, heads, *(np.split(column, cuts) for column in outcome), strict=True)
        return [
            self._finished(
                hits, head, SecondStage(range(len(head)), scores, truncated), asked, "all"
            ).hits
            for (_, hits), head, scores, truncated in parts
        ]

    def _all(
        self, pairs: list[Pair], max_length: int | None
    ) -> tuple[Floats, npt.NDArray[np.bool_]]:
        ready = prepared(self.scorer, pairs, max_length)
        return scored(ready, range(len(pairs))), ready.truncated


def _attempted(function: Callable[..., Any], *args: Any) -> Any:
    """What a function returns, or what it raised: a search survives its second stage."""
    try:
        return function(*args)
    except Exception as error:
        return _Failed(error)


def _ended(done: int, near: int, candidates: int, *, settled: bool) -> Ended:
    if done == candidates:
        return "all"
    return "early stop" if settled or done == near else "budget"


def _portions(
    runs: list[tuple[str, list[Hit]]], asked: RerankOptions
) -> Iterator[list[tuple[str, list[Hit]]]]:
    """Queries whose pairs are few enough to be held at once."""
    part: list[tuple[str, list[Hit]]] = []
    pairs = 0
    for run_ in runs:
        part.append(run_)
        pairs += len(run_[1][: asked.candidates])
        if pairs >= _PAIRS_AT_ONCE:
            yield part
            part, pairs = [], 0
    if part:
        yield part
