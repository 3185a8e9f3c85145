"""Pairs that are tokenised once, and of which some are scored at a time."""

from __future__ import annotations

import pytest

from sbert_retriever import CrossEncoder


def test_a_pair_asked_for_twice_in_a_row_has_two_scores(classifier_folder):
    """With windows, both were taken for one pair, and a score was missing."""
    encoder = CrossEncoder.load(
        classifier_folder(),
        device="cpu",
        dtype="float32",
        max_length=20,
        long_passages="windows",
    )
    prepared = encoder.prepare([("dog", "cat " * 50), ("cat", "one two"), ("one", "cat " * 30)])
    long, short, other = prepared.score([0, 1, 2])
    asked = [0, 0, 1, 1, 2, 0]
    expected = [long, long, short, short, other, long]
    assert prepared.score(asked) == pytest.approx(expected, abs=1e-5)
