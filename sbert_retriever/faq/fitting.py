"""Learning when to answer: logistic regression, thresholds, and what they are worth.

Pure functions on arrays. `right` says of each question whether the entry that was found answers
it, `weights` how much it counts.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sbert_retriever.faq.calibration import Logistic

Floats = npt.NDArray[np.float64]
Truths = npt.NDArray[np.bool_]
Numbers = npt.NDArray[np.int64]

_RIDGE = 1e-2
_ROUNDS = 100
_BINS = 15


def fitted(
    values: Floats, right: Truths, *, features: tuple[str, ...], weights: Floats | None = None
) -> Logistic:
    """Logistic regression by Newton's method, on features set to mean 0 and deviation 1.

    A small ridge keeps the weights finite where the features tell right from wrong without error.

    Args:
        values: (n, features).
        right: (n,).
        features: Their names.
        weights: (n,), mean 1; None is 1 each.
    """
    counts = np.ones(len(values)) if weights is None else weights
    means = np.average(values, axis=0, weights=counts)
    scales = np.sqrt(np.average((values - means) ** 2, axis=0, weights=counts))
    scales = np.where(scales > 0, scales, 1.0)
    rows = np.column_stack([np.ones(len(values)), (values - means) / scales])
    found = _newton(rows, right.astype(np.float64), counts)
    return Logistic(
        features=features,
        means=tuple(means.tolist()),
        scales=tuple(scales.tolist()),
        weights=tuple(found[1:].tolist()),
        intercept=float(found[0]),
    )


def _newton(rows: Floats, right: Floats, counts: Floats) -> Floats:
    ridge = np.full(rows.shape[1], _RIDGE)
    ridge[0] = 0.0
    found = np.zeros(rows.shape[1])
    for _ in range(_ROUNDS):
        chance = 1 / (1 + np.exp(-np.clip(rows @ found, -30, 30)))
        slope = rows.T @ (counts * (chance - right)) + ridge * found
        bend = (rows * (counts * chance * (1 - chance))[:, None]).T @ rows
        step = np.linalg.solve(bend + np.diag(ridge + 1e-9), slope)
        found = found - np.clip(step, -2, 2)
        if np.abs(step).max() < 1e-8:
            break
    return np.asarray(found)


def out_of_fold(
    values: Floats,
    right: Truths,
    *,
    features: tuple[str, ...],
    weights: Floats,
    folds: int,
    seed: int,
    same: Numbers | None = None,
) -> Floats:
    """The chance of each question by a fit on the other folds: (n,).

    Args:
        values: (n, features).
        right: (n,).
        features: Their names.
        weights: (n,).
        folds: How many.
        seed: Of the folds.
        same: (n,): from 0 on, one number for what is the same question and so in one fold; None
            where all differ.
    """
    numbers = np.arange(len(values)) if same is None else np.unique(same, return_inverse=True)[1]
    fold = (np.random.default_rng(seed).permutation(numbers.max() + 1) % folds)[numbers]
    chances = np.empty(len(values))
    for held in range(folds):
        rest = fold != held
        model = fitted(values[rest], right[rest], features=features, weights=weights[rest])
        chances[~rest] = model.chances(values[~rest])
    return chances


def threshold_for(
    chances: Floats, right: Truths, *, target: float, weights: Floats | None = None
) -> float | None:
    """The lowest chance at which answers are right often enough; None where none is.

    Often enough is `target` with one standard error to spare: a threshold that meets it just so on
    these questions would miss it on others half of the time.

    Args:
        chances: (n,).
        right: (n,).
        target: The share of answers that shall be right.
        weights: (n,).

    Examples:
        >>> chances = np.linspace(1, 0, 1000)
        >>> threshold_for(chances, chances > 0.5, target=0.9).__round__(1)
        0.5
    """
    order = np.argsort(-chances, kind="stable")
    counts = (np.ones(len(chances)) if weights is None else weights)[order]
    # Questions that do not count, having no weight, may come first.
    first = int(np.argmax(counts > 0))
    order, counts = order[first:], counts[first:]
    answered = np.cumsum(counts)
    share = np.cumsum(counts * right[order]) / answered
    size = answered**2 / np.cumsum(counts**2)
    smooth = (share * size + 1) / (size + 2)
    enough = share - np.sqrt(smooth * (1 - smooth) / size) >= target
    # Questions with one chance are answered together or not at all.
    ends = np.append(np.diff(chances[order]) != 0, True)
    good = np.flatnonzero(enough & ends)
    return float(chances[order][good[-1]]) if len(good) else None


def calibration_error(chances: Floats, right: Truths, weights: Floats | None = None) -> float:
    """Expected calibration error over 15 equal bins (Naeini, Cooper and Hauskrecht 2015)."""
    counts = np.ones(len(chances)) if weights is None else weights
    place = np.minimum((chances * _BINS).astype(int), _BINS - 1)
    off = np.bincount(place, weights=counts * (chances - right), minlength=_BINS)
    return float(np.abs(off).sum() / counts.sum())


def auroc(scores: Floats, positive: Truths) -> float | None:
    """The chance that a positive has a larger score than a negative, ties counting half.

    None where there are no positives or no negatives.

    Examples:
        >>> auroc(np.array([0.9, 0.5, 0.5, 0.1]), np.array([True, True, False, False]))
        0.875
    """
    yes, no = int(positive.sum()), int((~positive).sum())
    if not yes or not no:
        return None
    _, place, size = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(size) - (size - 1) / 2)[place]
    return float((ranks[positive].sum() - yes * (yes + 1) / 2) / (yes * no))
