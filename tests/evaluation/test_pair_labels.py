"""Labels by a cross-encoder, on logits that are known."""

import numpy as np
import pytest
from sklearn.metrics import f1_score, roc_auc_score

from sbert_retriever.errors import InputError, ReadError
from sbert_retriever.evaluation.pair_labels import (
    auroc,
    best_threshold,
    measure_labels,
    read_labelled,
    read_nli,
    read_paraphrases,
)
from sbert_retriever.evaluation.pairs import LabelledPairs

NLI = "\ufeffPremise\tHypothesis\tLabel\n"


class TableClassifier:
    """Gives the logits that a table has for a pair's second text."""

    name = "table"

    def __init__(self, labels, table):
        self.labels = labels
        self._table = table

    def predict_logits(self, pairs):
        return np.array([self._table[second] for _, second in pairs], dtype=np.float32)


PAIRS = LabelledPairs("p", ("x",) * 4, ("a", "b", "c", "d"), ("yes", "no", "no", "maybe"))
TABLE = {"a": [2, 0, 1], "b": [0, 1, 2], "c": [0, 3, 2], "d": [0, 1, 5]}


def test_accuracy_and_f1_are_scikit_learns():
    model = TableClassifier(("YES", "no", "maybe"), TABLE)
    found = measure_labels(model, PAIRS)
    gold, told = list(PAIRS.labels), ["yes", "maybe", "no", "maybe"]
    assert found.figures["accuracy"] == 75
    for label in ("yes", "no", "maybe"):
        expected = 100 * f1_score(gold, told, labels=[label], average="macro")
        assert found.figures[f"f1_{label}"] == pytest.approx(expected)
    assert found.figures["f1_macro"] == pytest.approx(100 * f1_score(gold, told, average="macro"))
    assert found.values.tolist() == [100, 0, 100, 100]


def test_labels_without_names_are_named_by_the_caller():
    model = TableClassifier(("LABEL_0", "LABEL_1", "LABEL_2"), TABLE)
    with pytest.raises(
        InputError, match="the pairs have the label 'maybe', and table has 'LABEL_0'"
    ):
        measure_labels(model, PAIRS)
    assert measure_labels(model, PAIRS, names=["yes", "no", "maybe"]).figures["accuracy"] == 75
    with pytest.raises(InputError, match="2 labels were named, and table has 3"):
        measure_labels(model, PAIRS, names=["yes", "no"])


def test_a_label_that_never_occurs_is_not_averaged():
    """Three labels, of which the data has two, all told rightly: scikit-learn says 100, not 67."""
    pairs = LabelledPairs("p", ("x",) * 2, ("a", "b"), ("yes", "no"))
    found = measure_labels(
        TableClassifier(("yes", "no", "maybe"), {"a": [2, 0, 1], "b": [0, 2, 1]}), pairs
    )
    assert found.figures["f1_macro"] == 100
    assert 100 * f1_score(["yes", "no"], ["yes", "no"], average="macro") == 100


def test_one_score_for_two_labels():
    pairs = LabelledPairs("p", ("x",) * 4, ("a", "b", "c", "d"), ("0", "0", "1", "1"))
    scores = {"a": [0.1], "b": [0.4], "c": [0.35], "d": [0.8]}
    found = measure_labels(TableClassifier(("score",), scores), pairs).figures
    assert found["auroc"] == 75
    assert found["accuracy_best"] == 75
    with pytest.raises(InputError, match="p has 3 labels"):
        measure_labels(TableClassifier(("score",), scores), PAIRS)


def test_the_best_threshold_is_at_least_as_good_as_the_more_frequent_label():
    """One of four is positive and scores lowest: "none is" is right three times in four."""
    pairs = LabelledPairs("p", ("x",) * 4, ("a", "b", "c", "d"), ("1", "0", "0", "0"))
    scores = {"a": [0.1], "b": [0.4], "c": [0.35], "d": [0.8]}
    found = measure_labels(TableClassifier(("score",), scores), pairs)
    assert found.figures["accuracy_best"] == 75
    assert found.figures["f1_best"] == 0
    assert found.values.tolist() == [0, 100, 100, 100]


def test_the_best_threshold_among_ties_by_trying_every_one():
    rng = np.random.default_rng(0)
    for _ in range(50):
        scores, positive = rng.integers(0, 4, 9).astype(float), rng.random(9) < 0.5
        tried = [*sorted(set(scores)), np.inf]
        right = [
            sum((s >= cut) == p for s, p in zip(scores, positive, strict=True)) for cut in tried
        ]
        assert best_threshold(scores, positive) == tried[right.index(max(right))]


def test_which_of_two_labels_a_high_score_means_is_asked_for():
    """By the alphabet "paraphrase" comes first, and its AUROC would be that of the other one."""
    labels = ("unrelated", "unrelated", "paraphrase", "paraphrase")
    pairs = LabelledPairs("p", ("x",) * 4, ("a", "b", "c", "d"), labels)
    scores = {"a": [0.1], "b": [0.4], "c": [0.35], "d": [0.8]}
    model = TableClassifier(("LABEL_0",), scores)
    with pytest.raises(InputError, match="'paraphrase' and 'unrelated': name the one that a high"):
        measure_labels(model, pairs)
    with pytest.raises(InputError, match="name the one that a high score means"):
        measure_labels(model, pairs, names=["paraphrase", "unrelated"])
    assert measure_labels(model, pairs, names=["Paraphrase"]).figures["auroc"] == 75
    named = TableClassifier(("paraphrase",), scores)
    assert measure_labels(named, pairs).figures["auroc"] == 75


def test_auroc_is_scikit_learns_with_ties():
    rng = np.random.default_rng(0)
    scores, positive = rng.integers(0, 5, 50).astype(float), rng.random(50) < 0.4
    assert auroc(scores, positive) == pytest.approx(roc_auc_score(positive, scores))


def test_files(file, tmp_path):
    file("conjnli/conj_dev.tsv", NLI + "a\tb\tneutral\n")
    names = ("pair_ID", "sentence_A", "sentence_B", "relatedness_score", "entailment_judgment")
    rows = [names, ("1", "a", "b", "3", "ENTAILMENT")]
    file("sick/SICK_test_annotated.txt", "\n".join("\t".join(row) for row in rows))
    assert [(p.name, p.labels) for p in read_nli(tmp_path)] == [
        ("conjnli", ("neutral",)),
        ("sick", ("entailment",)),
    ]
    read = read_labelled(file("mine.tsv", "label\tsentence1\tsentence2\nyes\ta\tb\n"))
    assert read == LabelledPairs("mine", ("a",), ("b",), ("yes",))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (NLI + "a\tb\tneutral\nc\td\tnever\n", r"conj_dev\.tsv, line 3: the label is 'never'"),
        ("Premise\tLabel\n", r"line 1: no column 'Hypothesis'"),
        (NLI, "holds no labelled pair"),
    ],
)
def test_what_does_not_fit_is_refused_with_file_and_line(file, tmp_path, text, said):
    file("conjnli/conj_dev.tsv", text)
    with pytest.raises(ReadError, match=said):
        read_nli(tmp_path)


def test_folders_without_the_sets(tmp_path):
    with pytest.raises(ReadError, match="no conj_dev"):
        read_nli(tmp_path)
    with pytest.raises(ReadError, match="msr-para-test"):
        read_paraphrases(tmp_path)
