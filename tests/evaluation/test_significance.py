"""Whether a difference is luck: by enumeration, by scipy, and on models that differ or do not."""

import itertools

import numpy as np
import pytest
import scipy.stats

from sbert_retriever.errors import InputError
from sbert_retriever.evaluation.results import SetResult, TaskResult
from sbert_retriever.evaluation.significance import compare, sentences


def one(values, gold=None, name="s"):
    values = np.asarray(values, dtype=float)
    gold = None if gold is None else np.asarray(gold, dtype=float)
    figure = values.mean() if gold is None else 100 * scipy.stats.spearmanr(values, gold).statistic
    figures = {"headline": float(figure)}
    return SetResult(name=name, items=len(values), figures=figures, values=values, gold=gold)


def task(*sets, averaged=True):
    return TaskResult(task="t", model="m", sets=sets, averaged=averaged)


def test_the_difference_is_that_of_the_figures():
    rng = np.random.default_rng(0)
    gold = rng.random(50)
    ours, theirs = one(gold + rng.normal(0, 0.1, 50), gold), one(rng.random(50), gold)
    found = compare(task(ours), task(theirs), draws=500)["s"]
    assert found.mean == pytest.approx(ours.figures["headline"] - theirs.figures["headline"])
    assert found.clear
    assert found.p < 0.01
    assert found.low < found.mean < found.high


def test_permutation_against_all_swaps_of_four_items():
    """Four items have 16 swaps: p is known exactly, but for the draws."""
    ours, theirs = np.array([1.0, 0.9, 0.8, 0.2]), np.array([0.5, 0.6, 0.9, 0.1])
    swaps = [np.mean((ours - theirs) * signs) for signs in itertools.product([1, -1], repeat=4)]
    exact = np.mean(np.abs(swaps) >= np.mean(ours - theirs) - 1e-12)
    found = compare(task(one(ours)), task(one(theirs)), test="permutation", draws=50_000)["s"]
    assert found.p == pytest.approx(exact, abs=0.01)


def test_permutation_of_correlations_against_all_swaps():
    """Both models' scores as ranks, for each of the 32 swaps Spearman by scipy."""
    gold = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
    ours, theirs = np.array([1.0, 2.0, 3.0, 5.0, 4.0]), np.array([20.0, 50.0, 10.0, 30.0, 40.0])
    a, b = scipy.stats.rankdata(ours), scipy.stats.rankdata(theirs)

    def difference(swap):
        first, second = np.where(swap, b, a), np.where(swap, a, b)
        return 100 * (
            scipy.stats.spearmanr(first, gold).statistic
            - scipy.stats.spearmanr(second, gold).statistic
        )

    swaps = [difference(np.array(s)) for s in itertools.product([True, False], repeat=5)]
    exact = np.mean(np.abs(swaps) >= abs(difference(np.zeros(5, bool))) - 1e-9)
    left, right = task(one(ours, gold)), task(one(theirs, gold))
    found = compare(left, right, test="permutation", draws=30_000)["s"]
    assert found.p == pytest.approx(exact, abs=0.015)


def test_models_that_are_alike_do_not_differ():
    gold = np.arange(20.0)
    scores = np.random.default_rng(1).random(20)
    for test in ("bootstrap", "permutation"):
        alike = task(one(scores, gold))
        found = compare(alike, alike, test=test, draws=100)["s"]
        assert (found.mean, found.low, found.high, found.p) == (0, 0, 0, 1)
        assert "may be luck" in sentences({"s": found}, against="m")[0]


def test_several_sets_have_an_average_where_that_says_anything():
    ours = [one([1.0, 0.0, 1.0], name="x"), one([1.0, 1.0], name="y")]
    theirs = [one([0.0, 0.0, 1.0], name="x"), one([0.0, 0.0], name="y")]
    found = compare(task(*ours), task(*theirs), draws=200)
    assert list(found) == ["x", "y", "average"]
    assert found["average"].mean == pytest.approx((1 / 3 + 1) / 2)
    assert found["average"].queries == 5
    apart = compare(task(*ours, averaged=False), task(*theirs, averaged=False), draws=10)
    assert list(apart) == ["x", "y"]


def test_seeded():
    rng = np.random.default_rng(3)
    left, right = task(one(rng.random(30))), task(one(rng.random(30)))
    assert compare(left, right, draws=50) == compare(left, right, draws=50)
    assert compare(left, right, draws=50) != compare(left, right, draws=50, seed=1)


@pytest.mark.parametrize(
    ("options", "said"),
    [({"test": "t"}, "test is 't'"), ({"draws": 0}, "draws is 0"), ({"level": 1.0}, "level 1.0")],
)
def test_wrong_use(options, said):
    with pytest.raises(InputError, match=said):
        compare(task(one([1.0])), task(one([1.0])), **options)


def test_other_items_are_not_compared():
    with pytest.raises(InputError, match="not measured on the same items"):
        compare(task(one([1.0])), task(one([1.0, 2.0])))
