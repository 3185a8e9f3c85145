"""The paired bootstrap, against the whole enumeration of draws and against theory."""

import itertools
import math

import numpy as np
import pytest

from sbert_retriever.errors import InputError
from sbert_retriever.evaluation.bootstrap import paired_bootstrap


def named(values):
    return {str(n): float(value) for n, value in enumerate(values)}


def test_against_all_draws_of_three_queries():
    """Three differences have 27 draws: the interval and p are known exactly."""
    differences = [0.1, 0.2, 0.6]
    means = np.array([np.mean(draw) for draw in itertools.product(differences, repeat=3)])
    found = paired_bootstrap(named(differences), named([0, 0, 0]), draws=200_000)
    assert found.mean == pytest.approx(0.3)
    # The draw with only the least, and the one with only the greatest, are 1/27 each.
    assert (found.low, found.high) == (pytest.approx(0.1), pytest.approx(0.6))
    exact = np.mean(np.abs(means - 0.3) >= 0.3 - 1e-12)
    assert exact == pytest.approx(1 / 27)
    assert found.p == pytest.approx(exact, abs=0.003)


def test_the_interval_is_that_of_theory_for_many_queries():
    rng = np.random.default_rng(1)
    differences = rng.normal(0.05, 0.2, 400)
    found = paired_bootstrap(named(differences), named(np.zeros(400)))
    error = differences.std() / math.sqrt(400)
    assert found.low == pytest.approx(differences.mean() - 1.96 * error, abs=0.1 * error)
    assert found.high == pytest.approx(differences.mean() + 1.96 * error, abs=0.1 * error)
    assert found.clear


def test_noise_is_not_clear_and_p_is_large():
    rng = np.random.default_rng(2)
    left, right = rng.random(200), rng.random(200)
    found = paired_bootstrap(named(left), named(right))
    assert not found.clear
    assert found.p > 0.05


def test_systems_that_are_alike():
    found = paired_bootstrap(named([0.5, 0.7]), named([0.5, 0.7]))
    assert (found.mean, found.low, found.high, found.p) == (0.0, 0.0, 0.0, 1.0)
    assert not found.clear


def test_seeded_and_independent_of_the_order_of_queries():
    left, right = named([0.1, 0.9, 0.4, 0.7]), named([0.2, 0.5, 0.3, 0.1])
    backwards = dict(reversed(left.items()))
    assert paired_bootstrap(left, right) == paired_bootstrap(backwards, right)
    assert paired_bootstrap(left, right, seed=1) != paired_bootstrap(left, right, seed=2)


@pytest.mark.parametrize(
    ("left", "right", "options", "said"),
    [
        ({"a": 1.0}, {"b": 1.0}, {}, "'a', 'b'"),
        ({}, {}, {}, "not in both: none"),
        ({"a": 1.0}, {"a": 1.0}, {"draws": 0}, "draws is 0"),
        ({"a": 1.0}, {"a": 1.0}, {"level": 1.0}, "level 1.0"),
    ],
)
def test_wrong_use(left, right, options, said):
    with pytest.raises(InputError, match=said):
        paired_bootstrap(left, right, **options)
