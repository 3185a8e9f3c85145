"""Rates of several contenders in one run, in turn, so that a noisy machine is fair to all."""

from __future__ import annotations

import statistics
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from time import perf_counter

Task = Callable[[], object]
Ask = Callable[[str], object]


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One contender at one case.

    Args:
        case: What was done, "encode-short" for instance.
        contender: Who did it.
        unit: Of the rates: "texts/s", "pairs/s", "passages/s", "questions/s".
        rates: One for each round, in their order.
    """

    case: str
    contender: str
    unit: str
    rates: tuple[float, ...]

    @property
    def median(self) -> float:
        """The middle rate."""
        return statistics.median(self.rates)

    @property
    def spread(self) -> tuple[float, float]:
        """The lowest and the highest rate."""
        return min(self.rates), max(self.rates)


def in_turn(tasks: Mapping[str, Task], *, rounds: int, burn_in: int = 1) -> dict[str, list[float]]:
    """Seconds that each task took in each round, all tasks in turn, after rounds not counted."""
    seconds: dict[str, list[float]] = {name: [] for name in tasks}
    for number in range(burn_in + rounds):
        for name, task in tasks.items():
            spent = timed(task)
            if number >= burn_in:
                seconds[name].append(spent)
    return seconds


def medians_in_turn(
    asks: Mapping[str, Ask], questions: Sequence[str], *, rounds: int
) -> dict[str, list[float]]:
    """Median seconds of one question, in each round; all are asked each question in turn.

    Each question begins with another of them: the first to read it finds it in no cache.
    """
    turns = deque(asks)
    medians: dict[str, list[float]] = {name: [] for name in asks}
    for number in range(1 + rounds):
        seconds: dict[str, list[float]] = {name: [] for name in asks}
        for question in questions:
            for name in turns:
                seconds[name].append(timed(partial(asks[name], question)))
            turns.rotate(-1)
        for name, spent in seconds.items() if number else ():
            medians[name].append(statistics.median(spent))
    return medians


def timed(task: Task) -> float:
    """Seconds that a task took, to the end of what it left to a GPU."""
    settle()
    started = perf_counter()
    task()
    settle()
    return perf_counter() - started


def settle() -> None:
    """Wait for every GPU that this process works on, where there are any."""
    import torch

    if torch.cuda.is_available():
        for number in range(torch.cuda.device_count()):
            # Waiting for a GPU that is not used would take memory of it.
            if torch.cuda.memory_reserved(number):
                torch.cuda.synchronize(number)
    if torch.backends.mps.is_available():
        torch.mps.synchronize()
