"""A cross-encoder that waits for its turn among the models of a service."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from sbert_retriever.encoder.micro_batch import Turn
from sbert_retriever.rerank.scoring import Floats, Pair, Prepared

if TYPE_CHECKING:
    from sbert_retriever.encoder.cross_encoder import CrossEncoder
    from sbert_retriever.types import ScoreKind, ScorerIdentity

_PAIRS_A_TURN = 16


class SharedScorer:
    """A cross-encoder whose batches take turns with other models. Itself a `Scorer`.

    Args:
        scorer: What scores.
        turn: As for `MicroBatchedEncoder`.
    """

    def __init__(self, scorer: CrossEncoder, *, turn: Turn) -> None:
        self._scorer, self._turn = scorer, turn

    @property
    def score_kind(self) -> ScoreKind:
        """The scale of the scores."""
        return self._scorer.score_kind

    @property
    def max_length(self) -> int | None:
        """Tokens of a pair that are read."""
        return self._scorer.max_length

    @property
    def identity(self) -> ScorerIdentity:
        """What makes two scorers the same for a measurement."""
        return self._scorer.identity

    def warm_up(self) -> None:
        """Read the weights now."""
        self._turn(self._scorer.warm_up)

    def prepare(self, pairs: Iterable[Pair], *, max_length: int | None = None) -> SharedPairs:
        """Tokenise pairs, so that some of them can be scored at a time."""
        return SharedPairs(self._scorer.prepare(pairs, max_length=max_length), self._turn)

    def score(self, pairs: Iterable[Pair]) -> Floats:
        """Score pairs, a few a turn, those of like length together: float32 (n,)."""
        return self.prepare(pairs).score_all()


class SharedPairs:
    """Pairs ready to be scored, in turns.

    Args:
        pairs: Ready to be scored.
        turn: As for `SharedScorer`.
    """

    def __init__(self, pairs: Prepared, turn: Turn) -> None:
        self._pairs, self._turn = pairs, turn
        self.lengths, self.truncated = pairs.lengths, pairs.truncated

    def score(self, indexes: Sequence[int]) -> Floats:
        """Scores of some of the pairs: float32 (len(indexes),)."""
        scores: Floats = self._turn(self._pairs.score, indexes)
        return scores

    def score_all(self) -> Floats:
        """Scores of all pairs, a few a turn, those of like length together: float32 (n,)."""
        scores = np.empty(len(self.lengths), dtype=np.float32)
        order = np.argsort(self.lengths, kind="stable")
        for start in range(0, len(order), _PAIRS_A_TURN):
            some = order[start : start + _PAIRS_A_TURN]
            scores[some] = self.score(some.tolist())
        return scores
