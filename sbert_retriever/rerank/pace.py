"""How many pairs come next: all, as many as an early stop looks at, or as many as there is time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sbert_retriever.rerank.cost import CostModel

_SHARE = 0.5
"""A batch takes at most this part of the time left, so that a wrong guess can be made good."""
_LEAST = 2
"""A rerank of fewer pairs could change nothing."""


@dataclass(frozen=True)
class Pace:
    """How fast to go over candidates, best first.

    Args:
        lengths: Tokens of each candidate: (n,).
        batch: Pairs at most in a batch; None is without limit.
        deadline: When it must end, on `clock`; None is without limit.
        cost: What pairs take.
        clock: Seconds.
    """

    lengths: npt.NDArray[np.int64]
    batch: int | None
    deadline: float | None
    cost: CostModel
    clock: Callable[[], float]

    def take(self, done: int) -> int:
        """How many pairs come next when `done` are scored; 0 is stop."""
        left = self.lengths[done:]
        count = len(left) if self.batch is None else min(self.batch, len(left))
        if self.deadline is None:
            return count
        time_left = self.deadline - self.clock()
        fitting = self.cost.fitting(left, time_left)
        if fitting < min(len(left), _LEAST - done):
            return 0
        now = self.cost.fitting(left, time_left * _SHARE)
        return min(count, fitting, max(now, 1, _LEAST - done))

    def least(self) -> str:
        """What the fewest pairs worth scoring are likely to take, as words."""
        pairs = self.lengths[:_LEAST]
        took = 1e3 * self.cost.seconds(pairs, cautious=True)
        return f"{len(pairs)} pair{'s' * (len(pairs) > 1)} take about {took:.0f} ms here"
