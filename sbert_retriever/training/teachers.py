"""What a teacher says of a step's examples, asked once before training."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from sbert_retriever.encoder.precision import choose_device
from sbert_retriever.errors import InputError
from sbert_retriever.training.config import TrainStep
from sbert_retriever.training.models import Model, PairModel
from sbert_retriever.training.readers.examples import Example

if TYPE_CHECKING:
    from sbert_retriever.encoder.bi_encoder import BiEncoder
    from sbert_retriever.encoder.cross_encoder import CrossEncoder


def taught(
    examples: Sequence[Example], step: TrainStep, model: Model, *, device: str
) -> list[Example]:
    """The examples with the teacher's answers as targets.

    Args:
        examples: Of the step.
        step: Names the teacher; without one the examples stay as they are.
        model: The student.
        device: Where the teacher runs.

    Raises:
        ModelError: The teacher cannot be had.
        InputError: Its vectors have another width than the student's.
    """
    if step.teacher is None:
        return list(examples)
    device = _own(device)
    if step.objective.name == "distil-vectors":
        return _with_vectors(examples, step.teacher, model, device)
    return _with_scores(examples, step.teacher, device, margins=not isinstance(model, PairModel))


def check_teacher(step: TrainStep, model: Model, *, device: str) -> None:
    """Refuse a teacher that `taught` would refuse, without reading its weights.

    Raises:
        ModelError: It cannot be had.
        InputError: Its vectors have another width than the student's.
    """
    if step.teacher is None:
        return
    if step.objective.name == "distil-vectors":
        _encoder(step.teacher, model, _own(device))
    else:
        _scorer(step.teacher, _own(device))


def _own(device: str) -> str:
    """The GPU of this process, of those that `torchrun` has started."""
    own = os.environ.get("LOCAL_RANK")
    if own is None or choose_device(device).type != "cuda":
        return device
    return f"cuda:{own}"


def _encoder(teacher: str, model: Model, device: str) -> BiEncoder:
    """A teacher of vectors, whose width is the student's."""
    from sbert_retriever.encoder.bi_encoder import BiEncoder

    encoder = BiEncoder.load(teacher, device=device, on_truncate="ignore")
    if encoder.dim != model.width:
        raise InputError(
            f"the teacher {teacher} gives vectors of {encoder.dim} numbers and the model of "
            f"{model.width}: name a teacher of the model's width"
        )
    return encoder


def _scorer(teacher: str, device: str) -> CrossEncoder:
    """A teacher of pairs' scores."""
    from sbert_retriever.encoder.cross_encoder import CrossEncoder

    return CrossEncoder.load(teacher, device=device, on_truncate="ignore")


def _with_vectors(
    examples: Sequence[Example], teacher: str, model: Model, device: str
) -> list[Example]:
    encoder = _encoder(teacher, model, device)
    vectors = encoder.encode_passages([example.texts[0] for example in examples])
    return [replace(e, target=row) for e, row in zip(examples, vectors, strict=True)]


def _with_scores(
    examples: Sequence[Example], teacher: str, device: str, *, margins: bool
) -> list[Example]:
    """Logits of each example's pairs; or the first one's less each other's."""
    scorer = _scorer(teacher, device)
    pairs = [(e.texts[0], text) for e in examples for text in e.texts[1:]]
    scores = scorer.score(pairs)
    ends = np.cumsum([len(e.texts) - 1 for e in examples])
    rows = np.split(scores, ends[:-1])
    return [
        replace(e, target=row[:1] - row[1:] if margins else row)
        for e, row in zip(examples, rows, strict=True)
    ]
