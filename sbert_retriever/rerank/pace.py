"""How many pairs come next: all, as many as an early stop looks at, or as many as there is time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sbert_retriever.rerank.cost import CostModel
from sbert_retriever.rerank.options import EarlyStop

LOOK_AHEAD = 10
"""Where the first pairs are too long for the time, two shorter ones are sought among so many."""

_SHARE = 0.25
"""A batch takes at most this part of the time left, so that a wrong guess can be made good."""
_LEAST = 2
"""A rerank of fewer pairs could change nothing."""


@dataclass(frozen=True)
class Pace:
    """How fast to go over candidates.

    Args:
        turns: Their positions in the order in which they are scored.
        lengths: Tokens of each, in that order: (n,).
        batch: Pairs at most in a batch; None is without limit.
        deadline: When it must end, on `clock`; None is without limit.
        cost: What pairs take.
        clock: Seconds.
    """

    turns: list[int]
    lengths: npt.NDArray[np.int64]
    batch: int | None
    deadline: float | None
    cost: CostModel
    clock: Callable[[], float]

    @classmethod
    def over(
        cls,
        lengths: npt.NDArray[np.int64],
        early_stop: EarlyStop | None,
        deadline: float | None,
        cost: CostModel,
        clock: Callable[[], float],
    ) -> Pace:
        """The best first; two shorter ones where there is no time for the first two.

        Args:
            lengths: Tokens of each candidate, best first: (n,).
            early_stop: What bounds a batch.
            deadline: When it must end.
            cost: What pairs take.
            clock: Seconds.
        """
        batch = None
        if early_stop is not None and early_stop.stable_batches is not None:
            batch = early_stop.batch
        turns = list(range(len(lengths)))
        if deadline is not None and cost.fitting(lengths[:_LEAST], deadline - clock()) < _LEAST:
            turns = _short_ones(lengths, cost, deadline - clock()) or turns
        return cls(turns, lengths[turns], batch, deadline, cost, clock)

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


def _short_ones(
    lengths: npt.NDArray[np.int64], cost: CostModel, seconds: float
) -> list[int] | None:
    """The best two of the first candidates that fit together; None where no two do."""
    chosen: list[int] = []
    for position in range(min(LOOK_AHEAD, len(lengths))):
        wanted = [*chosen, position]
        if cost.fitting(lengths[wanted], seconds) == len(wanted):
            chosen = wanted
        if len(chosen) == _LEAST:
            return chosen
    return None
