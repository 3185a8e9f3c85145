"""Transfer: are a model's vectors good features for tasks it was never trained on?

The paper's section 5, with SentEval's protocol: logistic regression on frozen vectors; of a pair
of sentences |u - v| and u * v are the features. SentEval chooses the regularisation by ten inner
folds; here one inner part in five is held out for it unless `Protocol.inner_folds` says otherwise,
which takes a tenth of the time.
"""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from sbert_retriever.evaluation.classifier import (
    Labels,
    Protocol,
    choose,
    choose_on,
    cross_validated,
    fitted,
)
from sbert_retriever.evaluation.results import SetResult
from sbert_retriever.evaluation.senteval import Examples, TransferSet
from sbert_retriever.evaluation.similarity import encode_unique
from sbert_retriever.types import Encoder

if TYPE_CHECKING:
    from sbert_retriever.types import Vectors


def measure_transfer(
    encoder: Encoder, examples: TransferSet, *, protocol: Protocol | None = None
) -> SetResult:
    """Accuracy times 100 of a classifier on frozen vectors; of MRPC F1 as well.

    Args:
        encoder: Whose vectors are the features.
        examples: One of SentEval's sets.
        protocol: Folds and seed.

    Raises:
        InputError: A class has fewer examples than there are folds.
        MissingExtraError: scikit-learn is not installed.
    """
    started = perf_counter()
    how = protocol or Protocol()
    gold, predicted = _predicted(encoder, examples, how)
    right = (gold == predicted).astype(np.float64)
    figures = {"accuracy": 100 * float(right.mean())}
    if examples.name == "MRPC":
        figures["f1"] = 100 * f1(gold == "1", predicted == "1")
    return SetResult(
        name=examples.name,
        items=len(gold),
        figures=figures,
        values=100 * right,
        seconds=perf_counter() - started,
    )


def _predicted(encoder: Encoder, given: TransferSet, how: Protocol) -> tuple[Labels, Labels]:
    train, labels = _features(encoder, given.train)
    if given.test is None:
        return labels, cross_validated(train, labels, how)
    if given.dev is None:
        strength = choose(train, labels, how)
    else:
        strength = choose_on(train, labels, *_features(encoder, given.dev))
    test, gold = _features(encoder, given.test)
    return gold, fitted(train, labels, strength).predict(test)


def _features(encoder: Encoder, examples: Examples) -> tuple[Vectors, Labels]:
    """Features (n, dim), or (n, 2 * dim) of pairs, and the labels (n,)."""
    labels = np.array(examples.labels)
    if not examples.seconds:
        return encode_unique(encoder, examples.texts)[0], labels
    return pair_features(*encode_unique(encoder, examples.texts, examples.seconds)), labels


def pair_features(left: Vectors, right: Vectors) -> Vectors:
    """|u - v| and u * v side by side: (n, 2 * dim)."""
    return np.concatenate([np.abs(left - right), left * right], axis=1)


def f1(gold: npt.NDArray[np.bool_], predicted: npt.NDArray[np.bool_]) -> float:
    """The harmonic mean of precision and recall of what is True; 0 where nothing is.

    Examples:
        >>> f1(np.array([True, True, False]), np.array([True, False, True]))
        0.5
    """
    both = int((gold & predicted).sum())
    return 2 * both / max(int(gold.sum() + predicted.sum()), 1)
