"""What a study is about, and what is measured of a model in it."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from sbert_retriever.encoder.cross_encoder import CrossEncoder
from sbert_retriever.evaluation.arguments import ArgumentPairs, measure_arguments, read_arguments
from sbert_retriever.evaluation.models import ModelOptions, load_bi_encoder, load_cross_encoder
from sbert_retriever.evaluation.pairs import ScoredPairs
from sbert_retriever.evaluation.results import SetResult
from sbert_retriever.evaluation.senteval import Examples, TransferSet, read_transfer
from sbert_retriever.evaluation.sts import measure_sts
from sbert_retriever.evaluation.sts_sets import STS_TASKS, read_sts, read_stsb
from sbert_retriever.evaluation.transfer_tasks import measure_transfer
from sbert_retriever.evaluation.triplets import measure_triplets, scifact_triplets
from sbert_retriever.paper.sizes import Size
from sbert_retriever.paper.starts import StaticEncoder, write_random
from sbert_retriever.types import DEFAULT_RERANKER, Encoder, Scorer

T = TypeVar("T")
Figures: TypeAlias = dict[str, dict[str, float]]
"""{set: {measure: value}}."""

START = DEFAULT_RERANKER
"""Its BERT is what is trained: of the encoders at hand the one least fit for similarity."""
PACKAGED = ("all-MiniLM-L6-v2", "bge-small-en-v1.5")
FROZEN = {
    "mean": "averaged outputs of the start model",
    "cls": "its CLS output",
    "static": "averaged input vectors of it",
    "random": "averaged outputs of its architecture with random weights",
    **{name: name for name in PACKAGED},
}


@dataclass(frozen=True, kw_only=True)
class Study:
    """Where the data is, how much of it is taken, and where results are kept.

    Args:
        data: The folder of the data sets.
        size: Limits.
        folder: For the kept results and for training runs.
        device: "auto", "cpu", "cuda", "mps".
        start: The model whose encoder is trained.
    """

    data: Path
    size: Size
    folder: Path
    device: str = "auto"
    start: str = START

    def frozen(self, row: str) -> Encoder:
        """A model that this study does not train: a row of `FROZEN`."""
        if row == "static":
            return StaticEncoder(self.start)
        if row in PACKAGED:
            return load_bi_encoder(row, ModelOptions(device=self.device))
        if row != "random":
            return load_bi_encoder(self.start, ModelOptions(device=self.device, pooling=row))
        with tempfile.TemporaryDirectory() as folder:
            write_random(self.start, Path(folder), seed=0)
            options = ModelOptions(device=self.device, pooling="mean")
            made = load_bi_encoder(folder, options)
            # All that it reads of the folder, while that is there.
            made.warm_up()
            _ = made.identity
        return made

    def cross_encoder(self) -> CrossEncoder:
        """The start model as it is: a cross-encoder."""
        return load_cross_encoder(self.start, ModelOptions(device=self.device))

    def arguments(self) -> ArgumentPairs:
        """The pairs of arguments, as many as the size takes."""
        found = read_arguments(self.data)
        return ArgumentPairs(
            taken_pairs(found.pairs, self.size.arguments),
            taken(found.topics, self.size.arguments),
        )


def taken(values: Sequence[T], most: int | None) -> tuple[T, ...]:
    """At most so many, spread evenly from the first on, so that sorted files keep their mix.

    Examples:
        >>> taken("abcdef", 3), taken("ab", None)
        (('a', 'c', 'e'), ('a', 'b'))
    """
    if most is None or len(values) <= most:
        return tuple(values)
    return tuple(values[number * len(values) // most] for number in range(most))


def taken_pairs(pairs: ScoredPairs, most: int | None) -> ScoredPairs:
    """Fewer pairs of a set."""
    return replace(
        pairs,
        left=taken(pairs.left, most),
        right=taken(pairs.right, most),
        gold=taken(pairs.gold, most),
    )


def taken_examples(examples: Examples, most: int | None) -> Examples:
    """Fewer examples of a file."""
    return Examples(
        taken(examples.texts, most), taken(examples.labels, most), taken(examples.seconds, most)
    )


NEEDS: dict[str, tuple[str, ...]] = {
    "stsb-dev": ("stsb",),
    "stsb": ("stsb",),
    "sts": ("stsb", "sts12-16", "sick"),
    "transfer": ("senteval", "mrpc"),
    "arguments": ("ukp-aspect",),
    "triplets": ("scifact",),
}
"""The folders of data that `measure` takes for each thing that it measures."""


def measure(model: Encoder | Scorer, what: str, study: Study) -> Figures:
    """Figures of a model.

    Args:
        model: Any kind that `what` fits.
        what: "stsb-dev", "stsb", "sts" (all seven), "transfer", "arguments" or "triplets".
        study: Whose data and limits hold.
    """
    return {one.name: dict(one.figures) for one in _MEASURES[what](model, study)}


def _stsb_dev(model: Encoder, study: Study) -> list[SetResult]:
    pairs = replace(read_stsb(study.data, "dev"), name="stsb-dev")
    return [measure_sts(model, taken_pairs(pairs, study.size.sts_pairs))]


def _stsb(model: Encoder, study: Study) -> list[SetResult]:
    pairs = read_stsb(study.data, "test")
    return [measure_sts(model, taken_pairs(pairs, study.size.sts_pairs))]


def _sts(model: Encoder, study: Study) -> list[SetResult]:
    return [
        measure_sts(model, taken_pairs(read_sts(study.data, task), study.size.sts_pairs))
        for task in STS_TASKS
    ]


def _transfer(model: Encoder, study: Study) -> list[SetResult]:
    most = study.size.transfer_examples
    found = []
    for name in study.size.transfer_sets:
        given = read_transfer(study.data, name)
        few = TransferSet(
            name=name,
            train=taken_examples(given.train, most),
            dev=None if given.dev is None else taken_examples(given.dev, most),
            test=None if given.test is None else taken_examples(given.test, most),
        )
        found.append(measure_transfer(model, few))
    return found


def _arguments(model: Encoder, study: Study) -> list[SetResult]:
    return measure_arguments(model, study.arguments())


def _triplets(model: Encoder, study: Study) -> list[SetResult]:
    return [measure_triplets(model, scifact_triplets(study.data, most=study.size.triplets))]


_MEASURES: dict[str, Callable[[Any, Study], list[SetResult]]] = {
    "stsb-dev": _stsb_dev,
    "stsb": _stsb,
    "sts": _sts,
    "transfer": _transfer,
    "arguments": _arguments,
    "triplets": _triplets,
}
