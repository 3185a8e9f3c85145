"""`sbert-retriever evaluate`: tasks, comparisons, pictures, and bad data before a model."""

import json

import pytest

from sbert_retriever import Trainer
from sbert_retriever.encoder.two_encoders import TwoEncoders
from sbert_retriever.evaluation.collections import find_collections
from sbert_retriever.evaluation.retrieval import measure_retrieval
from sbert_retriever.training import config_from

STSB = [
    ("the cat was in the house", "the dog was in the house", 4),
    ("water", "a little water", 3.5),
    ("many people work", "people", 2),
    ("how long is it", "find the way", 0.5),
    ("the dog", "the dog", 5),
]


@pytest.fixture
def data(tmp_path):
    folder = tmp_path / "data" / "stsb"
    folder.mkdir(parents=True)
    lines = "".join(f"{left},{right},{score}\n" for left, right, score in STSB)
    (folder / "stsb-en-test.csv").write_text(lines)
    (folder / "stsb-de-test.csv").write_text(lines)
    return folder.parent


def beir(folder):
    folder.mkdir(parents=True)
    passages = {"a": "the cat was in the house", "b": "water", "c": "many people"}
    lines = [json.dumps({"_id": i, "text": text}) for i, text in passages.items()]
    (folder / "corpus.jsonl").write_text("\n".join(lines))
    (folder / "queries.jsonl").write_text(json.dumps({"_id": "q", "text": "the cat in the house"}))
    (folder / "test.tsv").write_text("q\ta\t1\n")
    return folder


def test_an_object_with_the_correlations(run, tiny, data):
    found = run("evaluate", tiny, "--task", "stsb", "--data", data, "--json").json
    assert -100 <= found["spearman_cosine"] <= 100
    assert found["items"] == 5
    assert found["language"] == "en"
    assert "sets" not in found
    german = run("evaluate", tiny, "--task", "stsb", "--data", data, "--language", "de", "--json")
    assert german.json["language"] == "de"
    assert german.json["spearman_cosine"] == found["spearman_cosine"]


def test_the_development_split_is_measured_where_it_is_asked_for(run, tiny, data):
    """It was the test split whatever was asked for: one would have chosen by it."""
    text = (data / "stsb" / "stsb-en-test.csv").read_text()
    (data / "stsb" / "stsb-en-dev.csv").write_text("".join(text.splitlines(keepends=True)[:3]))
    words = ("evaluate", tiny, "--task", "stsb", "--data", data, "--split", "dev")
    assert run(*words, "--json").json["items"] == 3
    assert "stsb-dev" in run(*words).out


def test_a_table_and_a_comparison_with_a_picture(run, tiny, data, tmp_path):
    picture = tmp_path / "bars.png"
    words = (
        "evaluate",
        tiny,
        "--task",
        "stsb",
        "--data",
        data,
        "--against",
        tiny,
        "--plot",
        picture,
    )
    outcome = run(*words, "--draws", 20)
    assert outcome.code == 0
    assert "spearman_cosine" in outcome.out
    assert "may be luck" in outcome.out
    assert picture.stat().st_size > 1000
    found = run(*words, "--draws", 20, "--test", "permutation", "--json").json
    assert found["against"]["differences"]["stsb"]["p"] == 1.0
    assert not found["against"]["differences"]["stsb"]["clear"]


def test_pooling_makes_another_encoder(run, tiny, data):
    words = ("evaluate", tiny, "--task", "stsb", "--data", data, "--json")
    plain, pooled = run(*words).json, run(*words, "--pooling", "max").json
    assert plain["spearman_cosine"] != pooled["pearson_cosine"]
    assert plain["pearson_cosine"] != pooled["pearson_cosine"]


def test_retrieval_exact_and_live_and_of_a_run(run, tiny, tmp_path):
    folder = beir(tmp_path / "data" / "animals")
    words = ("evaluate", tiny, "--task", "retrieval", "--data", folder.parent, "--json")
    exact = run(*words, "--measures", "MRR@3,nDCG@10").json
    assert list(exact)[-2:] == ["MRR@3", "nDCG@10"]
    index = tmp_path / "index"
    made = run(
        "index", folder / "corpus.jsonl", "--to", index, "--id-field", "_id", "--model", tiny
    )
    assert made.code == 0, made.err
    live = run(*words, "--measures", "MRR@3,nDCG@10", "--index", index).json
    refused = run(*words, "--index", index, "--pooling", "cls")
    assert refused.code == 2
    assert "a live collection says that itself" in refused.err
    assert live["MRR@3"] == exact["MRR@3"]
    trec = tmp_path / "a.run"
    trec.write_text("q Q0 b 1 2.0 x\nq Q0 a 2 1.0 x\n")
    found = run("evaluate", trec, *words[2:], "--measures", "MRR").json
    assert found["MRR"] == 0.5


def test_a_tenant_of_a_live_collection_is_measured_alone(run, tiny, tmp_path):
    folder, index = beir(tmp_path / "animals"), tmp_path / "index"
    other = tmp_path / "other.jsonl"
    other.write_text(json.dumps({"_id": "x", "text": "the cat in the house"}))
    for tenant, file in (("ours", folder / "corpus.jsonl"), ("theirs", other)):
        words = ("--to", index, "--id-field", "_id", "--model", tiny, "--tenant", tenant)
        made = run("index", file, *words)
        assert made.code == 0, made.err
    words = ("--task", "retrieval", "--data", folder, "--measures", "MRR", "--json")
    live = run("evaluate", tiny, *words, "--index", index, "--tenant", "ours")
    assert live.code == 0, live.err
    assert live.json["MRR"] == run("evaluate", tiny, *words).json["MRR"]
    told = run("evaluate", tiny, *words, "--index", index, "--tenant", "theirs")
    assert "none of the 1 passages that were found has an id that is judged" in told.err


def two_encoders(tiny, folder):
    """As `train` leaves them, with kind = "two-encoders"."""
    rows = [{"first": left, "second": right} for left, right, _ in STSB[:3]]
    step = {"objective": "in-batch", "data": {"kind": "pairs", "rows": rows}}
    given = {"model": tiny, "kind": "two-encoders", "device": "cpu", "steps": [step]}
    return Trainer(config_from(given), folder).train().folder


def test_an_encoder_for_questions_and_one_for_passages(run, tiny, data, tmp_path):
    """What training writes is measured as `TwoEncoders` encodes; sentences alike are not."""
    folder, pair = beir(tmp_path / "animals"), two_encoders(tiny, tmp_path / "pair")
    words = ("--task", "retrieval", "--data", folder, "--measures", "MRR", "--json")
    found = run("evaluate", pair, *words)
    assert found.code == 0, found.err
    encoder = TwoEncoders.load(pair, device="cpu", dtype="float32")
    [given] = find_collections(folder)
    assert found.json["MRR"] == measure_retrieval(encoder, given, measures=["MRR"]).figures["MRR"]
    refused = run("evaluate", pair, "--task", "stsb", "--data", data)
    assert refused.code == 2
    assert "the task retrieval alone measures, and the task is stsb" in refused.err


def test_a_bi_encoder_is_no_cross_encoder(run, tiny, tmp_path):
    folder = beir(tmp_path / "animals")
    words = ("--task", "rerank", "--data", folder, "--first-stage", tiny)
    outcome = run("evaluate", tiny, *words)
    assert outcome.code == 2
    assert "is a bi-encoder, and the task rerank measures a cross-encoder" in outcome.err


@pytest.mark.parametrize(
    ("words", "said", "code"),
    [
        (["--task", "stsb"], "the task stsb needs data", 2),
        (["--task", "sts99", "--data", "x"], "no task 'sts99'", 2),
        (["--task", "stsb", "--data", "nowhere"], "nowhere is not there", 1),
        (["--task", "retrieval", "--queries", "q.tsv"], "queries and qrels go together", 2),
        (["--task", "stsb", "--data", "DATA", "--plot", "a.doc"], "a picture is named a.doc", 2),
        (["--task", "stsb", "--data", "DATA", "--index", "x"], "--index is for the task", 2),
        (["--task", "stsb", "--data", "DATA", "--tenant", "x"], "--tenant is of a live", 2),
        (["--task", "stsb", "--data", "DATA", "--collection", "x"], "--collection is of a live", 2),
        (["--task", "stsb", "--data", "DATA", "--language", "fr"], "with that split: de, en", 1),
        (["--task", "stsb", "--data", "DATA", "--split", "new"], "with that split: none", 1),
        (["--task", "sick", "--data", "DATA", "--split", "new"], "no split 'new' of SICK", 2),
        (["--task", "sts", "--data", "DATA", "--split", "dev"], "split is for stsb, sick, tri", 2),
        (["--task", "sts", "--data", "DATA", "--set", "sts12"], "sets is for transfer, retr", 2),
        (["--task", "sts12", "--data", "DATA", "--language", "de"], "language is for stsb, sts", 2),
        (["--task", "stsb", "--data", "DATA", "--measures", "MRR"], "measures is for retrieval", 2),
        (["--task", "nli", "--data", "DATA", "--candidates", "5"], "candidates is for rerank", 2),
        (
            ["--task", "retrieval", "--data", "DATA", "--first-stage", "x"],
            "--first-stage is for",
            2,
        ),
        (["--task", "stsb", "--data", "DATA", "--cross-encoder", "x"], "--cross-encoder is f", 2),
        (["--task", "sick", "--data", "DATA", "--folds", "5"], "--folds is for transfer, arg", 2),
        (
            ["--task", "argument", "--data", "DATA", "--inner-folds", "3"],
            "and the task is argum",
            2,
        ),
        (["--task", "transfer", "--data", "DATA", "--set", "XX"], "no set 'XX', expected one", 2),
        (["--task", "stsb", "--data", "DATA", "--folds", "1"], "folds is 1", 2),
        (["--task", "stsb", "--data", "DATA", "--against", "m", "--test", "t"], "test is 't'", 2),
        (["--task", "stsb", "--data", "DATA", "--against", "m", "--draws", "0"], "draws is 0", 2),
    ],
)
def test_wrong_use_is_told_before_a_model_is_looked_for(run, data, words, said, code):
    words = [str(data) if word == "DATA" else word for word in words]
    outcome = run("evaluate", "no-such-model", *words)
    assert outcome.code == code
    assert said in outcome.err


def test_bad_data_is_told_with_file_and_line_before_a_model_is_looked_for(run, data):
    (data / "stsb" / "stsb-en-test.csv").write_text("a,b,1\nc,d,7\n")
    outcome = run("evaluate", "no-such-model", "--task", "stsb", "--data", data)
    assert outcome.code == 1
    assert "stsb-en-test.csv, line 2: the score is 7, expected 0 to 5" in outcome.err


@pytest.mark.data
@pytest.mark.full
@pytest.mark.parametrize(
    ("model", "options", "figure"),
    [
        ("all-MiniLM-L6-v2", (), 82.03),
        ("bge-small-en-v1.5", (), 85.79),
        ("ms-marco-MiniLM-L12-v2", ("--pooling", "mean"), 13.0),
        ("ms-marco-MiniLM-L12-v2", ("--pooling", "cls"), 14.2),
    ],
)
def test_known_correlations_of_stsb(run, data_dir, model, options, figure):
    words = ("--task", "stsb", "--data", data_dir, "--json")
    found = run("evaluate", model, *words, *options).json["spearman_cosine"]
    assert found == pytest.approx(figure, abs=0.05)
