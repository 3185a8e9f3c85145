"""The cross-encoder's part: as a search does it, and each pair once for all points."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from sbert_retriever.rerank import EarlyStop, Reranker, RerankOptions, RerankResult
from sbert_retriever.rerank.scoring import PlainPairs, PreparingScorer, prepared
from sbert_retriever.tradeoff.pair_file import PairFile
from sbert_retriever.tradeoff.points import OperatingPoint
from sbert_retriever.types import Hit

if TYPE_CHECKING:
    from sbert_retriever.types import Scorer

Pair = tuple[str, str]
# Enough for batches of like length, few enough to tell how far it is.
_AT_ONCE = 512


def reranked(
    reranker: Reranker, query: str, hits: Sequence[Hit], point: OperatingPoint
) -> RerankResult:
    """The cross-encoder's stage of a point, over the hits of the stage before."""
    profile = point.profile
    stops = profile.early_margin is not None or profile.early_batches is not None
    options = RerankOptions(
        # An early stop watches the passages that are handed out.
        k=point.k if stops else None,
        candidates=point.rerank,
        mode=profile.rerank_mode,
        weight=profile.fuse_weight,
        early_stop=(
            EarlyStop(margin=profile.early_margin, stable_batches=profile.early_batches)
            if stops
            else None
        ),
        pair_length=profile.pair_length,
    )
    return reranker.rerank_detailed(query, hits, options)


def takes_lengths(scorer: Scorer) -> bool:
    """Whether a scorer can be told how long a pair may be."""
    return isinstance(scorer, PreparingScorer)


class RememberedScorer:
    """A scorer that answers from what it was given to learn.

    Args:
        scorer: Asked for pairs that are not known.
        file: Where scores are kept from run to run; None keeps none.
    """

    def __init__(self, scorer: Scorer, file: Path | None = None) -> None:
        self._scorer = scorer
        self._file = PairFile(file, scorer) if file is not None else None
        self._known: dict[int | None, dict[Pair, float]] = {}
        self.score_kind = getattr(scorer, "score_kind", "logit")

    def learn(
        self,
        pairs: Iterable[Pair],
        *,
        max_length: int | None = None,
        on_progress: Callable[[int, int], None] = lambda done, total: None,
    ) -> None:
        """Score pairs that are not known yet, in large batches.

        Args:
            pairs: Any may come several times.
            max_length: Tokens of a pair that are read; None is the scorer's own limit.
            on_progress: Told how many pairs are done, of how many.
        """
        known = self._known.setdefault(max_length, {})
        fresh = [pair for pair in dict.fromkeys(pairs) if pair not in known]
        if self._file is not None:
            known.update(self._file.recall(fresh, max_length))
            fresh = [pair for pair in fresh if pair not in known]
        for start in range(0, len(fresh), _AT_ONCE):
            part = fresh[start : start + _AT_ONCE]
            scores = prepared(self._scorer, part, max_length).score(range(len(part)))
            learnt = dict(zip(part, scores.tolist(), strict=True))
            known.update(learnt)
            if self._file is not None:
                self._file.keep(learnt, max_length)
            on_progress(start + len(part), len(fresh))

    def score(self, pairs: Iterable[Pair]) -> npt.NDArray[np.float32]:
        """Scores float32 (n,), from memory."""
        return self._recalled(list(pairs), None)

    def prepare(self, pairs: Sequence[Pair], *, max_length: int | None = None) -> PlainPairs:
        """Pairs whose scores are in memory."""
        return PlainPairs(_OfLength(self, max_length), pairs)

    def _recalled(self, pairs: list[Pair], max_length: int | None) -> npt.NDArray[np.float32]:
        self.learn(pairs, max_length=max_length)
        known = self._known[max_length]
        return np.array([known[pair] for pair in pairs], dtype=np.float32)


@dataclass(frozen=True)
class _OfLength:
    """A remembered scorer for pairs of one length."""

    remembered: RememberedScorer
    max_length: int | None

    def score(self, pairs: Iterable[Pair]) -> npt.NDArray[np.float32]:
        return self.remembered._recalled(list(pairs), self.max_length)
