"""Argument similarity within topics and across, on scores that are known."""

import numpy as np
import pytest

from sbert_retriever.errors import InputError, ReadError
from sbert_retriever.evaluation.arguments import (
    ArgumentPairs,
    fold_rows,
    measure_arguments,
    read_arguments,
)
from sbert_retriever.evaluation.pairs import ScoredPairs
from sbert_retriever.testing import TableScorer

HEADER = "topic\tsentence_1\tsentence_2\tlabel\n"


def arguments(n=80, topics=8):
    rng = np.random.default_rng(0)
    gold = tuple(float(g) for g in rng.integers(0, 3, n))
    left, right = tuple(f"l{i}" for i in range(n)), tuple(f"r{i}" for i in range(n))
    pairs = ScoredPairs("arguments", left, right, gold)
    return ArgumentPairs(pairs, tuple(f"t{i % topics}" for i in range(n)))


def test_labels_become_grades(file, tmp_path):
    rows = ["x\ta\tb\tNS", "x\tc\td\tSS", "y\te\tf\tHS", "y\tg\th\tDTORCD"]
    file("ukp-aspect/UKP_ASPECT.tsv", HEADER + "\n".join(rows))
    read = read_arguments(tmp_path)
    assert read.pairs.gold == (0.0, 1.0, 2.0, 0.0)
    assert read.topics == ("x", "x", "y", "y")
    file("ukp-aspect/UKP_ASPECT.tsv", HEADER + "x\ta\tb\tNO\n")
    with pytest.raises(ReadError, match="line 2: the label is 'NO', expected one of DTORCD"):
        read_arguments(tmp_path)


def test_a_score_that_is_the_grade_is_right_everywhere():
    given = arguments()
    scorer = TableScorer(dict(zip(given.pairs.right, given.pairs.gold, strict=True)))
    found = {one.name: one.figures for one in measure_arguments(scorer, given)}
    assert found["all pairs"]["spearman_score"] == pytest.approx(100)
    for cut in ("10-fold", "cross-topic"):
        assert found[cut]["spearman_folds"] == pytest.approx(100)
        assert found[cut]["pearson"] == pytest.approx(100, abs=0.1)
        # Folds differ by a hair, which parts what is tied in the grades.
        assert 90 < found[cut]["spearman"] < 100
        assert found[cut]["f1"] == 100


def test_what_only_a_topic_gives_away_does_not_help_across_topics(table_encoder):
    """A vector that names the topic tells the grade within topics, and nothing across."""
    n, topics = 240, 12
    gold = np.array([float(topic % 3) for topic in np.arange(n) % topics])
    axes = np.eye(topics, dtype=np.float32)
    table = {f"{side}{i}": axes[i % topics] for i in range(n) for side in "lr"}
    # The right ones are longer by a hair here and there, or all cosines would be the same.
    table |= {f"r{i}": axes[i % topics] + 0.01 * axes[(i * 7) % topics] for i in range(n)}
    left, right = tuple(f"l{i}" for i in range(n)), tuple(f"r{i}" for i in range(n))
    given = ArgumentPairs(
        ScoredPairs("arguments", left, right, tuple(gold)),
        tuple(f"t{i % topics}" for i in range(n)),
    )
    found = {one.name: one.figures for one in measure_arguments(table_encoder(table), given)}
    assert found["10-fold"]["pearson_folds"] > 95
    assert found["cross-topic"]["pearson_folds"] < 60


@pytest.mark.parametrize("by_topic", [False, True])
def test_every_pair_is_tested_once_and_no_topic_is_on_both_sides(by_topic):
    given = arguments()
    tested = []
    for train, test in fold_rows(given, folds=4, seed=1, by_topic=by_topic):
        assert not set(train) & set(test)
        shared = {given.topics[i] for i in train} & {given.topics[i] for i in test}
        assert bool(shared) != by_topic
        tested += test.tolist()
    assert sorted(tested) == list(range(80))


def test_too_few_topics_are_refused():
    with pytest.raises(InputError, match="3 topics cannot be cut into 4 folds"):
        list(fold_rows(arguments(topics=3), folds=4, seed=0, by_topic=True))


@pytest.mark.data
def test_the_published_corpus_has_28_topics(data_dir):
    read = read_arguments(data_dir)
    assert (len(read.pairs), len(set(read.topics))) == (3595, 28)
    assert sum(grade == 2 for grade in read.pairs.gold) == 460
