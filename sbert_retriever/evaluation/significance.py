"""Is a model better than another on a task, or is it the luck of the items?

Two tests over the same items for both models:

- the paired bootstrap (Efron and Tibshirani 1993, chapter 16), which also gives the interval;
- the paired permutation test (Fisher 1935): were the models alike, it would make no difference
  which of the two gave which of an item's two values.

Sets are drawn each by itself, so that each keeps its weight in the average.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Literal, TypeAlias, get_args

import numpy as np

from sbert_retriever.errors import InputError
from sbert_retriever.evaluation.bootstrap import PairedDifference, from_draws, share_as_far
from sbert_retriever.evaluation.results import AVERAGE, SetResult, TaskResult
from sbert_retriever.evaluation.similarity import Numbers, ranks

Test: TypeAlias = Literal["bootstrap", "permutation"]
_Draw: TypeAlias = Callable[[SetResult, Numbers, np.random.Generator, int], Numbers]
# Items drawn at a time, over all draws in a block: 16 MB of float64 a matrix.
_CELLS_AT_ONCE = 2_000_000


def compare(
    ours: TaskResult,
    theirs: TaskResult,
    *,
    test: Test = "bootstrap",
    draws: int = 2000,
    level: float = 0.95,
    seed: int = 0,
) -> dict[str, PairedDifference]:
    """How much better one model is than another, by the headline of each set.

    Args:
        ours: Of one model.
        theirs: Of another, on the same sets.
        test: Where p comes from; the interval is always the bootstrap's.
        draws: How often items are drawn, or values swapped.
        level: Share of the draws that the interval holds.
        seed: The same seed gives the same result.

    Returns:
        {name of a set: the difference, ours less theirs}, and "average" where that says anything.

    Raises:
        InputError: The two are not of the same sets and items, or an argument is out of range.
    """
    check_comparison(test, draws=draws, level=level)
    _check_items(ours, theirs)
    pairs = list(zip(ours.sets, theirs.sets, strict=True))
    averaged = ours.averaged and len(pairs) > 1
    found = _with_mean([np.array(_found(a, b)) for a, b in pairs], wanted=averaged)
    drawn = _with_mean(_drawn(pairs, _with_replacement, draws=draws, seed=seed), wanted=averaged)
    items = [a.items for a, _ in pairs]
    made = [
        from_draws(float(mean), draw, items=n, level=level)
        for mean, draw, n in zip(found, drawn, [*items, sum(items)][: len(found)], strict=True)
    ]
    if test == "permutation":
        swapped = _with_mean(_drawn(pairs, _swapping, draws=draws, seed=seed), wanted=averaged)
        made = [
            replace(d, p=share_as_far(swap, d.mean)) for d, swap in zip(made, swapped, strict=True)
        ]
    names = [a.name for a, _ in pairs]
    return dict(zip([*names, AVERAGE][: len(made)], made, strict=True))


def _with_mean(parts: list[Numbers], *, wanted: bool) -> list[Numbers]:
    return [*parts, np.mean(parts, axis=0)] if wanted else parts


def check_comparison(test: str, *, draws: int, level: float = 0.95) -> Test:
    """Refuse arguments of `compare` before two models are measured for it.

    Returns:
        The test.

    Raises:
        InputError: One is unknown or out of range.
    """
    known: tuple[Test, ...] = get_args(Test)
    if test not in known:
        raise InputError(f"test is {test!r}, expected one of {', '.join(known)}")
    if draws < 1 or not 0 < level < 1:
        raise InputError(f"draws is {draws} and level {level}: give 1 or more, and 0 < level < 1")
    return known[known.index(test)]


def _check_items(ours: TaskResult, theirs: TaskResult) -> None:
    shapes = [[(one.name, one.items) for one in result.sets] for result in (ours, theirs)]
    if shapes[0] != shapes[1]:
        raise InputError(
            f"the two models were not measured on the same items: {shapes[0]} and {shapes[1]}"
        )


def _found(ours: SetResult, theirs: SetResult) -> float:
    """The difference of the headline as it was measured."""
    gold = None if ours.gold is None else ours.gold[None]
    return float((_of_rows(ours.values[None], gold) - _of_rows(theirs.values[None], gold))[0])


def _of_rows(values: Numbers, gold: Numbers | None) -> Numbers:
    """The headline of each row (draws, items): the mean, or Spearman's correlation times 100."""
    if gold is None:
        means: Numbers = values.mean(axis=1)
        return means
    a, b = _centred_ranks(values), _centred_ranks(gold)
    lengths = np.sqrt((a * a).sum(axis=1) * (b * b).sum(axis=1))
    # A draw of equal values has no correlation: it says nothing for either side.
    found: Numbers = np.divide(
        100 * (a * b).sum(axis=1), lengths, out=np.zeros(len(a)), where=lengths > 0
    )
    return found


def _centred_ranks(rows: Numbers) -> Numbers:
    found = ranks(rows)
    centred: Numbers = found - found.mean(axis=1, keepdims=True)
    return centred


def _drawn(
    pairs: list[tuple[SetResult, SetResult]], draw: _Draw, *, draws: int, seed: int
) -> list[Numbers]:
    """For each set the difference of the headline in each draw: (draws,)."""
    return [
        np.concatenate(
            [
                draw(ours, theirs.values, rng, size)
                for size in _blocks(draws, max(1, _CELLS_AT_ONCE // ours.items))
            ]
        )
        for rng, (ours, theirs) in zip(
            np.random.default_rng(seed).spawn(len(pairs)), pairs, strict=True
        )
    ]


def _blocks(total: int, most: int) -> Iterator[int]:
    for start in range(0, total, most):
        yield min(most, total - start)


def _with_replacement(
    one: SetResult, others: Numbers, rng: np.random.Generator, size: int
) -> Numbers:
    rows = rng.integers(one.items, size=(size, one.items))
    gold = None if one.gold is None else one.gold[rows]
    return _of_rows(one.values[rows], gold) - _of_rows(others[rows], gold)


def _swapping(one: SetResult, others: Numbers, rng: np.random.Generator, size: int) -> Numbers:
    ours, theirs = one.values, others
    if one.gold is not None:  # on one scale, so that values can take each other's place
        ours, theirs = ranks(ours), ranks(theirs)
    swap = rng.random((size, one.items)) < 0.5
    gold = None if one.gold is None else np.broadcast_to(one.gold, swap.shape)
    first = np.where(swap, theirs, ours)
    second = np.where(swap, ours, theirs)
    return _of_rows(first, gold) - _of_rows(second, gold)


def sentences(differences: dict[str, PairedDifference], *, against: str) -> list[str]:
    """One sentence a set."""
    return [
        f"{name}: {d.mean:+.4g} against {against} ({d.level:.0%} interval {d.low:+.4g} to "
        f"{d.high:+.4g}, p = {d.p:.2g}, {d.queries} items)" + ("" if d.clear else "; may be luck")
        for name, d in differences.items()
    ]
