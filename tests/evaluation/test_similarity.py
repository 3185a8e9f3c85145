"""Similarities and correlations, by hand, by scipy and by sentence-transformers' evaluator."""

import numpy as np
import pytest
import scipy.stats
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.evaluation import EmbeddingSimilarityEvaluator

from sbert_retriever.errors import InputError
from sbert_retriever.evaluation.pairs import ScoredPairs
from sbert_retriever.evaluation.similarity import (
    SIMILARITIES,
    correlations,
    encode_unique,
)
from sbert_retriever.evaluation.sts import measure_sts
from sbert_retriever.testing import TableScorer

LEFT = ("the cat was in the house", "water", "many people work", "how long is it", "the dog")
RIGHT = ("the dog was in the house", "a little water", "people", "find the way", "the dog")
PAIRS = ScoredPairs("some", LEFT, RIGHT, (4.0, 3.5, 2.0, 0.5, 5.0))


def test_by_hand():
    left, right = np.array([[3, 4], [1, 0], [0, 0]]), np.array([[4, 3], [-2, 0], [1, 1]])
    found = {name: measure(left, right).tolist() for name, measure in SIMILARITIES.items()}
    assert found["cosine"] == [24 / 25, -1.0, 0.0]
    assert found["dot"] == [24.0, -2.0, 0.0]
    assert found["euclidean"] == pytest.approx([-np.sqrt(2), -3.0, -np.sqrt(2)])
    assert found["manhattan"] == [-2.0, -3.0, -2.0]


def test_correlations_are_scipys_with_ties():
    rng = np.random.default_rng(0)
    gold, scores = rng.integers(0, 5, 60).astype(float), rng.integers(0, 9, 60).astype(float)
    found = correlations(gold, scores)
    assert found["spearman"] == pytest.approx(100 * scipy.stats.spearmanr(gold, scores).statistic)
    assert found["pearson"] == pytest.approx(100 * scipy.stats.pearsonr(gold, scores).statistic)


@pytest.mark.parametrize(("gold", "said"), [([1, 1, 1], "the gold scores"), ([1, 2, 3], "model's")])
def test_scores_that_are_all_the_same_have_no_correlation(gold, said):
    with pytest.raises(InputError, match=said):
        correlations(gold, np.ones(3))


def test_a_text_is_encoded_once(table_encoder):
    encoder = table_encoder({"a": [1, 0], "b": [0, 1]})
    left, right = encode_unique(encoder, ["a", "b", "a"], ["b"])
    assert encoder.asked == ["a", "b"]
    assert left.tolist() == [[1, 0], [0, 1], [1, 0]]
    assert right.tolist() == [[0, 1]]


def test_against_the_evaluator_of_sentence_transformers(tiny_folder, tiny_encoder):
    evaluator = EmbeddingSimilarityEvaluator(list(LEFT), list(RIGHT), list(PAIRS.gold), name="")
    theirs = {}
    for name in ("cosine", "dot", "euclidean", "manhattan"):
        evaluator.similarity_fn_names = [name]
        theirs |= evaluator(SentenceTransformer(str(tiny_folder), device="cpu"))
    ours = measure_sts(tiny_encoder, PAIRS)
    assert ours.headline == "spearman_cosine"
    for name in SIMILARITIES:
        for kind in ("spearman", "pearson"):
            expected = 100 * theirs[f"{kind}_{name}"]
            assert ours.figures[f"{kind}_{name}"] == pytest.approx(expected, abs=1e-3)


def test_a_cross_encoders_score_is_what_is_correlated():
    scorer = TableScorer(dict(zip(RIGHT, (1.0, 0.5, 0.0, -1.0, 2.0), strict=True)))
    found = measure_sts(scorer, PAIRS)
    assert found.figures["spearman_score"] == pytest.approx(100)
    assert scorer.asked == list(zip(LEFT, RIGHT, strict=True))
