"""Measuring: what is measured, in which order, and how it is told."""

import json
import sys

import pytest
import torch
from typer.testing import CliRunner

from sbert_retriever.bench.cases import CASES, Bench, run
from sbert_retriever.bench.contenders import Contender, Filled, Models, ours
from sbert_retriever.bench.measure import Measured, in_turn, medians_in_turn, settle
from sbert_retriever.bench.others import OTHERS
from sbert_retriever.bench.report import as_json, table
from sbert_retriever.bench.texts import LONG_WORDS, python_texts
from sbert_retriever.cli.app import app
from sbert_retriever.errors import AbsentError, InputError
from sbert_retriever.testing import tiny_bert


@pytest.fixture(scope="module")
def texts():
    return python_texts(sentences=600)


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    return Models(
        bi_encoder=str(tiny_bert(tmp_path_factory.mktemp("tiny"))), cross_encoder=None, device="cpu"
    )


def words(listed):
    return [len(text.split()) for text in listed]


def test_a_time_ends_when_every_gpu_in_use_has_ended(monkeypatch):
    """The second and third of three hold memory of this process; the first is somebody else's."""
    waited = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda number: 1024 * number)
    monkeypatch.setattr(torch.cuda, "synchronize", waited.append)
    settle()
    assert waited == [1, 2]


def test_texts_are_real_different_and_of_their_lengths(texts):
    every = [*texts.short, *texts.long, *texts.mixed, *texts.questions]
    assert len(set(every)) == len(every)
    assert len(texts.short) == 150
    assert len(texts.questions) == 50
    assert max(words(texts.short)) <= 60
    assert min(words(texts.long)) >= LONG_WORDS
    assert min(words(texts.mixed)) < 20
    assert python_texts(sentences=600) == texts


def test_tasks_are_run_in_turn_and_the_first_round_is_not_counted():
    calls = []
    tasks = {"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}
    seconds = in_turn(tasks, rounds=2)
    assert "".join(calls) == "ababab"
    assert [len(spent) for spent in seconds.values()] == [2, 2]


def test_every_contender_is_asked_a_question_before_the_next_question_comes():
    asked = []
    asks = {name: lambda q, name=name: asked.append((q, name)) for name in "ab"}
    medians = medians_in_turn(asks, ["x", "y"], rounds=1)
    # Each question begins with another: the first pays for what is in no cache.
    assert asked == 2 * [("x", "a"), ("x", "b"), ("y", "b"), ("y", "a")]
    assert [len(found) for found in medians.values()] == [1, 1]


def test_all_cases_measure_all_contenders_that_have_something_for_them(texts, models):
    closed = []

    def index(_texts, _folder):
        return Filled(lambda question: question, lambda: closed.append(1))

    other = Contender(name="other", encode=len, index=index)
    bench = Bench(contenders=[ours(models), other], texts=texts, rounds=2, scale=0.05)
    found = run(bench, list(CASES))
    by_case = {case: [m.contender for m in found if m.case == case] for case in CASES}
    mine = "sbert-retriever"
    assert by_case == {
        "encode-short": [mine, "other"],
        "encode-long": [mine, "other"],
        "encode-mixed": [mine, "other"],
        "rerank": [],
        "index": [mine, "other", f"{mine}, encoding alone"],
        "query": [mine, "other", f"{mine}, encoding alone"],
        "concurrent": [
            f"{mine}, 16 callers",
            f"{mine}, one caller",
            "other, 16 callers",
            "other, one caller",
        ],
    }
    assert all(len(m.rates) == 2 and min(m.rates) > 0 for m in found)
    assert len(closed) == 3 + 2


def test_questions_are_encoded_alone_as_questions(texts):
    """A model with a prompt for questions was set beside shorter texts."""
    asked = []
    mine = Contender(
        name="mine",
        encode=lambda _: pytest.fail("as passages"),
        encode_queries=asked.append,
    )
    run(Bench(contenders=[mine], texts=texts, rounds=1, scale=0.05), ["query"])
    assert set(map(tuple, asked)) == {(text,) for text in texts.questions[:3]}


def test_the_table_sets_each_beside_the_first_of_its_case():
    def measured(case, contender, *rates):
        return Measured(case=case, contender=contender, unit="texts/s", rates=rates)

    found = [
        measured("short", "a", 10.0, 40.0, 30.0),
        measured("short", "b", 10.0, 10.0, 10.0),
        measured("long", "a", 1.0, 1.0, 1.0),
    ]
    assert table(found).splitlines() == [
        "case   contender  median  lowest  highest  ratio",
        "short  a            30.0    10.0     40.0         texts/s",
        "short  b            10.0    10.0     10.0   3.00  texts/s",
        "long   a             1.0     1.0      1.0         texts/s",
    ]
    ran = Contender(name="a", device="cpu", dtype="float32")
    report = as_json(found, Models(bi_encoder="m", cross_encoder=None), ran)
    assert (report["device"], report["dtype"]) == ("cpu", "float32")  # as it ran, and not "auto"
    assert report["cases"][1]["rates"] == [10.0, 10.0, 10.0]
    assert report["versions"]["torch"]


def test_the_command_writes_what_it_prints(models, tmp_path):
    file = tmp_path / "bench.json"
    arguments = ["bench", "--cases", "encode-short", "--scale", "0.01", "--rounds", "1"]
    arguments += ["--model", models.bi_encoder, "--device", "cpu", "--json", "-o", str(file)]
    arguments += ["--against", "sentence-transformers"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert report == json.loads(file.read_text(encoding="utf-8"))
    assert [c["contender"] for c in report["cases"]] == ["sbert-retriever", "sentence-transformers"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--cases", ""], "--cases names none: choose among encode-short"),
        (["--cases", "coding"], "there is no case 'coding'"),
        (["--against", "nobody"], "--against 'nobody' is not known"),
        (["--rounds", "0"], "--rounds is 0"),
        (["--scale", "0"], "--scale 0"),
        (
            ["-o", "no-such-folder/bench.json"],
            "--output no-such-folder/bench.json cannot be written",
        ),
        (["-o", "."], "--output . cannot be written"),
    ],
)
def test_wrong_use_is_told(models, arguments, message):
    result = CliRunner().invoke(app, ["bench", "--model", models.bi_encoder, *arguments])
    assert isinstance(result.exception, InputError)
    assert message in str(result.exception)


def test_a_library_that_is_absent_is_left_out(models, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(AbsentError, match="pip install sentence-transformers"):
        OTHERS["sentence-transformers"](models, tmp_path)
