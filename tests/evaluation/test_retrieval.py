"""Rankings by exact search and by a live collection, measured on files worked out by hand."""

import json
import math

import numpy as np
import pytest

from sbert_retriever import Passage, Retriever
from sbert_retriever.errors import InputError, ReadError
from sbert_retriever.evaluation.collections import (
    TestCollection,
    collection_of_files,
    find_collections,
)
from sbert_retriever.evaluation.ranking import run_of
from sbert_retriever.evaluation.read_ranking import read_run
from sbert_retriever.evaluation.reranking import measure_reranking, measure_second_stage
from sbert_retriever.evaluation.retrieval import (
    cut_run,
    exact_rankings,
    judged,
    measure_live,
    measure_retrieval,
    similarities,
)
from sbert_retriever.evaluation.tasks import Request, make_plan
from sbert_retriever.testing import HashEncoder, TableScorer

TABLE = {
    "east": [1, 0],
    "north": [0, 1],
    "north-east": [1, 1],
    "far east": [5, 0],
    "where is the sun in the morning": [3, 1],
    "where is it cold": [1, 3],
}
QUERIES = {
    "morning": "where is the sun in the morning",
    "cold": "where is it cold",
    "none": "north",
}
QRELS = {"morning": {"e": 2, "f": 1}, "cold": {"n": 1}, "none": {"unknown": 1}}
PASSAGES = {"e": "east", "n": "north", "ne": "north-east", "f": "far east"}


def collection():
    return TestCollection(
        "compass", QUERIES, QRELS, lambda: [Passage(i, text) for i, text in PASSAGES.items()]
    )


@pytest.mark.parametrize(
    ("similarity", "morning"),
    [
        ("cosine", ["e", "f", "ne", "n"]),
        ("dot", ["f", "ne", "e", "n"]),
        ("neg_l2", ["ne", "e", "f", "n"]),
        ("neg_l1", ["ne", "e", "n", "f"]),
    ],
)
def test_exact_search_by_the_similarity_of_the_model(table_encoder, similarity, morning):
    """(3, 1) with (1, 0), (5, 0), (1, 1), (0, 1); ties keep the order of the passages."""
    encoder = table_encoder(TABLE, similarity)
    found = exact_rankings(encoder, PASSAGES, QUERIES, depth=4)
    assert found["morning"] == morning
    assert exact_rankings(encoder, PASSAGES, QUERIES, depth=2)["morning"] == morning[:2]


def test_similarities_are_those_of_numpy():
    rng = np.random.default_rng(0)
    left, right = rng.normal(size=(3, 5)).astype("f4"), rng.normal(size=(4, 5)).astype("f4")
    apart = left[:, None] - right
    assert similarities(left, right, "neg_l2") == pytest.approx(
        -np.linalg.norm(apart, axis=2), abs=1e-5
    )
    assert similarities(left, right, "neg_l1") == pytest.approx(
        -np.abs(apart).sum(axis=2), abs=1e-5
    )
    assert np.isfinite(similarities(np.zeros((1, 5), "f4"), right, "cosine")).all()


def test_measures_by_hand(table_encoder):
    """Cosine: e, f, ne, n for the morning; n first for the cold; the third finds nothing judged."""
    found = measure_retrieval(
        table_encoder(TABLE), collection(), measures=["nDCG@2", "nDCG_exp@2", "MRR", "recall@1"]
    )
    # The ideal order, the ideal order, nothing: the query without a hit counts as 0.
    assert found.figures["nDCG@2"] == pytest.approx(2 / 3)
    assert found.figures["nDCG_exp@2"] == pytest.approx(2 / 3)
    assert found.figures["MRR"] == pytest.approx(2 / 3)
    assert found.figures["recall@1"] == pytest.approx((1 / 2 + 1 + 0) / 3)
    assert found.items == 3
    assert found.headline == "nDCG@2"


def test_linear_and_exponential_gains_by_hand():
    """The lower grade first: linear gains 1, 2 against 2, 1; exponential ones 1, 3 against 3, 1."""
    qrels = {"q": {"a": 2, "b": 1}}
    given = TestCollection("t", {"q": "?"}, qrels, None)
    found = judged(given, run_of({"q": ["b", "a"]}), ["nDCG@10", "nDCG_exp@10"]).figures
    second = 1 / math.log2(3)
    assert found["nDCG@10"] == pytest.approx((1 + 2 * second) / (2 + second))
    assert found["nDCG_exp@10"] == pytest.approx((1 + 3 * second) / (3 + second))


def test_a_question_without_any_answer_counts_as_zero():
    given = TestCollection("t", {"a": "?", "b": "?"}, {"a": {"x": 1}, "b": {"y": 1}}, None)
    found = judged(given, {"a": {"x": 1.0}}, ["nDCG@10", "MRR@10"])
    assert found.figures == {"nDCG@10": 0.5, "MRR@10": 0.5}
    assert sorted(found.values) == [0.0, 1.0]


def test_a_live_collection_is_measured_as_it_is_searched():
    encoder = HashEncoder(64)
    with Retriever.open(":memory:", model=encoder) as retriever:
        retriever.index(Passage(i, text) for i, text in PASSAGES.items())
        given = TestCollection("t", {"q": "far east"}, {"q": {"f": 1}}, None)
        assert measure_live(retriever, given, measures=["MRR"], depth=4).figures == {"MRR": 1.0}
        elsewhere = TestCollection("t", {"q": "far east"}, {"q": {"doc9": 1}}, None)
        with pytest.raises(InputError, match=r"none of the 4 passages .* has an id"):
            measure_live(retriever, elsewhere, measures=["MRR"], depth=4)


def test_a_second_stage_by_hand():
    """The scorer wants b first, and sees two candidates of three: b, a, c."""
    given = TestCollection("t", {"q": "?"}, {"q": {"b": 1, "c": 1}}, None)
    scorer = TableScorer({"text of b": 2.0, "text of a": 1.0, "text of c": 9.0})
    texts = {i: f"text of {i}" for i in "abc"}
    again, first = measure_reranking(
        scorer, given, {"q": ["a", "b", "c"]}, texts, measures=["MRR"], candidates=2
    )
    assert (again.figures, first.figures) == ({"MRR": 1.0}, {"MRR": 0.5})
    assert scorer.asked == [("?", "text of a"), ("?", "text of b")]


def test_ties_of_the_second_stage_keep_the_order_of_the_first():
    given = TestCollection("t", {"q": "?"}, {"q": {"a": 1}}, None)
    texts = {"a": "1", "b": "2"}
    again, _ = measure_reranking(TableScorer({}), given, {"q": ["a", "b"]}, texts, measures=["MRR"])
    assert again.figures == {"MRR": 1.0}


def test_ties_of_a_run_are_in_the_order_of_trec_eval(file):
    """Equal scores: the greater id first, however the lines stand; both tasks then agree."""
    run = file("tied.run", "morning Q0 e 1 1.0 x\nmorning Q0 ne 2 1.0 x\n")
    _, first = measure_second_stage(
        TableScorer({}), collection(), first_stage=run, measures=["MRR"], depth=10
    )
    whole = judged(collection(), read_run(run), ["MRR"])
    assert first.figures == whole.figures
    assert cut_run(read_run(run), 1)["morning"] == {"ne": 1.0}


def test_a_run_gives_the_candidates(file):
    run = file("first.run", "morning Q0 ne 1 2.0 x\nmorning Q0 e 2 1.0 x\n")
    scorer = TableScorer({"east": 1.0})
    again, first = measure_second_stage(
        scorer, collection(), first_stage=run, measures=["MRR"], depth=10
    )
    assert again.figures == {"MRR": pytest.approx(1 / 3)}
    assert first.figures == {"MRR": pytest.approx(1 / 6)}
    run.write_text("morning Q0 lost 1 2.0 x\n")
    with pytest.raises(
        ReadError, match=r"1 candidates .* not among the passages of compass, 'lost'"
    ):
        measure_second_stage(scorer, collection(), first_stage=run, depth=10)


def test_passages_or_a_run_of_another_collection_are_refused_and_not_measured_as_0(
    file, tmp_path, table_encoder
):
    beir(file, "one", **{"qrels/test.tsv": "q\tdoc-e\t1\n"})
    encoder = table_encoder({**TABLE, "?": [1, 2]})
    plan = make_plan(Request(task="retrieval", data=tmp_path, measures=("MRR",)))
    with pytest.raises(ReadError, match=r"one: none of the 4 passages .* judged: 'doc-e'"):
        plan.run(encoder, name="x")
    assert encoder.asked == []
    run = file("other.run", "query7 Q0 doc-e 1 1.0 x\n")
    for empty in (False, True):
        run.write_text("" if empty else run.read_text())
        with pytest.raises(InputError, match="the run answers none of the 1 judged questions of"):
            plan.run(run, name="x")
    beir(file, "one")
    again = make_plan(Request(task="rerank", data=tmp_path, first_stage=run))
    with pytest.raises(InputError, match=r"answered: 'none', judged: 'q'"):
        again.run(TableScorer({}), name="x")


def test_a_passage_with_the_question_s_own_id_does_not_count_where_that_is_said(
    file, tmp_path, table_encoder
):
    """As in ArguAna: the question is a passage and finds itself first, the answers after that."""
    beir(
        file,
        "one",
        **{
            "queries.jsonl": json.dumps({"_id": "ne", "text": "north-east"}) + "\n",
            "qrels/test.tsv": "ne\te\t1\nne\tn\t1\nne\tf\t1\n",
        },
    )
    encoder, run = table_encoder(TABLE), file("a.run", "ne Q0 ne 1 9 x\nne Q0 e 2 8 x\n")
    for ignored, value in ((False, 1 / 2), (True, 1)):
        how = {"data": tmp_path, "measures": ("MRR",), "ignore_identical_ids": ignored}
        plan = make_plan(Request(task="retrieval", depth=2, **how))
        assert plan.run(encoder, name="x").figures == {"MRR": value}
        assert plan.run(run, name="x").figures == {"MRR": value}
        with Retriever.open(":memory:", model=encoder) as live:
            live.index(Passage(i, text) for i, text in PASSAGES.items())
            assert plan.run(live, name="x").figures == {"MRR": value}
        for first in (encoder, run):
            again = make_plan(Request(task="rerank", depth=2, first_stage=first, **how))
            assert again.run(TableScorer({}), name="x").figures == {"MRR": value}


def test_identical_ids_that_are_chance_are_not_ignored(table_encoder):
    """Query 1 is answered by passage 1: to ignore that would be to measure nothing."""
    given = TestCollection("t", {"1": "?"}, {"1": {"1": 1}}, lambda: [Passage("1", "east")])
    with pytest.raises(InputError, match="the passage '1' answers the question of the same id"):
        measure_retrieval(table_encoder(TABLE), given, measures=["MRR"], ignore_identical_ids=True)


@pytest.mark.parametrize(
    ("task", "given", "said"),
    [
        ("retrieval", {"data": "here", "corpus": "c.jsonl"}, "a corpus goes with queries"),
        (
            "retrieval",
            {"data": "here", "queries": "q.jsonl", "qrels": "r.tsv"},
            "data was given, and queries and qrels are given as files: leave it out",
        ),
        ("retrieval", {"queries": "q", "qrels": "r", "sets": ("one",)}, "sets was given"),
        ("rerank", {"queries": "q", "qrels": "r", "split": "dev"}, "split was given"),
        ("triplet", {"data": "t.tsv", "split": "train"}, "the triplets are those of a file"),
        ("triplet", {"data": "t.tsv", "most": 2}, "most was given"),
    ],
)
def test_what_says_nothing_to_what_is_measured_is_refused(
    file, tmp_path, table_encoder, task, given, said
):
    """A corpus beside a folder was not looked at, and the figures were of the folder's own."""
    (tmp_path / "here").mkdir()
    file("t.tsv", "a\tb\tc\n")
    paths = ("data", "corpus", "queries", "qrels")
    how = {k: tmp_path / v if k in paths else v for k, v in given.items()}
    first = table_encoder(TABLE) if task == "rerank" else None
    with pytest.raises(InputError, match=said):
        make_plan(Request(task=task, first_stage=first, **how))


def test_two_models_share_what_the_first_stage_found(file, tmp_path, table_encoder):
    beir(file, "one")
    encoder = table_encoder({**TABLE, "?": [1, 2]})
    request = Request(
        task="rerank", data=tmp_path, first_stage=encoder, measures=("MRR",), candidates=2
    )
    plan = make_plan(request)
    # (1, 2) finds north-east, north, east: of the first two neither is the answer.
    found = [plan.run(TableScorer({}), name=name).figures for name in ("a", "b")]
    assert found == [{"MRR": pytest.approx(1 / 3)}] * 2
    assert sorted(encoder.asked) == sorted([*PASSAGES.values(), "?"])


@pytest.mark.parametrize(
    ("measures", "depth", "said"),
    [
        (["nDCG@100"], 10, "nDCG@100 looks further down than the depth, 10"),
        ([], 10, "0 measures"),
        (["MRR"], 0, "to a depth of 0"),
        (["good@3"], 10, "'good@3' is unknown"),
    ],
)
def test_wrong_measures(table_encoder, measures, depth, said):
    with pytest.raises(InputError, match=said):
        measure_retrieval(table_encoder(TABLE), collection(), measures=measures, depth=depth)


def beir(file, name, **changed):
    records = [{"_id": i, "title": "", "text": text} for i, text in PASSAGES.items()]
    lines = {
        "corpus.jsonl": "".join(json.dumps(record) + "\n" for record in records),
        "queries.jsonl": json.dumps({"_id": "q", "text": "?"}) + "\n",
        "qrels/test.tsv": "query-id\tcorpus-id\tscore\nq\te\t1\n",
    }
    for path, text in {**lines, **changed}.items():
        file(f"{name}/{path}", text)


def test_collections_are_found_in_a_folder_or_are_it(file, tmp_path):
    beir(file, "one")
    beir(file, "two")
    assert [found.name for found in find_collections(tmp_path)] == ["one", "two"]
    [found] = find_collections(tmp_path / "one")
    assert found.texts() == PASSAGES
    with pytest.raises(ReadError, match="has no test collection"):
        find_collections(tmp_path / "one" / "qrels")


def test_only_the_collections_that_are_wanted_are_read(file, tmp_path):
    beir(file, "one")
    beir(file, "two")
    (tmp_path / "two" / "qrels" / "test.tsv").unlink()
    plan = make_plan(Request(task="retrieval", data=tmp_path, sets=("ONE",)))
    assert len(plan.parts) == 1
    with pytest.raises(InputError, match="no set 'three', expected one of one, two"):
        make_plan(Request(task="retrieval", data=tmp_path, sets=("three",)))
    with pytest.raises(ReadError, match=r"has no qrels/test\.tsv"):
        make_plan(Request(task="retrieval", data=tmp_path))


def test_what_does_not_belong_together_is_refused(file, tmp_path):
    beir(file, "one", **{"qrels/test.tsv": "q\te\t1\np\te\t1\n"})
    with pytest.raises(ReadError, match="1 judged queries have no text, 'p' first"):
        find_collections(tmp_path)
    twice = TestCollection("t", {}, {}, lambda: [Passage("a", "x"), Passage("a", "y")])
    with pytest.raises(ReadError, match="passage 'a' is there twice"):
        twice.texts()


def test_files_named_one_by_one(file):
    queries, qrels = file("q.tsv", "q1\twho\n"), file("qrels.trec", "q1 0 a 1\n")
    found = collection_of_files(queries, qrels, None)
    assert (found.queries, found.qrels) == ({"q1": "who"}, {"q1": {"a": 1}})
    assert found.passages is None


@pytest.mark.data
@pytest.mark.full
def test_known_results(data_dir, minilm, cross_encoder):
    """MS MARCO's small set by MiniLM, and with the cross-encoder over its first 25."""
    [given] = find_collections(data_dir / "beir-small-msmarco")
    exact = measure_retrieval(minilm, given)
    assert exact.figures["nDCG_exp@10"] == pytest.approx(0.704, abs=0.001)
    assert exact.figures["nDCG@10"] == pytest.approx(0.798, abs=0.001)
    again, first = measure_second_stage(cross_encoder, given, first_stage=minilm, candidates=25)
    assert again.figures["nDCG_exp@10"] == pytest.approx(0.762, abs=0.001)
    assert again.figures["nDCG@10"] == pytest.approx(0.838, abs=0.001)
    assert first.figures == exact.figures
