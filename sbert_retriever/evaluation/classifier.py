"""Logistic regression on frozen vectors, its regularisation chosen on data it is not tested on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from sbert_retriever.errors import InputError, MissingExtraError

if TYPE_CHECKING:
    from sbert_retriever.types import Vectors

Labels: TypeAlias = npt.NDArray[np.str_]
Rows: TypeAlias = npt.NDArray[np.int64]

# SentEval's own grid: C is one over the weight of the L2 penalty.
GRID = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
_STEPS = 1000


@dataclass(frozen=True, kw_only=True)
class Protocol:
    """How the classifier is fitted.

    Args:
        folds: Of a set without a test split.
        inner_folds: On which the regularisation is chosen within what is trained on; 1 holds out
            one part in five once.
        seed: Of the folds.
    """

    folds: int = 10
    inner_folds: int = 1
    seed: int = 0

    def __post_init__(self) -> None:
        if self.folds < 2 or self.inner_folds < 1:
            raise InputError(
                f"folds is {self.folds} and inner_folds {self.inner_folds}: give 2 and 1 or more"
            )


def cross_validated(features: Vectors, labels: Labels, protocol: Protocol) -> Labels:
    """What is predicted for each example by a classifier that has not seen it: (n,).

    Args:
        features: (n, width).
        labels: (n,).
        protocol: Folds, and how the regularisation is chosen in each.

    Raises:
        InputError: A class has fewer examples than there are folds.
        MissingExtraError: scikit-learn is not installed.
    """
    predicted = np.empty_like(labels)
    for train, test in stratified(labels, protocol.folds, protocol.seed):
        strength = choose(features[train], labels[train], protocol)
        model = fitted(features[train], labels[train], strength)
        predicted[test] = model.predict(features[test])
    return predicted


def choose(features: Vectors, labels: Labels, protocol: Protocol) -> float:
    """The C of `GRID` that is most accurate on folds, or on one part, of what is given."""
    if protocol.inner_folds == 1:
        train, dev = next(stratified(labels, 5, protocol.seed))
        return choose_on(features[train], labels[train], features[dev], labels[dev])
    right = np.zeros(len(GRID))
    for train, dev in stratified(labels, protocol.inner_folds, protocol.seed):
        right += _accuracies(features[train], labels[train], features[dev], labels[dev])
    return GRID[int(right.argmax())]


def choose_on(features: Vectors, labels: Labels, others: Vectors, theirs: Labels) -> float:
    """The C of `GRID` that is most accurate on examples that are given for it."""
    return GRID[int(_accuracies(features, labels, others, theirs).argmax())]


def fitted(features: Vectors, labels: Labels, strength: float) -> Any:
    """scikit-learn's logistic regression."""
    model = _regression(strength)
    model.fit(features, labels)
    return model


def _accuracies(
    features: Vectors, labels: Labels, others: Vectors, theirs: Labels
) -> npt.NDArray[np.float64]:
    """How many of the others are told right at each C. Each fit starts where the last one ended."""
    model = _regression(GRID[0], warm_start=True)
    right = []
    for strength in GRID:
        model.set_params(C=strength)
        model.fit(features, labels)
        right.append((model.predict(others) == theirs).mean())
    return np.array(right)


def _regression(strength: float, *, warm_start: bool = False) -> Any:
    try:
        from sklearn.linear_model import LogisticRegression
    except ImportError as error:
        raise MissingExtraError(
            "scikit-learn", extra="eval", purpose="train a classifier"
        ) from error
    return LogisticRegression(C=strength, max_iter=_STEPS, warm_start=warm_start)


def stratified(labels: Labels, folds: int, seed: int) -> Iterator[tuple[Rows, Rows]]:
    """Rows to train on and to test on, each class spread evenly over the folds.

    Raises:
        InputError: A class has fewer examples than there are folds.
        MissingExtraError: scikit-learn is not installed.
    """
    try:
        from sklearn.model_selection import StratifiedKFold
    except ImportError as error:
        raise MissingExtraError("scikit-learn", extra="eval", purpose="make folds") from error
    names, counts = np.unique(labels, return_counts=True)
    if counts.min() < folds:
        rarest = str(names[counts.argmin()])
        raise InputError(
            f"class {rarest!r} has {counts.min()} examples, which {folds} folds cannot share: give "
            "fewer folds or more examples"
        )
    cut = StratifiedKFold(folds, shuffle=True, random_state=seed)
    yield from cut.split(np.zeros(len(labels)), labels)
