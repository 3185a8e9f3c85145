"""A configuration is checked before anything is read or loaded."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sbert_retriever import TrainConfig, TrainData, TrainStep
from sbert_retriever.errors import InputError, InputTypeError, ReadError
from sbert_retriever.training import Classification, read_config
from sbert_retriever.training.config_file import config_from

EXAMPLES = Path(__file__).parents[2] / "examples" / "training"

STEP = {"objective": "regression", "data": [{"kind": "sts", "files": ["a.csv"]}]}


def with_step(**changes) -> dict:
    return {"model": "m", "steps": [{**STEP, **changes}]}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"steps": [STEP]}, "no model"),
        ({"model": "m"}, "steps are []"),
        ({"model": "m", "steps": [STEP, STEP]}, "each with its own name"),
        ({"model": "m", "steps": [STEP], "sede": 1}, "a setting 'sede'"),
        ({"model": "m", "steps": [STEP], "kind": "encoder"}, "kind is 'encoder'"),
        ({"model": "m", "steps": [STEP], "kind": "cross-encoder"}, "regression trains a bi-enc"),
        ({"model": "m", "steps": [STEP], "precision": "fp8"}, "precision is 'fp8'"),
        ({"model": "m", "steps": [STEP], "dropout": 1.5}, "dropout is 1.5"),
        (
            {"model": "m", "steps": [STEP], "pooling": ["mean", "max"]},
            "pooling is ('mean', 'max'), expected a name, or several joined by +: 'mean+max'",
        ),
        ({"model": "m", "steps": [STEP], "pooling": "average"}, "'average' is not one of"),
        ({"model": "m", "steps": [STEP], "max_length": "64"}, "max_length is '64', expected a wh"),
        ({"model": "m", "steps": [STEP], "max_length": 3}, "max_length=3, expected 8 or more"),
        ({"model": "m", "steps": [STEP], "device": 0}, "device is int, expected str"),
        ({"model": "m", "steps": [STEP], "report_to": None}, "report_to is None, expected a name"),
        ({"model": "m", "steps": [STEP], "report_to": [1]}, "report_to is (1,), expected a name"),
        (with_step(data=[]), "has no data"),
        (with_step(data=[{"files": ["a.csv"]}]), "has no kind"),
        (with_step(objective="softmax"), "'softmax' is not one of"),
        (with_step(data=[{"kind": "nli", "files": ["a"]}]), "does not learn from nli data"),
        (with_step(batch_size=0), "batch_size is 0"),
        (with_step(epochs=-1), "epochs is -1"),
        (with_step(learning_rate="high"), "learning_rate is 'high'"),
        (with_step(warmup=1.0), "warmup is 1.0"),
        (with_step(name="a/b"), "a step's name is 'a/b'"),
        (with_step(name=1), "a step's name is int, expected str"),
        (with_step(smart_batching="false"), "smart_batching is 'false', expected true or false"),
        ({"model": "m", "steps": [STEP], "normalize": "no"}, "normalize is 'no', expected true"),
        (
            with_step(objective={"name": "in-batch", "symmetric": 1}),
            "symmetric is 1, expected true",
        ),
        (
            with_step(objective={"name": "classification", "labels": [0, 1]}),
            "labels are [0, 1], expected texts: write '0'",
        ),
        (
            with_step(data=[{"kind": "sts", "files": ["a.csv"], "header": "false"}]),
            "header is 'false', expected true or false",
        ),
        (
            with_step(data=[{"kind": "sts", "files": ["a.csv"], "encoding": "latin_9x"}]),
            "encoding is 'latin_9x', which Python does not know",
        ),
        (with_step(teacher="m"), "takes no teacher"),
        (
            with_step(
                objective="distil-margins",
                data=[{"kind": "margins", "files": ["a"]}, {"kind": "triplets", "files": ["b"]}],
            ),
            "some data has margins of its own and some needs a teacher's",
        ),
        (
            with_step(
                objective="pair-binary",
                data=[{"kind": "sts", "files": ["a"]}, {"kind": "ranking", "files": ["b"]}],
                negatives=0,
            ),
            "sts data has scores",
        ),
        (with_step(view="crops"), "a view is for in-batch over texts"),
        (
            with_step(objective="in-batch", data=[{"kind": "pairs", "files": ["a"]}], batch_size=1),
            "batch_size is 1, and in-batch tells an example from the others of its batch",
        ),
        (
            with_step(
                objective="batch-triplet", data=[{"kind": "labelled", "files": ["a"]}], batch_size=2
            ),
            "give 3 or more",
        ),
        (
            {
                **with_step(
                    objective="in-batch", data=[{"kind": "texts", "files": ["a"]}], view="twice"
                ),
                "dropout": 0,
            },
            "differ by dropout alone, and dropout is 0",
        ),
        (with_step(matryoshka=[8, 8]), "matryoshka is [8, 8]"),
        (with_step(matryoshka=[8], matryoshka_weights=[1.0]), "expected 2"),
        (with_step(matryoshka=8), "matryoshka is 8, expected a list"),
        (
            with_step(matryoshka=[8], matryoshka_weights=[1.0, "2"]),
            "a weight of matryoshka_weights is '2', expected a number above 0",
        ),
        (
            with_step(objective="in-batch", data=[{"kind": "texts", "files": ["a"]}]),
            "needs a view",
        ),
        (
            with_step(objective="distil-vectors", data=[{"kind": "texts", "files": ["a"]}]),
            "needs a teacher",
        ),
        (
            with_step(
                objective="in-batch",
                data=[{"kind": "pairs", "files": ["a"]}, {"kind": "triplets", "files": ["b"]}],
            ),
            "another number of texts",
        ),
    ],
)
def test_what_cannot_work_is_refused_by_name(given, words: str) -> None:
    with pytest.raises((InputError, InputTypeError)) as caught:
        config_from(given)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("objective", "kind", "changes"),
    [("batch-triplet", "labelled", {}), ("distil-vectors", "texts", {"teacher": "m"})],
)
def test_of_two_encoders_both_must_learn(objective: str, kind: str, changes: dict) -> None:
    """An example of one text reaches the queries' encoder alone."""
    table = {"objective": objective, "data": {"kind": kind, "files": "a"}, **changes}
    with pytest.raises(InputError, match=f"{objective} over {kind} data has one text an example"):
        config_from({"model": "m", "kind": "two-encoders", "steps": [table]})
    assert config_from({"model": "m", "steps": [table]}).steps


def test_two_encoders_learn_from_two_views_of_a_text() -> None:
    table = {"objective": "in-batch", "view": "crops", "data": {"kind": "texts", "files": "a"}}
    assert config_from({"model": "m", "kind": "two-encoders", "steps": [table]}).steps


def test_the_objects_are_what_the_file_says() -> None:
    data = TrainData(kind="nli", files=("a.tsv",))
    step = TrainStep(objective=Classification(concatenation=("u", "v")), data=(data,))
    made = TrainConfig(model="m", steps=(step,))
    objective = {"name": "classification", "concatenation": ["u", "v"]}
    table = {"objective": objective, "data": {"kind": "nli", "files": "a.tsv"}}
    assert config_from({"model": "m", "steps": [table]}) == made


def test_one_of_what_may_be_several_and_paths() -> None:
    step = TrainStep(
        objective=Classification(), data=TrainData(kind="nli", files=Path("data/a.tsv"))
    )
    made = TrainConfig(model="m", steps=step)
    assert made.steps[0].data[0].files == (str(Path("data/a.tsv")),)
    assert TrainData(kind="nli", files=["a.tsv", Path("b.tsv")]).files == ("a.tsv", "b.tsv")


def test_an_objective_s_name_is_no_objective() -> None:
    data = TrainData(kind="pairs", files="a.tsv")
    with pytest.raises(InputTypeError, match="the objective is 'in-batch', expected one of"):
        TrainStep(objective="in-batch", data=(data,))
    with pytest.raises(InputTypeError, match="data is str, expected TrainData"):
        TrainStep(objective=Classification(), data=("a.tsv",))


def test_a_file_is_named_in_its_errors(write) -> None:
    with pytest.raises(InputError, match=r"bad\.toml is no TOML"):
        read_config(write("bad.toml", "model ="))
    with pytest.raises(InputError, match=r"poor\.toml: steps are"):
        read_config(write("poor.toml", 'model = "m"'))
    with pytest.raises(ReadError, match=r"gone\.toml cannot be read"):
        read_config("gone.toml")


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.toml")), ids=lambda p: p.stem)
def test_the_example_configurations_are_right(path: Path) -> None:
    assert read_config(path).steps


def test_every_public_name_is_there_and_the_room_is_light_to_enter() -> None:
    from sbert_retriever import training

    assert all(getattr(training, name) is not None for name in training.__all__)
    code = "import sys, sbert_retriever.training; print('torch' in sys.modules)"
    found = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(EXAMPLES.parents[1])},
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    assert found.stdout.strip() == "False"
