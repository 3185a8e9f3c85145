"""Hits, and scorers whose scores and times are known."""

from __future__ import annotations

import random

import numpy as np
import pytest

from sbert_retriever.testing import TableScorer
from sbert_retriever.types import Hit, Passage


class Machine:
    """A clock, and a scorer whose pairs take a known time on it.

    A batch takes `call` seconds, and `token` for each word of its pairs, times a random factor.
    """

    def __init__(self, *, token=0.00025, call=0.002, noise=0.05, spikes=0.01, seed=0) -> None:
        self.now = 0.0
        self.batches: list[int] = []
        self._random = random.Random(seed)
        self._token, self._call, self._noise, self._spikes = token, call, noise, spikes
        self.slower = 1.0

    def clock(self) -> float:
        self.now += 1e-6
        return self.now

    def prepare(self, pairs, *, max_length=None):
        del max_length
        self.now += 0.00005 * len(pairs)
        return Words(self, pairs)

    def score(self, pairs):
        pairs = list(pairs)
        return Words(self, pairs).score(range(len(pairs)))

    def work(self, tokens: int) -> None:
        factor = self.slower * self._random.lognormvariate(0, self._noise)
        stall = 3 if self._random.random() < self._spikes else 1
        self.now += factor * stall * (self._call + self._token * tokens)


class Words:
    """Prepared pairs: a token a word; the score is the number after the last space, if any."""

    def __init__(self, machine: Machine, pairs) -> None:
        self._machine, self._pairs = machine, pairs
        words = [len(query.split()) + len(text.split()) for query, text in pairs]
        self.lengths = np.array(words, dtype=np.int64)
        self.truncated = np.zeros(len(pairs), dtype=bool)

    def score(self, indexes):
        self._machine.work(int(self.lengths[list(indexes)].sum()))
        self._machine.batches.append(len(indexes))
        last = [self._pairs[i][1].split()[-1:] for i in indexes]
        return np.array([float(x[0]) if x and x[0].isdigit() else 0 for x in last], np.float32)


def hit(name: str, score: float, **fields) -> Hit:
    return Hit(Passage(name, name, {"of": name}, "file.txt"), score, **fields)


@pytest.fixture
def make_hit():
    return hit


@pytest.fixture
def three() -> list[Hit]:
    """Three hits, best first."""
    return [hit("a", 0.9), hit("b", 0.8), hit("c", 0.7)]


@pytest.fixture
def table_scorer():
    return TableScorer


@pytest.fixture
def machine():
    return Machine


@pytest.fixture
def passages():
    """Hits whose texts have 20 to 200 words, as passages have; the score is the last word."""

    def make(count: int, seed: int = 0) -> list[Hit]:
        chosen = random.Random(seed)
        sizes = [max(20, min(200, int(chosen.lognormvariate(4.3, 0.4)))) for _ in range(count)]
        texts = [f"{'word ' * (n - 1)}{chosen.randint(0, 99)}" for n in sizes]
        return [Hit(Passage(str(i), t), 1 - i / 1000) for i, t in enumerate(texts)]

    return make
