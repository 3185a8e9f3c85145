"""SentEval's sets from their files, and classifiers that see only what they may."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold

from sbert_retriever.errors import InputError, ReadError
from sbert_retriever.evaluation.classifier import GRID, Protocol, choose_on, cross_validated
from sbert_retriever.evaluation.senteval import (
    TRANSFER_TASKS,
    Examples,
    TransferSet,
    read_classes,
    read_transfer,
)
from sbert_retriever.evaluation.transfer_tasks import f1, measure_transfer, pair_features
from sbert_retriever.testing import HashEncoder

MRPC = "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\r\n"


def blobs(n=120, seed=0):
    """Two classes that lie apart but for some."""
    rng = np.random.default_rng(seed)
    labels = np.array(["0", "1"] * (n // 2))
    return rng.normal(0, 1, (n, 4)) + (labels == "1")[:, None] * 1.2, labels


def test_old_files_hold_latin_1_and_odd_line_breaks(file):
    path = file("a.all", b"0 caf\xe9 \x85 stays\n1 cr\xc3\xa8me\n1 \n0 x y \n")
    read = read_classes(path)
    assert read.texts == ("caf\xe9 \x85 stays", "crème", "x y")
    assert read.labels == ("0", "1", "0")


@pytest.mark.parametrize(
    ("text", "said"),
    [("0 a\nb c\n", r"a\.all, line 2: 'b', expected the number"), ("0 a\n0 b\n", "1 classes")],
)
def test_what_does_not_fit_is_refused_with_file_and_line(file, text, said):
    with pytest.raises(ReadError, match=said):
        read_classes(file("a.all", text))


def test_mrpc_is_train_and_validation_together(file, tmp_path):
    file("mrpc/msr-para-train.tsv", MRPC + '1\t1\t2\t"a\tb\r\n0\t1\t2\tc\td\r\n')
    file("mrpc/msr-para-val.tsv", MRPC + "0\t1\t2\te\tf\n1\t1\t2\tg\th\n")
    file("mrpc/msr-para-test.tsv", MRPC + "1\t1\t2\ti\tj\n0\t1\t2\tk\tl\n")
    read = read_transfer(tmp_path, "MRPC")
    assert read.train.texts == ('"a', "c", "e", "g")
    assert read.train.labels == ("1", "0", "0", "1")
    assert read.test.seconds == ("j", "l")
    file("mrpc/msr-para-val.tsv", MRPC + "2\t1\t2\te\tf\n")
    with pytest.raises(ReadError, match=r"val\.tsv, line 2: the quality is '2'"):
        read_transfer(tmp_path, "MRPC")


def test_cross_validation_is_scikit_learns_own():
    """With the regularisation that the inner part chooses, fold by fold."""
    features, labels = blobs()
    expected = np.empty_like(labels)
    for train, test in StratifiedKFold(5, shuffle=True, random_state=3).split(features, labels):
        inner = StratifiedKFold(5, shuffle=True, random_state=3)
        fit, dev = next(inner.split(features[train], labels[train]))
        right = [
            LogisticRegression(C=c, max_iter=1000)
            .fit(features[train][fit], labels[train][fit])
            .score(features[train][dev], labels[train][dev])
            for c in GRID
        ]
        model = LogisticRegression(C=GRID[int(np.argmax(right))], max_iter=1000)
        expected[test] = model.fit(features[train], labels[train]).predict(features[test])
    found = cross_validated(features, labels, Protocol(folds=5, seed=3))
    assert (found == expected).mean() > 0.99  # warm starts end a hair elsewhere


def test_noise_is_told_no_better_than_by_chance():
    """Nothing of a test fold reaches the classifier that is tested on it."""
    rng = np.random.default_rng(0)
    labels = np.array(["0", "1"] * 150)
    found = cross_validated(rng.normal(size=(300, 200)), labels, Protocol(folds=5))
    assert 0.38 < (found == labels).mean() < 0.62


def test_the_strongest_c_that_is_best_on_the_dev_part_is_not_always_the_last():
    features, labels = blobs(60)
    others, theirs = blobs(400, seed=1)
    accuracies = [
        LogisticRegression(C=c, max_iter=1000).fit(features, labels).score(others, theirs)
        for c in GRID
    ]
    assert choose_on(features, labels, others, theirs) == GRID[int(np.argmax(accuracies))]


def test_a_pair_is_what_differs_and_what_agrees():
    found = pair_features(np.array([[1.0, 2.0]]), np.array([[3.0, 2.0]]))
    assert found.tolist() == [[2.0, 0.0, 3.0, 4.0]]
    assert f1(np.array([False]), np.array([False])) == 0


WORDS = {"0": "bad dull slow", "1": "good bright quick"}


def examples(n, seed, *, pairs=False):
    rng = np.random.default_rng(seed)
    labels = tuple(str(i % 2) for i in range(n))
    texts = tuple(" ".join(rng.choice(WORDS[label].split(), 2)) for label in labels)
    seconds = tuple(
        text if label == "1" else "something else"
        for text, label in zip(texts, labels, strict=True)
    )
    return Examples(texts, labels, seconds if pairs else ())


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("MR", {"train": examples(40, 0)}),
        ("SST2", {"train": examples(40, 0), "dev": examples(10, 1), "test": examples(20, 2)}),
        ("TREC", {"train": examples(40, 0), "test": examples(20, 2)}),
        ("MRPC", {"train": examples(40, 0, pairs=True), "test": examples(20, 2, pairs=True)}),
    ],
)
def test_words_that_give_the_class_away_are_learnt(name, given):
    found = measure_transfer(HashEncoder(256), TransferSet(name=name, **given))
    assert found.figures["accuracy"] == 100
    assert found.items == (40 if name == "MR" else 20)
    assert ("f1" in found.figures) == (name == "MRPC")
    assert found.values.mean() == 100


def test_classes_too_small_for_the_folds_are_refused():
    features, labels = blobs(10)
    with pytest.raises(InputError, match="class '0' has 5 examples, which 10 folds"):
        cross_validated(features, labels, Protocol())
    with pytest.raises(InputError, match="folds is 1"):
        Protocol(folds=1)


@pytest.mark.data
def test_the_published_sets_are_whole(data_dir):
    sizes = {
        name: [len(part) for part in read_transfer(data_dir, name).files] for name in TRANSFER_TASKS
    }
    # CR and MPQA have 4 and 3 lines without a text.
    assert sizes == {
        "MR": [10662],
        "CR": [3771],
        "SUBJ": [10000],
        "MPQA": [10603],
        "SST2": [6920, 872, 1821],
        "TREC": [5452, 500],
        "MRPC": [4076, 1725],
    }
