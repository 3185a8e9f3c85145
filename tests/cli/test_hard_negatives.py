"""`sbert-retriever hard-negatives`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sbert_retriever import TrainData
from sbert_retriever.training.readers import read_examples

Run = Callable[..., Any]

TEXTS = ["the cat was in the house", "the cat was in the water", "people search text"]


@pytest.fixture
def texts(run: Run, tiny: str, tmp_path: Path, write_jsonl: Any) -> Path:
    records = [{"text": text} for text in TEXTS]
    corpus = write_jsonl(tmp_path / "texts.jsonl", records)
    location = tmp_path / "location"
    outcome = run("index", corpus, "--to", location, "--model", tiny)
    assert outcome.code == 0, outcome.err
    return location


def test_what_is_printed_is_data_to_train_on(run: Run, texts: Path, tmp_path: Path) -> None:
    """All that is there and is not the answer: two texts."""
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text(f"frage\tantwort\nwhere was the cat\t{TEXTS[0]}\n", encoding="utf-8")
    fields = ("--query-field", "frage", "--positive-field", "antwort")
    outcome = run("hard-negatives", texts, "--pairs", pairs, *fields, "--reranker", "none")
    assert outcome.code == 0, outcome.err
    [row] = map(json.loads, outcome.out.splitlines())
    assert (row["query"], row["positive"]) == ("where was the cat", TEXTS[0])
    assert sorted(row["negatives"]) == sorted(TEXTS[1:])
    assert "1 pair with negatives, 0 without" in outcome.err
    mined = tmp_path / "mined.jsonl"
    mined.write_text(outcome.out, encoding="utf-8")
    data = TrainData(kind="ranking", files=(str(mined),))
    [example] = read_examples(data, negatives=None)
    assert example.texts == (row["query"], row["positive"], *row["negatives"])


def test_several_answers_of_a_line_are_several_pairs(
    run: Run, texts: Path, tmp_path: Path, write_jsonl: Any
) -> None:
    pairs = write_jsonl(tmp_path / "p.jsonl", [{"query": "cat", "positive": TEXTS[:2]}])
    outcome = run("hard-negatives", texts, "--pairs", pairs, "--reranker", "none", "--quiet")
    rows = [json.loads(line) for line in outcome.out.splitlines()]
    assert [(row["positive"], row["negatives"]) for row in rows] == [
        (TEXTS[0], TEXTS[2:]),
        (TEXTS[1], TEXTS[2:]),
    ]
    assert outcome.err == ""


@pytest.mark.parametrize(
    ("content", "options", "said"),
    [
        ("query\tpositive\n", (), "no ranking example in it"),
        ("query\tanswer\na\tb\n", (), "there is no column 'positive' for the positive"),
        ("query\tpositive\na\tb\n", ("--margin", "nan"), "margin is nan"),
        ("query\tpositive\na\tb\n", ("--candidates", "2"), "candidates=2, expected 5 or more"),
    ],
)
def test_what_cannot_be_mined_is_refused(
    run: Run, texts: Path, tmp_path: Path, content: str, options: tuple[str, ...], said: str
) -> None:
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text(content, encoding="utf-8")
    outcome = run("hard-negatives", texts, "--pairs", pairs, "--reranker", "none", *options)
    assert outcome.code != 0
    assert said in outcome.err
    assert outcome.out == ""
