"""Labels of pairs by a cross-encoder: natural language inference, and any other classification."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from time import perf_counter

import numpy as np
import numpy.typing as npt

from sbert_retriever.encoder.cross_encoder import CrossEncoder
from sbert_retriever.errors import InputError, ReadError
from sbert_retriever.evaluation.lines import place_of
from sbert_retriever.evaluation.pairs import LabelledPairs, labelled, tab_records
from sbert_retriever.evaluation.results import SetResult
from sbert_retriever.evaluation.senteval import read_mrpc
from sbert_retriever.evaluation.similarity import Numbers, ranks
from sbert_retriever.evaluation.sts_sets import folder_of, read_sick_labels
from sbert_retriever.evaluation.transfer_tasks import f1

NLI_LABELS = ("entailment", "neutral", "contradiction")
_CONJNLI = "conj_dev.tsv"
_NO_AND_YES = {("0", "1"), ("no", "yes"), ("false", "true")}


def read_nli(data: Path) -> list[LabelledPairs]:
    """The pairs with entailment labels that are in a folder: ConjNLI's dev split, SICK's test.

    Raises:
        ReadError: Neither is there, a line does not fit, or has a label never seen.
    """
    found = [
        reader(data)
        for pattern, names, reader in (
            (_CONJNLI, ("conjnli",), _conjnli),
            ("SICK_test*.txt", ("sick",), lambda place: read_sick_labels(place, "test")),
        )
        if any(any(place.glob(pattern)) for place in (data, *(data / name for name in names)))
    ]
    if not found:
        raise ReadError(
            f"{data} has no {_CONJNLI} and no SICK_test_annotated.txt: give --data the folder that "
            "holds the data sets"
        )
    return found


def _conjnli(data: Path) -> LabelledPairs:
    path = folder_of(data, "conjnli", holding=_CONJNLI) / _CONJNLI
    rows = list(tab_records(path, ("Premise", "Hypothesis", "Label")))
    for number, row in rows:
        if row["Label"] not in NLI_LABELS:
            raise ReadError(
                f"{place_of(path, number)}: the label is {row['Label']!r}, expected one of "
                f"{', '.join(NLI_LABELS)}"
            )
    pairs = ((row["Premise"], row["Hypothesis"], row["Label"]) for _, row in rows)
    return labelled("conjnli", pairs, source=path)


def read_labelled(path: Path) -> LabelledPairs:
    """A file with columns sentence1, sentence2 and label, parted by tabs, named in its first line.

    Raises:
        ReadError: A column is missing or a line does not fit.
    """
    rows = tab_records(path, ("sentence1", "sentence2", "label"))
    pairs = ((row["sentence1"], row["sentence2"], row["label"]) for _, row in rows)
    return labelled(path.stem, pairs, source=path)


def read_paraphrases(data: Path) -> LabelledPairs:
    """The test split of Microsoft's paraphrase corpus, labels "0" and "1".

    Raises:
        ReadError: A column is missing or a line does not fit.
    """
    path = folder_of(data, "mrpc", holding="msr-para-test.tsv") / "msr-para-test.tsv"
    read = read_mrpc(path)
    return LabelledPairs("mrpc", read.texts, read.seconds, read.labels)


def measure_labels(
    scorer: CrossEncoder, pairs: LabelledPairs, *, names: Sequence[str] | None = None
) -> SetResult:
    """How many pairs get their label, times 100.

    Args:
        scorer: A cross-encoder.
        pairs: With their labels.
        names: What the model's labels are called in the data, in the model's order; of a model of
            one score the label that a high score means. None where the model says so itself, or
            the two labels do: 0 and 1, no and yes, false and true.

    Returns:
        Of a model of several labels `accuracy`, `f1_macro` and `f1_<label>`. Of a model of one
        score, for two labels, `auroc`, and `accuracy_best` by the threshold that suits these very
        pairs best, which flatters.

    Raises:
        InputError: The model's labels are not those of the data.
    """
    started = perf_counter()
    logits = scorer.predict_logits(list(zip(pairs.left, pairs.right, strict=True)))
    gold = np.array(pairs.labels)
    if logits.shape[1] == 1:
        positive = gold == _high(scorer, pairs, names)
        return _of_score(pairs, positive, logits[:, 0].astype(np.float64), started)
    labels = _labels(scorer, gold, names)
    told = np.array(labels)[logits.argmax(axis=1)]
    right = 100.0 * (told == gold)
    each = {label: 100 * f1(gold == label, told == label) for label in labels}
    # A label that is neither in the data nor told of has no F1 to average.
    there = [each[label] for label in labels if label in {*gold.tolist(), *told.tolist()}]
    figures = {
        "accuracy": float(right.mean()),
        "f1_macro": sum(there) / len(there),
        **{f"f1_{label}": value for label, value in each.items()},
    }
    return _result(pairs, figures, right, started)


def _labels(
    scorer: CrossEncoder, gold: npt.NDArray[np.str_], names: Sequence[str] | None
) -> list[str]:
    """The data's name of each of the model's labels.

    Raises:
        InputError: They do not fit.
    """
    given = list(scorer.labels if names is None else names)
    if len(given) != len(scorer.labels):
        raise InputError(
            f"{len(given)} labels were named, and {scorer.name} has {len(scorer.labels)}: "
            f"{', '.join(scorer.labels)}"
        )
    folded = {label.casefold(): label for label in dict.fromkeys(gold.tolist())}
    found = [folded.get(label.casefold(), label) for label in given]
    if missing := sorted(set(folded.values()) - set(found)):
        raise InputError(
            f"the pairs have the label {missing[0]!r}, and {scorer.name} has "
            f"{', '.join(map(repr, given))}: name its labels in its own order with --labels"
        )
    return found


def _high(scorer: CrossEncoder, pairs: LabelledPairs, names: Sequence[str] | None) -> str:
    """Which of the data's two labels a high score means.

    Raises:
        InputError: There are not two, or nothing says which.
    """
    classes = sorted(set(pairs.labels))
    if len(classes) != 2:
        raise InputError(
            f"the model gives one score, and {pairs.name} has {len(classes)} labels "
            f"({', '.join(classes)}), expected two"
        )
    folded = {label.casefold(): label for label in classes}
    given = [name.casefold() for name in (scorer.labels if names is None else names)]
    if len(given) == 1 and given[0] in folded:
        return folded[given[0]]
    if names is None and tuple(folded) in _NO_AND_YES:
        return classes[1]
    raise InputError(
        f"{scorer.name} gives one score, and {pairs.name} has the labels {classes[0]!r} and "
        f"{classes[1]!r}: name the one that a high score means with --labels"
    )


def _of_score(
    pairs: LabelledPairs, positive: npt.NDArray[np.bool_], scores: Numbers, started: float
) -> SetResult:
    cut = best_threshold(scores, positive)
    right = 100.0 * ((scores >= cut) == positive)
    figures = {
        "accuracy_best": float(right.mean()),
        "auroc": 100 * auroc(scores, positive),
        "f1_best": 100 * f1(positive, scores >= cut),
    }
    return _result(pairs, figures, right, started)


def best_threshold(scores: Numbers, positive: npt.NDArray[np.bool_]) -> float:
    """The score from which on "positive" is right most often; of several the lowest.

    Infinity, where saying so of none is right more often than any score.

    Args:
        scores: (n,).
        positive: (n,).

    Examples:
        >>> best_threshold(np.array([0.1, 0.4, 0.8]), np.array([False, True, True]))
        0.4
        >>> best_threshold(np.array([0.1, 0.4, 0.8]), np.array([True, False, False]))
        inf
    """
    cuts, places = np.unique(scores, return_inverse=True)
    up = np.bincount(places, weights=positive, minlength=len(cuts))
    down = np.bincount(places, weights=~positive, minlength=len(cuts))
    above = np.append(up[::-1].cumsum()[::-1], 0.0)
    below = np.append(0.0, down.cumsum())
    return float(np.append(cuts, np.inf)[np.argmax(above + below)])


def auroc(scores: Numbers, positive: npt.NDArray[np.bool_]) -> float:
    """The chance that a positive scores above a negative, a tie counting half (Fawcett 2006).

    Examples:
        >>> auroc(np.array([0.1, 0.4, 0.35, 0.8]), np.array([False, False, True, True]))
        0.75
    """
    up, down = int(positive.sum()), int((~positive).sum())
    above = float(ranks(scores)[positive].sum()) - up * (up + 1) / 2
    return above / (up * down)


def _result(
    pairs: LabelledPairs, figures: dict[str, float], right: Numbers, started: float
) -> SetResult:
    return SetResult(
        name=pairs.name,
        items=len(pairs),
        figures=figures,
        values=right,
        seconds=perf_counter() - started,
    )
