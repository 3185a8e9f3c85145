"""The study's training runs, each a cell: trained, measured, and its weights let go.

A run that was stopped in the middle goes on from its last checkpoint.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeAlias

from sbert_retriever.evaluation.models import ModelOptions, load_bi_encoder, load_cross_encoder
from sbert_retriever.paper.cells import Cell, Result
from sbert_retriever.paper.study import NEEDS, Study, measure

Settings: TypeAlias = dict[str, Any]
"""A training run as a TOML file would have it."""

COSINE_RATE = 5e-5
"""The learning rate of regression on similarities."""
DROPOUT = 0.0
"""Of bi-encoders. The start model's outputs lie so close together that the noise of its own 0.1
meets the mean score alone: regression ended where all cosines are 1 once the noise was gone."""
CANONICAL = ("u", "v", "|u-v|")
_NLI_LABELS = ("contradiction", "entailment", "neutral")
_PARTS = {"u": "u", "v": "v", "|u-v|": "diff", "u*v": "prod"}
_EVERYTHING = ("stsb-dev", "stsb", "sts", "transfer", "arguments")
_BATCH = 16
_TOLD = 8
"""Characters of a run's folder that tell its configuration."""


def bi_encoder_cell(
    study: Study,
    steps: Sequence[str],
    *,
    pooling: str = "mean",
    concatenation: tuple[str, ...] = CANONICAL,
    weights: str = "pretrained",
    seed: int = 0,
) -> Cell:
    """A bi-encoder trained on "nli", "sts", or one after the other.

    The one that the paper calls SBERT-NLI is measured on everything, others on STSbenchmark.

    Args:
        study: Whose data, limits and start model hold.
        steps: In order.
        pooling: How token vectors become one.
        concatenation: What the classifier of NLI sees.
        weights: "pretrained", or "random" for the start model's architecture alone.
        seed: Of the run.
    """
    chosen = {"nli": _nli_step, "sts": _sts_step}
    objectives = {
        "nli": {
            "name": "classification",
            "labels": list(_NLI_LABELS),
            "concatenation": list(concatenation),
        },
        "sts": {"name": "regression"},
    }
    config = {
        "model": study.start,
        "pooling": pooling,
        "normalize": False,
        "weights": weights,
        "dropout": DROPOUT,
        "seed": seed,
        "device": study.device,
        "steps": [{**chosen[s](study), "objective": objectives[s]} for s in steps],
    }
    parts = "-".join(_PARTS[part] for part in concatenation)
    named = [*steps, pooling, *([parts] if "nli" in steps else []), weights, f"seed{seed}"]
    usual = (pooling, concatenation, weights, seed) == ("mean", CANONICAL, "pretrained", 0)
    everything = usual and tuple(steps) == ("nli",)
    return _cell(
        study,
        "-".join(["bi", *named]),
        config,
        _EVERYTHING if everything else ("stsb-dev", "stsb"),
    )


def cross_encoder_cell(study: Study, steps: Sequence[str], *, seed: int = 0) -> Cell:
    """A cross-encoder trained on "nli", "sts", or one after the other.

    Args:
        study: Whose data, limits and start model hold.
        steps: In order; the last is "sts".
        seed: Of the run.
    """
    chosen = {"nli": _nli_step, "sts": _sts_step}
    objectives = {
        "nli": {"name": "pair-classification", "labels": list(_NLI_LABELS)},
        "sts": {"name": "pair-regression"},
    }
    config = {
        "model": study.start,
        "kind": "cross-encoder",
        "seed": seed,
        "device": study.device,
        "steps": [{**chosen[s](study), "objective": objectives[s]} for s in steps],
    }
    return _cell(study, "-".join(["cross", *steps, f"seed{seed}"]), config, ("stsb-dev", "stsb"))


def _nli_step(study: Study) -> Settings:
    size = study.size
    conjnli: Settings = {
        "kind": "nli",
        "files": ["conjnli/adversarial_train_15k.tsv"],
        "columns": {"first": "Premise", "second": "Hypothesis", "label": "Label"},
    }
    sick: Settings = {
        "kind": "nli",
        "files": ["sick/SICK_train.txt"],
        "format": "tsv",
        "columns": {
            "first": "sentence_A",
            "second": "sentence_B",
            "label": "entailment_judgment",
        },
    }
    return {
        "name": "nli",
        "data": [_limited(conjnli, size.nli_pairs), _limited(sick, size.sick_pairs)],
        "epochs": size.nli_epochs,
        "batch_size": _BATCH,
        "smart_batching": True,
    }


def _sts_step(study: Study) -> Settings:
    data: Settings = {
        "kind": "sts",
        "files": ["stsb/stsb-en-train.csv"],
        "header": False,
        "columns": {"first": 0, "second": 1, "score": 2},
        "score_range": [0, 5],
    }
    return {
        "name": "sts",
        "data": [_limited(data, study.size.sts_train)],
        "epochs": study.size.sts_epochs,
        "batch_size": _BATCH,
        "learning_rate": COSINE_RATE,
        "smart_batching": True,
    }


def _limited(data: Settings, most: int | None) -> Settings:
    return data if most is None else {**data, "limit": most}


def _cell(study: Study, name: str, config: Settings, wanted: tuple[str, ...]) -> Cell:
    size = asdict(study.size)
    return Cell(
        name=f"train/{name}",
        settings={
            "config": _anywhere(config),
            "measured": list(wanted),
            "limits": {key: size[key] for key in ("sts_pairs", "transfer_examples", "arguments")},
        },
        make=lambda: _made(study, name, config, wanted),
        needs=_needs(config, wanted),
        tidy=lambda: let_go(study, name),
    )


def _anywhere(config: Mapping[str, Any]) -> Settings:
    """A configuration without the device, which a result does not depend on."""
    return {name: value for name, value in config.items() if name != "device"}


def _needs(config: Settings, wanted: tuple[str, ...]) -> tuple[str, ...]:
    """The folders of what is trained on and of what is measured, each once."""
    files = [file for step in config["steps"] for data in step["data"] for file in data["files"]]
    measured = [folder for what in wanted for folder in NEEDS[what]]
    return tuple(dict.fromkeys([*(file.partition("/")[0] for file in files), *measured]))


def _made(study: Study, name: str, config: Settings, wanted: tuple[str, ...]) -> Result:
    report, folder = trained(study, name, config)
    options = ModelOptions(device=study.device)
    load = load_cross_encoder if config.get("kind") == "cross-encoder" else load_bi_encoder
    model = load(str(folder), options)
    figures = {what: measure(model, what, study) for what in wanted}
    return {"steps": report, "figures": figures}


def trained(
    study: Study, name: str, config: Mapping[str, Any]
) -> tuple[list[dict[str, Any]], Path]:
    """Train as a configuration says, or go on with that.

    Args:
        study: Whose data it is; its folder holds the run.
        name: Of the run.
        config: As a TOML file would have it.

    Returns:
        What each step did, and the model's folder: `let_go` when the result is kept.

    Raises:
        ReadError: A file of data is absent, or a line of it does not fit.
        MissingExtraError: accelerate is not installed.
    """
    from sbert_retriever.training.config_file import config_from
    from sbert_retriever.training.trainer import Trainer

    # A run of another configuration is another run, whatever became of that one.
    plain = json.dumps(_anywhere(config), sort_keys=True)
    told = hashlib.sha256(plain.encode()).hexdigest()[:_TOLD]
    folder = _runs(study) / f"{name}-{told}"
    trainer = Trainer(config_from(config), folder, data=study.data)
    report = trainer.train(resume=folder.exists())
    return [asdict(step) for step in report.steps], folder


def let_go(study: Study, name: str) -> None:
    """Delete the model of a run, of whatever configuration."""
    for folder in _runs(study).glob(f"{name}-{'?' * _TOLD}"):
        shutil.rmtree(folder, ignore_errors=True)


def _runs(study: Study) -> Path:
    return study.folder / "runs"
