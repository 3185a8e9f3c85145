"""How much of the data and how much training a study takes."""

from __future__ import annotations

from dataclasses import dataclass

from sbert_retriever.errors import InputError
from sbert_retriever.evaluation.senteval import TRANSFER_TASKS


@dataclass(frozen=True, kw_only=True)
class Size:
    """Limits of a study; None is all there is.

    Args:
        name: Of it.
        sts_pairs: Pairs of each STS set that are measured.
        transfer_sets: Which.
        transfer_examples: Examples of each file of them.
        arguments: Pairs of arguments.
        argument_folds: Folds of each kind that models are trained for.
        argument_epochs: How often the pairs of a fold are seen.
        nli_pairs: Pairs of ConjNLI to train on.
        sick_pairs: Pairs of SICK to train on, with their labels.
        sts_train: Pairs of STSbenchmark to train on.
        nli_epochs: How often they are seen.
        sts_epochs: The same.
        triplets: To train on, and to measure on.
        triplet_epochs: How often they are seen.
        sentences: To time smart batching on.
        seeds: A training each, of what the paper's tables 2 and 4 have.
        ablation_seeds: The same of its table 6.
    """

    name: str
    sts_pairs: int | None = None
    transfer_sets: tuple[str, ...] = TRANSFER_TASKS
    transfer_examples: int | None = None
    arguments: int | None = None
    argument_folds: int = 10
    argument_epochs: int = 3
    nli_pairs: int | None = None
    sick_pairs: int | None = None
    sts_train: int | None = None
    nli_epochs: int = 1
    sts_epochs: int = 4
    triplets: int | None = None
    triplet_epochs: int = 1
    sentences: int = 10_000
    seeds: tuple[int, ...] = (0, 1, 2)
    ablation_seeds: tuple[int, ...] = (0,)


SIZES = {
    size.name: size
    for size in (
        Size(
            name="tiny",
            sts_pairs=40,
            transfer_sets=("CR", "MRPC"),
            transfer_examples=120,
            arguments=120,
            argument_folds=1,
            argument_epochs=1,
            nli_pairs=32,
            sick_pairs=16,
            sts_train=32,
            sts_epochs=1,
            triplets=32,
            sentences=128,
            seeds=(0,),
        ),
        Size(
            name="small",
            transfer_examples=3000,
            argument_folds=1,
            argument_epochs=1,
            nli_pairs=6000,
            sts_epochs=2,
            sentences=4000,
            seeds=(0,),
        ),
        Size(name="full"),
    )
}


def size_named(name: str) -> Size:
    """One of the sizes that there are.

    Raises:
        InputError: There is none of that name.
    """
    if name not in SIZES:
        raise InputError(f"no size {name!r}, expected one of {', '.join(SIZES)}")
    return SIZES[name]
