"""Measures worked out by hand, and those of ir-measures beside ours."""

import json
import math
import random

import ir_measures
import pytest

from sbert_retriever.errors import InputError
from sbert_retriever.evaluation.ranking import evaluate, run_of, spelt

# One query: found b (grade 1), x (none), a (grade 3); c (grade 2) is missed.
QRELS = {"q": {"a": 3, "b": 1, "c": 2, "n": 0}}
RUN = run_of({"q": ["b", "x", "a"]})

LOG3 = math.log2(3)
BY_HAND = {
    "nDCG@10": (1 + 3 / 2) / (3 + 2 / LOG3 + 1 / 2),
    "nDCG@1": 1 / 3,
    "nDCG_exp@10": (1 + 7 / 2) / (7 + 3 / LOG3 + 1 / 2),
    "nDCG_exp@1": 1 / 7,
    "MAP": (1 + 2 / 3) / 3,
    "MAP@2": 1 / 3,
    "MRR": 1.0,
    "recall@3": 2 / 3,
    "recall@1": 1 / 3,
    "precision@1": 1.0,
    "precision@10": 0.2,
}


@pytest.mark.parametrize("measure", BY_HAND)
def test_values_by_hand(measure):
    result = evaluate(RUN, QRELS, measures=[measure])
    assert result.means[measure] == pytest.approx(BY_HAND[measure], abs=1e-12)


def test_reciprocal_rank_is_that_of_the_first_relevant_one():
    run = run_of({"q": ["n", "x", "c"]})
    assert evaluate(run, QRELS, measures=["MRR@10", "MRR@2"]).means == {
        "MRR@10": pytest.approx(1 / 3),
        "MRR@2": 0.0,
    }


def test_a_judged_query_without_an_answer_counts_as_0_and_an_unjudged_one_not_at_all():
    qrels = {"q1": {"a": 1}, "q2": {"a": 1}, "q3": {"a": 1}}
    run = run_of({"q1": ["a"], "q2": [], "elsewhere": ["a"]})
    result = evaluate(run, qrels, measures=["MRR"])
    assert result.per_query == {"MRR": {"q1": 1.0, "q2": 0.0, "q3": 0.0}}
    assert (result.queries, result.means) == (3, {"MRR": pytest.approx(1 / 3)})
    assert evaluate({}, qrels, measures=["MRR", "MAP"]).means == {"MRR": 0.0, "MAP": 0.0}


def test_the_order_of_a_list_stands_though_scores_would_tie():
    """A run of equal scores is ordered by id in the reference program; a list is not."""
    for ids in (["a", "z"], ["z", "a"]):
        run = run_of({"q": ids})
        assert evaluate(run, {"q": {ids[0]: 1}}, measures=["MRR"]).means == {"MRR": 1.0}


def random_case(seed):
    rng = random.Random(seed)
    ids = [f"d{n}" for n in range(40)]
    qrels = {
        f"q{q}": {i: rng.choice([-1, 0, 0, 1, 2, 3]) for i in rng.sample(ids, 20)}
        for q in range(25)
    }
    return qrels, run_of({query: rng.sample(ids, rng.randrange(1, 25)) for query in qrels})


def test_parity_with_ir_measures():
    qrels, run = random_case(0)
    exponential = ir_measures.nDCG(gains={-1: 0, 0: 0, 1: 1, 2: 3, 3: 7})
    pairs = {
        "nDCG@10": ir_measures.nDCG @ 10,
        "nDCG_exp@10": exponential @ 10,
        "MAP@100": ir_measures.AP @ 100,
        "MRR@10": ir_measures.RR @ 10,
        "recall@10": ir_measures.R @ 10,
        "precision@5": ir_measures.P @ 5,
    }
    ours = evaluate(run, qrels, measures=list(pairs))
    for name, measure in pairs.items():
        # One at a time: two kinds of gains in one call disturb each other there.
        theirs = ir_measures.calc_aggregate([measure], qrels, run)
        assert ours.means[name] == pytest.approx(theirs[measure], abs=1e-12)


def test_exponential_gains_against_a_plain_computation():
    qrels, run = random_case(1)
    ours = evaluate(run, qrels, measures=["nDCG_exp@10"]).per_query["nDCG_exp@10"]
    for query, judged in qrels.items():
        ranked = sorted(run[query], key=lambda i: -run[query][i])[:10]
        gains = [2 ** max(judged.get(i, 0), 0) - 1 for i in ranked]
        best = sorted((2 ** max(g, 0) - 1 for g in judged.values()), reverse=True)[:10]
        ideal = sum(g / math.log2(n + 2) for n, g in enumerate(best))
        found = sum(g / math.log2(n + 2) for n, g in enumerate(gains))
        assert ours[query] == pytest.approx(found / ideal if ideal else 0.0, abs=1e-9)


def test_names():
    assert [spelt(n) for n in ("NDCG@10", "ndcg_EXP@5", "map", "mrr@10", "Recall@1")] == [
        *("nDCG@10", "nDCG_exp@5", "MAP", "MRR@10", "recall@1")
    ]
    for wrong in ("ndgc@10", "nDCG@0", "recall", "precision", "nDCG@-1", "", "nDCG@10 ", None):
        with pytest.raises(InputError, match="is unknown: write nDCG@10"):
            spelt(wrong)


def test_what_cannot_be_measured_is_refused():
    with pytest.raises(InputError, match="nothing is judged"):
        evaluate(RUN, {})
    with pytest.raises(InputError, match="no measure"):
        evaluate(RUN, QRELS, measures=[])
    with pytest.raises(InputError, match="a grade is 31"):
        evaluate(RUN, {"q": {"a": 31}}, measures=["nDCG_exp@10"])
    with pytest.raises(InputError, match="one passage twice"):
        run_of({"q": ["a", "a"]})


def test_table_and_json():
    result = evaluate(RUN, QRELS, measures=["MRR", "recall@1"])
    assert result.table() == "MRR       1.0000\nrecall@1  0.3333\nqueries   1"
    assert json.loads(result.to_json()) == {
        "queries": 1,
        "means": {"MRR": 1.0, "recall@1": pytest.approx(1 / 3)},
        "per_query": {"MRR": {"q": 1.0}, "recall@1": {"q": pytest.approx(1 / 3)}},
    }


def test_linear_and_exponential_gains_to_the_same_depth_do_not_disturb_each_other():
    """Asked for both at once to a depth that is not one of its own, ir-measures gives 0 for one."""
    qrels = {"q": {"a": 2, "b": 1}}
    found = evaluate(run_of({"q": ["a", "b"]}), qrels, measures=["nDCG@2", "nDCG_exp@2"])
    assert found.means == {"nDCG@2": 1.0, "nDCG_exp@2": 1.0}
