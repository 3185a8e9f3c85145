"""A small collection whose best answers are known, and a scorer of the user's own."""

from __future__ import annotations

import re

import numpy as np
import pytest

from sbert_retriever import Passage, Retriever
from sbert_retriever.testing import HashEncoder

TEXTS = {
    "cats": "cats purr and sleep in the house all day",
    "dogs": "dogs bark and run with people in the park",
    "tea": "green tea is made with water below boiling",
    "trains": "the last train leaves the station at midnight",
    "bread": "a sourdough starter is fed once a day",
    "house": "the house by the park has a green door",
}
QUERIES = {
    "q1": "who sleeps in the house: cats or dogs",
    "q2": "water for green tea",
    "q3": "when does the last train leave",
    "q4": "feed the starter",
}
QRELS = {"q1": {"cats": 2, "house": 1}, "q2": {"tea": 1}, "q3": {"trains": 1}, "q4": {"bread": 1}}


class SharedWords:
    """Scores a pair by the share of the query's words that the passage has."""

    def __init__(self):
        self.pairs = []

    def score(self, pairs):
        pairs = list(pairs)
        self.pairs += pairs
        return np.array([self._shared(*pair) for pair in pairs], dtype=np.float32)

    def _shared(self, query, passage):
        words = set(re.findall(r"\w+", query))
        return len(words & set(re.findall(r"\w+", passage))) / len(words)


@pytest.fixture
def texts():
    return TEXTS


@pytest.fixture
def queries():
    return QUERIES


@pytest.fixture
def qrels():
    return QRELS


@pytest.fixture
def scorer():
    return SharedWords()


@pytest.fixture
def collection():
    with Retriever.open(":memory:", model=HashEncoder(dim=32)) as retriever:
        retriever.index(Passage(i, text) for i, text in TEXTS.items())
        yield retriever
