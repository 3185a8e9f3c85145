"""A development set while a model is trained: the curve, the best model, and going on with both."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sbert_retriever import BiEncoder, CrossEncoder, TrainData, Trainer
from sbert_retriever.encoder.two_encoders import TwoEncoders
from sbert_retriever.errors import InputError, ReadError
from sbert_retriever.evaluation.pairs import ScoredPairs
from sbert_retriever.evaluation.retrieval import measure_retrieval
from sbert_retriever.evaluation.sts import measure_sts
from sbert_retriever.training import TrainDev
from sbert_retriever.training.config_file import config_from
from sbert_retriever.training.development import StepDev, _collection
from sbert_retriever.training.readers.examples import read_examples


def given(rows, model: str, *, step: dict[str, Any] | None = None, **dev: Any) -> dict[str, Any]:
    """Ten updates of a regression, measured after every fourth."""
    first = {"objective": "regression", "data": {"kind": "sts", "rows": rows("sts")}}
    return {
        "model": model,
        "device": "cpu",
        "steps": [
            {**first, "max_updates": 10, "batch_size": 8, "learning_rate": 1e-3, **(step or {})}
        ],
        "dev": {"kind": "sts", "rows": rows("sts"), "every": 4, **dev},
    }


def pairs(rows) -> ScoredPairs:
    columns = zip(*((r["first"], r["second"], r["score"]) for r in rows("sts")), strict=True)
    return ScoredPairs("dev", *columns)


def spearman(folder: str | Path, rows) -> float:
    """What the evaluation says of a folder."""
    encoder = BiEncoder.load(folder, device="cpu", dtype="float32")
    return measure_sts(encoder, pairs(rows)).figures["spearman_cosine"]


def test_the_curve_is_what_the_evaluation_says_of_the_folders(rows, tiny, tmp_path: Path) -> None:
    """Before the first update of the model as it came, after the last of the one written."""
    entries: list[Any] = []
    out = tmp_path / "out"
    report = Trainer(config_from(given(rows, tiny)), out).train(on_log=entries.append)
    dev = report.steps[0].dev
    assert dev is not None
    assert dev.figure == "spearman_cosine"
    assert [update for update, _ in dev.curve] == [0, 4, 8, 10]
    assert dev.curve[0][1] == pytest.approx(spearman(tiny, rows), abs=1e-3)
    assert dev.curve[-1][1] == pytest.approx(spearman(out, rows), abs=1e-3)
    assert not dev.kept
    logged = [(e["update"], e["eval_spearman_cosine"]) for e in entries if "loss" not in e]
    assert logged == list(dev.curve)
    lines = [json.loads(line) for line in (out / "training.jsonl").read_text().splitlines()]
    assert lines == entries
    again = Trainer(config_from(given(rows, tiny)), out).train(resume=True)
    assert again.steps[0].dev == dev


def test_measuring_changes_nothing_of_the_training(rows, tiny, tmp_path: Path) -> None:
    whole = given(rows, tiny) | {"dropout": 0.1}
    plain = {key: value for key, value in whole.items() if key != "dev"}
    losses = [
        Trainer(config_from(config), tmp_path / name).train().steps[0].last_loss
        for name, config in (("with", whole), ("without", plain))
    ]
    assert losses[0] == losses[1]


def test_the_best_model_is_written(rows, tiny, tmp_path: Path) -> None:
    """What is good on the set is what training unlearns, so that the last model is not the best."""
    against = [{**row, "score": 5 - row["score"]} for row in rows("sts")]
    step = {"max_updates": 60, "learning_rate": 3e-3}
    config = given(rows, tiny, step=step, every=20, keep_best=True)
    config["dev"]["rows"] = against
    report = Trainer(config_from(config), tmp_path / "out").train()
    dev = report.steps[0].dev
    assert dev is not None
    assert dev.kept
    values = [value for _, value in dev.curve]
    assert dev.best == dev.curve[values.index(max(values))]
    assert dev.best[1] > values[-1] + 1
    assert spearman(tmp_path / "out", rows) == pytest.approx(-dev.best[1], abs=1e-3)
    assert not list((tmp_path / "out").rglob("best.*"))


def test_of_equal_values_the_earliest_is_best(rows, tiny, tmp_path: Path) -> None:
    """Values by hand: 3, 5, 5, 4. The weights are marked by the update that they are of."""
    model = _mark_model()
    values = iter([3.0, 5.0, 5.0, 4.0])
    dev = TrainDev(data=TrainData(kind="sts", rows=rows("sts")), keep_best=True)
    made = StepDev(
        lambda _: next(values),
        dev,
        kind="bi-encoder",
        model=model,
        best=tmp_path / "best.pt",
        writes=True,
    )
    history = []
    for update in (0, 1, 2, 3):
        model.weight.data.fill_(update)
        history.append({"step": update, **made.measured(update)})
    report = made.finish(history)
    assert report.best == (1, 5.0)
    assert model.weight.item() == 1.0
    assert report.curve == ((0, 3.0), (1, 5.0), (2, 5.0), (3, 4.0))


def test_a_run_that_goes_on_has_the_best_of_before(rows, tiny, tmp_path: Path) -> None:
    """The process that saw 5 at update 1 ended; in the next one nothing is better."""
    dev = TrainDev(data=TrainData(kind="sts", rows=rows("sts")), keep_best=True)
    for start, values in ((0, [3.0, 5.0]), (2, [5.0, 4.0])):
        model = _mark_model()
        told = iter(values)
        made = StepDev(
            lambda _, told=told: next(told),
            dev,
            kind="bi-encoder",
            model=model,
            best=tmp_path / "best.pt",
            writes=True,
        )
        for update in (start, start + 1):
            model.weight.data.fill_(update)
            last = {"step": update, **made.measured(update)}
    report = made.finish([last])
    assert report.best == (1, 5.0)
    assert model.weight.item() == 1.0


def _mark_model() -> Any:
    import torch

    return torch.nn.Linear(1, 1, bias=False)


def test_a_stopped_run_goes_on_with_its_curve_and_its_best(rows, tiny, tmp_path: Path) -> None:
    config = config_from(given(rows, tiny, keep_best=True) | {"save_every": 5, "log_every": 1})
    whole = Trainer(config, tmp_path / "whole").train()

    def stop(entry: Any) -> None:
        if entry["update"] == 9:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Trainer(config, tmp_path / "stopped").train(on_log=stop)
    resumed = Trainer(config, tmp_path / "stopped").train(resume=True)
    ours, theirs = resumed.steps[0].dev, whole.steps[0].dev
    assert ours is not None
    assert theirs is not None
    assert [u for u, _ in ours.curve] == [u for u, _ in theirs.curve] == [0, 4, 8, 10]
    assert [v for _, v in ours.curve] == pytest.approx([v for _, v in theirs.curve], abs=1e-2)
    assert ours.best[0] == theirs.best[0]
    texts = ["the cat was in the house", "people"]
    vectors = [
        BiEncoder.load(tmp_path / name, device="cpu", dtype="float32").encode_passages(texts)
        for name in ("whole", "stopped")
    ]
    assert np.abs(vectors[0] - vectors[1]).max() < 1e-4
    lines = (tmp_path / "stopped" / "training.jsonl").read_text().splitlines()
    logged = [(e["update"], "loss" in e) for e in map(json.loads, lines)]
    assert logged == sorted(set(logged), key=lambda one: (one[0], not one[1]))


def test_a_cross_encoder_is_measured_in_the_steps_that_give_a_score(
    rows, tiny, tmp_path: Path
) -> None:
    config = given(rows, tiny) | {"kind": "cross-encoder"}
    first, second = (
        {"max_updates": 2, "name": name, "objective": objective, "data": data}
        for name, objective, data in (
            ("nli", "pair-classification", {"kind": "nli", "rows": rows("nli")}),
            ("sts", "pair-regression", {"kind": "sts", "rows": rows("sts")}),
        )
    )
    config["steps"] = [first, second]
    with pytest.raises(InputError, match="step 'nli': pair-classification gives labels and no sc"):
        config_from(config)
    config["dev"]["steps"] = "sts"
    report = Trainer(config_from(config), tmp_path / "out").train()
    assert report.steps[0].dev is None
    dev = report.steps[1].dev
    assert dev is not None
    model = CrossEncoder.load(tmp_path / "out", device="cpu", dtype="float32")
    expected = measure_sts(model, pairs(rows)).figures["spearman_score"]
    assert dev.curve[-1] == (2, pytest.approx(expected, abs=1e-3))


def test_two_encoders_are_measured_by_the_rankings_of_all_passages(
    rows, tiny, tmp_path: Path
) -> None:
    step = {"objective": "in-batch", "data": {"kind": "pairs", "rows": rows("pairs")}}
    config = given(rows, tiny, step=step) | {
        "kind": "two-encoders",
        "dev": {"kind": "ranking", "rows": rows("ranking"), "measure": "MRR@10"},
    }
    report = Trainer(config_from(config), tmp_path / "out").train()
    dev = report.steps[0].dev
    assert dev is not None
    assert [update for update, _ in dev.curve] == [0, 10]
    collection = _collection(
        read_examples(TrainData(kind="ranking", rows=rows("ranking")), negatives=None)
    )
    assert sorted(collection.texts().values()) == sorted({r["positive"] for r in rows("ranking")})
    encoder = TwoEncoders.load(tmp_path / "out", device="cpu", dtype="float32")
    found = measure_retrieval(encoder, collection, measures=["MRR@10"]).figures["MRR@10"]
    assert dev.curve[-1][1] == pytest.approx(found, abs=1e-3)


def test_a_ranking_s_passages_and_answers() -> None:
    """Both rows ask the same; a negative of one is the answer of the other."""
    made = (
        {"query": "q", "positive": ["a", "b"], "negatives": ["c", "d"]},
        {"query": "r", "positive": "c", "negatives": "a"},
    )
    found = _collection(read_examples(TrainData(kind="ranking", rows=made), negatives=None))
    texts = found.texts()
    answers = {
        found.queries[query]: sorted(texts[passage] for passage in marks)
        for query, marks in found.qrels.items()
    }
    assert sorted(texts.values()) == ["a", "b", "c", "d"]
    assert answers == {"q": ["a", "b"], "r": ["c"]}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"dev": {"every": 0}}, "every is 0"),
        ({"dev": {"evrey": 5}}, "dev has a setting 'evrey'"),
        ({"dev": {"kind": "nli"}}, "dev has nli data, which nothing is measured on"),
        ({"dev": {"keep_best": "yes"}}, "keep_best is 'yes', expected true or false"),
        ({"dev": {"measure": "kendall"}}, "measure is 'kendall', expected one of spearman, pear"),
        ({"dev": {"measure": "spearman_score"}}, "measure is 'spearman_score', expected one of"),
        ({"dev": {"steps": ["two"]}}, "dev names the step 'two', expected train"),
        ({"dev": {"kind": "pairs", "measure": "nDGC@10"}}, "'nDGC@10' is unknown"),
        ({"kind": "two-encoders"}, "two encoders take pairs, triplets, ranking"),
    ],
)
def test_what_cannot_be_measured_is_refused_before_anything_is_read(changes, words: str) -> None:
    base = {
        "model": "m",
        "steps": [{"objective": "regression", "data": {"kind": "sts", "files": "a"}}],
        "dev": {"kind": "sts", "files": "b"},
    }
    whole = {**base, **changes, "dev": {**base["dev"], **changes.get("dev", {})}}
    with pytest.raises(InputError) as caught:
        config_from(whole)
    assert words in str(caught.value)


def test_the_set_is_read_before_a_model_is(rows, write, tmp_path: Path) -> None:
    bad = write("dev.tsv", "first\tsecond\tscore\na\tb\t7\n")
    config = given(rows, "no-such-model")
    config["dev"] = {"kind": "sts", "files": bad}
    with pytest.raises(ReadError, match=r"dev\.tsv, line 2: the score is 7"):
        Trainer(config_from(config), tmp_path / "out")
    config["dev"] = {"kind": "sts", "rows": [{**row, "score": 1} for row in rows("sts")]}
    with pytest.raises(InputError, match="gold scores of 24 pairs are all the same"):
        Trainer(config_from(config), tmp_path / "out")
