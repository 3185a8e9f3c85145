"""Argument similarity: do two arguments say the same, within topics that were seen and across?

The paper's section 4.3 has the Argument Facet Similarity corpus; here the UKP Argument Aspect
corpus (Reimers et al. 2019) stands in: 28 topics, four labels. Nothing of the encoder is trained
here: what is fitted on the training folds is a threshold, and a ridge regression on its vectors.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from sbert_retriever.errors import InputError, MissingExtraError, ReadError
from sbert_retriever.evaluation.lines import place_of
from sbert_retriever.evaluation.pairs import ScoredPairs, scored, tab_records
from sbert_retriever.evaluation.results import SetResult
from sbert_retriever.evaluation.similarity import (
    SIMILARITIES,
    Numbers,
    correlations,
    encode_unique,
)
from sbert_retriever.evaluation.sts_sets import folder_of
from sbert_retriever.evaluation.transfer_tasks import f1, pair_features
from sbert_retriever.types import Encoder, Scorer

Rows: TypeAlias = npt.NDArray[np.int64]

FILE = "UKP_ASPECT.tsv"
# Different topic or cannot decide, no, some, high similarity.
GRADES = {"DTORCD": 0.0, "NS": 0.0, "SS": 1.0, "HS": 2.0}
_COLUMNS = ("topic", "sentence_1", "sentence_2", "label")
_PENALTIES = tuple(10.0**power for power in range(-2, 4))


@dataclass(frozen=True)
class ArgumentPairs:
    """Pairs of arguments, and the topic of each.

    Args:
        pairs: With their grades, 0 to 2.
        topics: One a pair.
    """

    pairs: ScoredPairs
    topics: tuple[str, ...]


def read_arguments(data: Path) -> ArgumentPairs:
    """The UKP Argument Aspect corpus.

    Raises:
        ReadError: The file is missing, a line does not fit, or has a label never seen.
    """
    path = folder_of(data, "ukp-aspect", holding=FILE) / FILE
    rows = list(tab_records(path, _COLUMNS))
    for number, row in rows:
        if row["label"] not in GRADES:
            raise ReadError(
                f"{place_of(path, number)}: the label is {row['label']!r}, expected one of "
                f"{', '.join(GRADES)}"
            )
    graded = ((row["sentence_1"], row["sentence_2"], GRADES[row["label"]]) for _, row in rows)
    return ArgumentPairs(
        scored("arguments", graded, source=path), tuple(row["topic"] for _, row in rows)
    )


def measure_arguments(
    model: Encoder | Scorer, arguments: ArgumentPairs, *, folds: int = 10, seed: int = 0
) -> list[SetResult]:
    """Correlations with the grades, as the model is and after a fit on training folds.

    Args:
        model: Encodes texts, or scores pairs.
        arguments: With grades and topics.
        folds: Within topics. Across topics there are four folds of seven topics each.
        seed: Of the folds.

    Returns:
        "all pairs": the model as it is. "10-fold" and "cross-topic": predictions of a ridge
        regression for pairs, or topics, that it has not seen (`spearman`, `pearson` of all
        together; `spearman_folds`, `pearson_folds` the mean over the folds, as the paper has it),
        and the mean F1 of "similar" and "not similar" with a threshold chosen on the training folds
        (`f1`).

    Raises:
        InputError: There are fewer topics than folds of them.
        MissingExtraError: scikit-learn or scipy is not installed.
    """
    started = perf_counter()
    scores, features = _read_by(model, arguments.pairs)
    gold = np.array(arguments.pairs.gold)
    name = next(iter(scores))
    plain = {
        f"{kind}_{measure}": value
        for measure, values in scores.items()
        for kind, value in correlations(gold, values).items()
    }
    found = [("all pairs", plain, scores[name])]
    cuts = {
        f"{folds}-fold": fold_rows(arguments, folds=folds, seed=seed, by_topic=False),
        "cross-topic": fold_rows(arguments, folds=4, seed=seed, by_topic=True),
    }
    for cut, rows in cuts.items():
        parts = list(rows)
        predicted = _out_of_fold(features, gold, parts)
        told = {"f1": 100 * _threshold_f1(scores[name], gold > 0, parts)}
        figures = correlations(gold, predicted) | _by_fold(gold, predicted, parts) | told
        found.append((cut, figures, predicted))
    return [
        SetResult(
            name=cut,
            items=len(gold),
            figures=figures,
            values=values,
            gold=gold,
            seconds=perf_counter() - started,
        )
        for cut, figures, values in found
    ]


def _read_by(
    model: Encoder | Scorer, pairs: ScoredPairs
) -> tuple[dict[str, Numbers], npt.NDArray[Any]]:
    """{measure: scores (n,)}, and features (n, width) for a regression."""
    if isinstance(model, Encoder):
        left, right = encode_unique(model, pairs.left, pairs.right)
        scores = {name: measure(left, right) for name, measure in SIMILARITIES.items()}
        cosine = scores["cosine"][:, None]
        return scores, np.concatenate([pair_features(left, right), cosine], axis=1)
    given = model.score(list(zip(pairs.left, pairs.right, strict=True))).astype(np.float64)
    return {"score": given}, given[:, None]


def fold_rows(
    arguments: ArgumentPairs, *, folds: int, seed: int, by_topic: bool
) -> Iterator[tuple[Rows, Rows]]:
    """Rows to train on and to test on, by pair, or so that no topic is on both sides.

    Raises:
        InputError: There are fewer topics, or pairs, than folds.
        MissingExtraError: scikit-learn is not installed.
    """
    try:
        from sklearn.model_selection import GroupKFold, KFold
    except ImportError as error:
        raise MissingExtraError("scikit-learn", extra="eval", purpose="make folds") from error
    there = len(set(arguments.topics)) if by_topic else len(arguments.pairs)
    if folds < 2 or there < folds:
        kind = "topics" if by_topic else "pairs"
        raise InputError(f"{there} {kind} cannot be cut into {folds} folds: give fewer")
    cut = (GroupKFold if by_topic else KFold)(folds, shuffle=True, random_state=seed)
    groups = np.array(arguments.topics) if by_topic else None
    yield from cut.split(np.zeros(len(arguments.pairs)), groups=groups)


def _out_of_fold(
    features: npt.NDArray[Any], gold: Numbers, parts: list[tuple[Rows, Rows]]
) -> Numbers:
    """What a ridge regression that has not seen a pair says of it: (n,)."""
    from sklearn.linear_model import RidgeCV

    predicted = np.empty(len(gold))
    for train, test in parts:
        model = RidgeCV(_PENALTIES).fit(features[train], gold[train])
        predicted[test] = model.predict(features[test])
    return predicted


def _by_fold(gold: Numbers, predicted: Numbers, parts: list[tuple[Rows, Rows]]) -> dict[str, float]:
    """The mean of each correlation over the folds."""
    found = [correlations(gold[test], predicted[test]) for _, test in parts]
    return {f"{name}_folds": float(np.mean([one[name] for one in found])) for name in found[0]}


def _threshold_f1(
    scores: Numbers, similar: npt.NDArray[np.bool_], parts: list[tuple[Rows, Rows]]
) -> float:
    """The mean F1 of both classes, each fold by the threshold that suits the others best."""
    told = np.empty(len(scores), dtype=bool)
    for train, test in parts:
        told[test] = scores[test] >= _best_threshold(scores[train], similar[train])
    return _both_f1(similar, told)


def _best_threshold(scores: Numbers, similar: npt.NDArray[np.bool_]) -> float:
    """Among 200 quantiles of the scores."""
    tried = np.unique(np.quantile(scores, np.linspace(0, 1, 200)))
    return float(max(tried, key=lambda cut: _both_f1(similar, scores >= cut)))


def _both_f1(gold: npt.NDArray[np.bool_], told: npt.NDArray[np.bool_]) -> float:
    return (f1(gold, told) + f1(~gold, ~told)) / 2
