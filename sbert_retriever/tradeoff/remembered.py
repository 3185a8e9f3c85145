"""Each pair through the cross-encoder once, however many points ask for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from sbert_retriever.types import Scorer

Pair = tuple[str, str]
# Enough for batches of like length, few enough to tell how far it is.
_AT_ONCE = 512


class RememberedScorer:
    """A scorer that answers from what it was given to learn.

    Args:
        scorer: Asked for pairs that are not known.
    """

    def __init__(self, scorer: Scorer) -> None:
        self._scorer = scorer
        self._known: dict[Pair, float] = {}
        self.score_kind = getattr(scorer, "score_kind", "logit")

    def learn(
        self,
        pairs: Iterable[Pair],
        *,
        on_progress: Callable[[int, int], None] = lambda done, total: None,
    ) -> None:
        """Score pairs that are not known yet, in large batches."""
        fresh = [pair for pair in dict.fromkeys(pairs) if pair not in self._known]
        for start in range(0, len(fresh), _AT_ONCE):
            part = fresh[start : start + _AT_ONCE]
            self._known.update(zip(part, self._scorer.score(part).tolist(), strict=True))
            on_progress(start + len(part), len(fresh))

    def score(self, pairs: Iterable[Pair]) -> npt.NDArray[np.float32]:
        """Scores float32 (n,), from memory."""
        asked = list(pairs)
        self.learn(asked)
        return np.array([self._known[pair] for pair in asked], dtype=np.float32)
