"""Each objective trains a tiny model, which is saved, loaded here and elsewhere, and searched."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sentence_transformers import CrossEncoder as TheirCrossEncoder
from sentence_transformers import SentenceTransformer

from sbert_retriever import BiEncoder, CrossEncoder, Passage, Retriever, Trainer
from sbert_retriever.encoder.checkpoint import read_checkpoint
from sbert_retriever.encoder.two_encoders import TwoEncoders
from sbert_retriever.errors import InputError, ModelError, ModelFormatError, ReadError
from sbert_retriever.training.config_file import config_from
from sbert_retriever.training.transformer import load_pair_transformer

TEXTS = ["the cat was in the house", "a dog in water", "people", "search the model for a way"]

# Objective, kind of data, further settings of the step.
BI_ENCODERS: dict[str, tuple[Any, str, dict[str, Any]]] = {
    "classification": ("classification", "nli", {}),
    "regression": ("regression", "sts", {}),
    "triplet": ({"name": "triplet", "distance": "cosine"}, "triplets", {}),
    "triplet-ranking": ("triplet", "ranking", {"negatives": 2}),
    "batch-all": ("batch-triplet", "labelled", {}),
    "batch-hard": ({"name": "batch-triplet", "mining": "hard"}, "labelled", {}),
    "in-batch": ("in-batch", "pairs", {}),
    "in-batch-ranking": ({"name": "in-batch", "symmetric": True}, "ranking", {"negatives": 2}),
    "cached": ("in-batch", "pairs", {"chunk_size": 3}),
    "contriever": ("in-batch", "texts", {"view": "crops", "crop": [0.3, 0.8]}),
    "simcse": ("in-batch", "texts", {"view": "twice"}),
    "distil-vectors": ("distil-vectors", "parallel", {"teacher": "TINY"}),
    "distil-margins": ("distil-margins", "margins", {}),
    "distil-teacher": ("distil-margins", "ranking", {"negatives": 2, "teacher": "PAIR"}),
    "matryoshka": ("in-batch", "pairs", {"matryoshka": [8, 16]}),
}
CROSS_ENCODERS: dict[str, tuple[Any, str, dict[str, Any]]] = {
    "regression": ("pair-regression", "sts", {}),
    "binary": ("pair-binary", "ranking", {"negatives": 2}),
    "multi-class": ("pair-classification", "nli", {}),
    "distilling": ("pair-distillation", "pairs", {"teacher": "PAIR"}),
}


@pytest.fixture
def train(rows, tmp_path: Path, tiny: str, pair_teacher: str):
    """Train for 20 updates."""

    def train(objective: Any, data: str, step: dict[str, Any], **whole: Any) -> Path:
        teachers = {"TINY": tiny, "PAIR": pair_teacher}
        settings = {k: teachers.get(v, v) if k == "teacher" else v for k, v in step.items()}
        given = {
            "model": tiny,
            "device": "cpu",
            **whole,
            "steps": [
                {
                    "objective": objective,
                    "data": [{"kind": data, "rows": rows(data)}],
                    "epochs": 10,
                    "max_updates": 20,
                    "batch_size": 8,
                    "learning_rate": 1e-3,
                    **settings,
                }
            ],
        }
        out = tmp_path / "out"
        report = Trainer(config_from(given), out).train()
        assert report.steps[0].updates == 20
        assert np.isfinite(report.steps[0].last_loss)
        return out

    return train


def searched(model: Any) -> None:
    with Retriever.open(":memory:", model=model, device="cpu") as retriever:
        retriever.index([Passage(str(n), text) for n, text in enumerate(TEXTS)])
        assert retriever.search(TEXTS[1], k=1)[0].passage.text


# Variants of others, which make test-full tries.
RARE = {"triplet-ranking", "batch-hard", "in-batch-ranking", "distil-teacher"}


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[pytest.mark.full] if n in RARE else []) for n in BI_ENCODERS],
)
def test_a_bi_encoder_is_trained_and_loads_alike_here_and_there(train, tiny, name: str) -> None:
    objective, kind, step = BI_ENCODERS[name]
    whole = {"normalize": False} if objective == "distil-margins" else {}
    out = train(objective, kind, step, **whole)
    assert BiEncoder.load(out).identity.similarity == ("dot" if whole else "cosine")
    ours = BiEncoder.load(out, device="cpu", dtype="float32").encode_passages(TEXTS)
    theirs = SentenceTransformer(str(out), device="cpu").encode(TEXTS)
    before = BiEncoder.load(tiny, device="cpu", dtype="float32").encode_passages(TEXTS)
    assert np.abs(ours - theirs).max() < 1e-5
    assert np.abs(ours - before).max() > 1e-3
    searched(out)


@pytest.mark.parametrize("name", CROSS_ENCODERS)
def test_a_cross_encoder_is_trained_and_loads_alike_here_and_there(train, name: str) -> None:
    objective, kind, step = CROSS_ENCODERS[name]
    out = train(objective, kind, step, kind="cross-encoder")
    pairs = [(TEXTS[0], text) for text in TEXTS]
    ours = CrossEncoder.load(out, device="cpu", dtype="float32", label=0)
    theirs = TheirCrossEncoder(str(out), device="cpu")
    their = np.asarray(theirs.predict(pairs, activation_fn=_identity())).reshape(len(pairs), -1)
    assert np.abs(ours.predict_logits(pairs) - their).max() < 1e-5
    usual = np.asarray(theirs.predict(pairs)).reshape(len(pairs), -1)
    expected = 1 / (1 + np.exp(-their)) if name == "binary" else their
    assert np.abs(usual - expected).max() < 1e-5
    names = ("contradiction", "entailment", "neutral") if name == "multi-class" else None
    assert names is None or ours.labels == names
    with Retriever.open(":memory:", model="all-MiniLM-L6-v2", reranker=ours) as retriever:
        retriever.index([Passage(str(n), text) for n, text in enumerate(TEXTS)])
        assert retriever.search(TEXTS[1], k=1)[0].reranked


def _identity() -> Any:
    import torch

    return torch.nn.Identity()


def test_a_cross_encoder_of_a_bi_encoder_that_lower_cases_does_so_too(
    train, tiny: str, tmp_path: Path
) -> None:
    """It was saved without the switch, and read capitals as unknown words from then on."""
    lowering = tmp_path / "lowering"
    shutil.copytree(tiny, lowering)
    sizes = json.dumps({"max_seq_length": 32, "do_lower_case": True})
    (lowering / "sentence_bert_config.json").write_text(sizes)
    made = train("pair-regression", "sts", {}, kind="cross-encoder", model=str(lowering))
    assert read_checkpoint(made).lowercase


def test_two_encoders_are_saved_and_loaded_as_a_pair(train) -> None:
    out = train(
        {"name": "in-batch", "similarity": "dot", "temperature": 1.0},
        "pairs",
        {},
        kind="two-encoders",
        normalize=False,
    )
    ours = TwoEncoders.load(out, device="cpu", dtype="float32")
    theirs = SentenceTransformer(str(out), device="cpu")
    queries, passages = ours.encode_queries(TEXTS), ours.encode_passages(TEXTS)
    assert np.abs(queries - theirs.encode_query(TEXTS)).max() < 1e-5
    assert np.abs(passages - theirs.encode_document(TEXTS)).max() < 1e-5
    assert np.abs(queries - passages).max() > 1e-3
    assert ours.identity.similarity == "dot"
    assert theirs.similarity_fn_name == "dot"
    with pytest.raises(ModelFormatError, match="load it with TwoEncoders"):
        BiEncoder.load(out)


def test_a_collection_of_two_encoders_is_opened_again_by_name(train, tmp_path) -> None:
    out = train("in-batch", "pairs", {}, kind="two-encoders")
    place = tmp_path / "index"
    with Retriever.open(place, model=out, device="cpu") as retriever:
        retriever.index([Passage(str(n), text) for n, text in enumerate(TEXTS)])
        first = retriever.search("cat", k=2)
    with Retriever.open(place, device="cpu") as retriever:
        again = retriever.search("cat", k=2)
    assert [(h.id, h.score) for h in first] == [(h.id, h.score) for h in again]
    queries = TwoEncoders.load(out, device="cpu").encode_queries(["cat"])
    passages = TwoEncoders.load(out, device="cpu").encode_passages(TEXTS)
    assert first[0].score == pytest.approx(float((queries @ passages.T).max()), abs=1e-5)


def test_a_model_of_sentence_transformers_is_trained_here_and_goes_back(
    rows, tiny: str, tmp_path: Path
) -> None:
    """With two poolings, a Dense layer and prompts, saved by them, trained by us, read by both."""
    from sentence_transformers.models import Dense, Pooling, Transformer

    body = Transformer(tiny)
    pooling = Pooling(32, pooling_mode=("cls", "mean"))
    made = SentenceTransformer(
        modules=[body, pooling, Dense(64, 16)],
        prompts={"query": "query: ", "document": "passage: "},
        similarity_fn_name="dot",
        device="cpu",
    )
    made.save(str(tmp_path / "theirs"))
    step = {"objective": "in-batch", "data": [{"kind": "pairs", "rows": rows("pairs")}]}
    given = {"model": str(tmp_path / "theirs"), "device": "cpu", "steps": [step]}
    Trainer(config_from(given), tmp_path / "ours").train()
    ours = BiEncoder.load(tmp_path / "ours", device="cpu", dtype="float32")
    theirs = SentenceTransformer(str(tmp_path / "ours"), device="cpu")
    assert np.abs(ours.encode_queries(TEXTS) - theirs.encode_query(TEXTS)).max() < 1e-5
    assert np.abs(ours.encode_passages(TEXTS) - theirs.encode_document(TEXTS)).max() < 1e-5
    assert ours.identity.similarity == "dot"
    assert np.abs(ours.encode_queries(TEXTS) - made.encode_query(TEXTS)).max() > 1e-5


@pytest.mark.parametrize(
    ("objective", "data", "said"),
    [
        ("distil-margins", "margins", "have length 1, whose dot products differ by 2 at most"),
        (
            {"name": "in-batch", "similarity": "dot", "temperature": 1.0},
            "pairs",
            "all candidates are nearly alike: give normalize = false",
        ),
    ],
)
def test_dot_products_that_unit_vectors_cannot_have_are_refused(
    train, objective: Any, data: str, said: str
) -> None:
    with pytest.raises(InputError, match=said):
        train(objective, data, {})
    train({"name": "in-batch", "similarity": "dot"}, "pairs", {})  # at 0.05 they are cosines


def test_labels_of_which_no_triplet_can_be_made_are_refused(rows, tiny: str, tmp_path) -> None:
    for made, said in (
        ([{"text": text, "label": "one"} for text in TEXTS], "4 examples with 1 label,"),
        ([{"text": text, "label": text} for text in TEXTS], "4 examples with 4 labels,"),
    ):
        step = {"objective": "batch-triplet", "data": {"kind": "labelled", "rows": made}}
        with pytest.raises(ReadError, match=said):
            Trainer(config_from({"model": tiny, "steps": [step]}), tmp_path / "out")


def test_a_classifier_of_the_same_labels_keeps_what_it_knows_of_each(
    tiny: str, tmp_path: Path
) -> None:
    """Its rows kept their places, and the first was called contradiction from then on."""
    import torch
    from transformers import AutoModelForSequenceClassification

    torch.manual_seed(1)
    names = ["ENTAILMENT", "neutral", "Contradiction"]
    made = AutoModelForSequenceClassification.from_pretrained(
        tiny, id2label=dict(enumerate(names)), label2id={n: i for i, n in enumerate(names)}
    )
    folder = tmp_path / "mnli"
    shutil.copytree(tiny, folder)
    (folder / "modules.json").unlink()
    made.save_pretrained(folder)
    ours = load_pair_transformer(
        read_checkpoint(folder),
        labels=("contradiction", "entailment", "neutral"),
        weights="pretrained",
        dropout=None,
    )
    assert torch.equal(ours.classifier.weight, made.classifier.weight[[2, 0, 1]])
    assert torch.equal(ours.classifier.bias, made.classifier.bias[[2, 0, 1]])


def test_two_steps_go_on_from_each_other(rows, tiny: str, tmp_path: Path) -> None:
    steps = [
        {
            "name": "nli",
            "objective": "classification",
            "data": {"kind": "nli", "rows": rows("nli")},
        },
        {"name": "sts", "objective": "regression", "data": {"kind": "sts", "rows": rows("sts")}},
    ]
    given = {"model": tiny, "device": "cpu", "pooling": "max", "normalize": False, "steps": steps}
    report = Trainer(config_from(given), tmp_path / "out").train()
    assert [step.name for step in report.steps] == ["nli", "sts"]
    between = BiEncoder.load(tmp_path / "out/checkpoints/1-nli/model", device="cpu")
    after = BiEncoder.load(tmp_path / "out", device="cpu")
    assert after.identity.pooling == "max"
    assert after.identity.normalize is False
    moved = np.abs(after.encode_passages(TEXTS) - between.encode_passages(TEXTS)).max()
    assert 0 < moved < 1


def test_random_weights_and_the_seed(rows, tiny: str, tmp_path: Path) -> None:
    step = {"objective": "in-batch", "data": {"kind": "pairs", "rows": rows("pairs")}}

    def vectors(name: str, seed: int) -> Any:
        given = {"model": tiny, "device": "cpu", "weights": "random", "seed": seed, "steps": [step]}
        Trainer(config_from(given), tmp_path / name).train()
        return BiEncoder.load(tmp_path / name, device="cpu").encode_passages(TEXTS)

    first, again, other = vectors("a", 0), vectors("b", 0), vectors("c", 1)
    assert np.array_equal(first, again)
    assert np.abs(first - other).max() > 1e-3


def test_accumulation_precision_and_smart_batching(train) -> None:
    step = {"accumulate": 2, "smart_batching": True, "batch_size": 4}
    out = train("regression", "sts", step, precision="bfloat16")
    assert BiEncoder.load(out, device="cpu").encode_passages(TEXTS).shape == (4, 32)


def test_the_log_goes_where_transformers_is_told(
    rows, tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from transformers import TrainerCallback, integrations
    from transformers.integrations import integration_utils

    seen: list[int] = []

    class Ours(TrainerCallback):
        def on_log(self, args, state, control, logs=None, **more) -> None:
            if "loss" in logs:
                seen.append(state.global_step)

    step = {"objective": "regression", "data": {"kind": "sts", "rows": rows("sts")}}
    given = {"model": tiny, "device": "cpu", "steps": [{**step, "max_updates": 3}], "log_every": 1}
    with pytest.raises(InputError, match="report_to names 'ours', which transformers does not kn"):
        Trainer(config_from({**given, "report_to": ["ours"]}), tmp_path / "out")
    monkeypatch.setattr(integrations, "get_available_reporting_integrations", lambda: ["ours"])
    monkeypatch.setitem(integration_utils.INTEGRATION_TO_CALLBACK, "ours", Ours)
    Trainer(config_from({**given, "report_to": "ours"}), tmp_path / "out").train()
    assert seen == [1, 2, 3]


def test_a_label_has_one_number_in_all_the_data_of_a_step(tmp_path: Path) -> None:
    """Labels of two sets that have nothing in common are not taken for one another."""
    data = [
        {"kind": "labelled", "rows": [{"text": t, "label": n} for t, n in rows]}
        for rows in ((("a", "card"), ("b", "loan")), (("c", "weather"), ("d", "Loan")))
    ]
    given = {"model": "m", "steps": [{"objective": "batch-triplet", "data": data}]}
    examples = Trainer(config_from(given), tmp_path / "out")._examples["train"]
    assert [example.target for example in examples] == [0, 1, 2, 1]


# What must not begin ---------------------------------------------------------------------


def test_bad_data_of_the_last_step_ends_the_run_before_the_model_is_sought(rows, write) -> None:
    """A label in the second step that nobody knows costs no training of the first."""
    path = write("nli.tsv", "first\tsecond\tlabel\na\tb\tperhaps\n")
    steps = [
        {"name": "sts", "objective": "regression", "data": {"kind": "sts", "rows": rows("sts")}},
        {"name": "nli", "objective": "classification", "data": {"kind": "nli", "files": [path]}},
    ]
    with pytest.raises(ReadError, match=r"nli\.tsv, line 2: the label 'perhaps'"):
        Trainer(config_from({"model": "no such model", "steps": steps}), "out")


def test_widths_and_teachers_that_do_not_fit(rows, train, tiny, tmp_path) -> None:
    from sbert_retriever.testing import tiny_bert

    with pytest.raises(InputError, match="matryoshka has the width 32, expected less than 32"):
        train("in-batch", "pairs", {"matryoshka": [32]})
    wide = str(tiny_bert(tmp_path / "wide", hidden=48))
    step = {
        "objective": "distil-vectors",
        "teacher": wide,
        "data": {"kind": "texts", "rows": rows("texts")},
    }
    given = {"model": tiny, "device": "cpu", "steps": [step]}
    with pytest.raises(InputError, match="gives vectors of 48 numbers and the model of 32"):
        Trainer(config_from(given), tmp_path / "other").train()


@pytest.mark.parametrize(
    ("second", "said"),
    [
        ({"matryoshka": [64]}, "matryoshka has the width 64, expected less than 32"),
        ({"objective": "distil-vectors", "teacher": "no-such"}, "no-such"),
    ],
)
def test_a_later_step_that_cannot_work_is_refused_before_the_first(
    rows, tiny, tmp_path, second, said
) -> None:
    """It was found out after the first had trained, and the run could not be mended then."""
    first = {
        "name": "one",
        "objective": "in-batch",
        "data": {"kind": "pairs", "rows": rows("pairs")},
    }
    kind = "texts" if "teacher" in second else "pairs"
    then = {"name": "two", "objective": "in-batch", "data": {"kind": kind, "rows": rows(kind)}}
    given = {"model": tiny, "device": "cpu", "steps": [first, then | second]}
    with pytest.raises((InputError, ModelError), match=said):
        Trainer(config_from(given), tmp_path / "out").train()
    assert not list((tmp_path / "out").rglob("*.safetensors"))


def test_a_loss_that_is_not_finite_ends_the_run(train) -> None:
    with pytest.raises(ModelError, match="the loss is nan after"):
        train("distil-margins", "margins", {"learning_rate": 1e30}, normalize=False)
