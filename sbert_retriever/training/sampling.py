"""Which examples make a batch: in drawn order, of like length, by label, no text twice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
from torch.utils.data import Sampler

from sbert_retriever.errors import InputError
from sbert_retriever.training.progress import processes
from sbert_retriever.training.readers.examples import Example
from sbert_retriever.training.views import Examples

Order = npt.NDArray[np.int64]

_TOGETHER = 4
"""Examples of a label that are put into a batch together: K of Hermans et al. 2017."""

_POOL_BATCHES = 50
"""Examples of so many batches are sorted by length together; the order of all stays drawn."""


class Batches(Sampler[list[int]]):
    """Batches of positions, drawn anew in each epoch from the seed and the epoch's number.

    Args:
        examples: What is drawn from.
        batch_size: Examples in a batch; the last ones of an epoch may be fewer.
        seed: Of the order.
        smart: Whether examples of like length are put together.
        distinct: Whether no text may be in two examples of a batch, where it would count as the
            negative of its own query. An example that would be waits for a later batch; one that
            is left over at the end makes a batch that may be small.
        by_label: Whether a few examples of a label are put together, so that a batch holds triplets
            however many labels there are; `smart` then has no say in what is together.
    """

    def __init__(
        self,
        examples: Examples,
        *,
        batch_size: int,
        seed: int,
        smart: bool = False,
        distinct: bool = False,
        by_label: bool = False,
    ) -> None:
        self.examples = examples
        self.batch_size = batch_size
        self.drop_last = False
        self._seed = seed
        self._smart = smart
        self._distinct = distinct
        self._count: int | None = None
        self._lengths = np.array([_length(e) for e in examples.all]) if smart else None
        self._labels = [e.target for e in examples.all] if by_label else None

    def set_epoch(self, epoch: int) -> None:
        """Draw as in that epoch."""
        self.examples.set_epoch(epoch)

    def __iter__(self) -> Iterator[list[int]]:
        return iter(self._drawn(self.examples.epoch))

    def __len__(self) -> int:
        """Batches of an epoch: those of the first, where no two need have as many."""
        if not self._distinct:
            return -(-len(self.examples) // self.batch_size)
        if self._count is None:
            self._count = len(self._cut(self._order(0)))
        return self._count

    def _drawn(self, epoch: int) -> list[list[int]]:
        batches = self._cut(self._order(epoch))
        if self._distinct:
            # The trainer counts on as many as in the first epoch.
            wanted = len(self)
            batches = batches[:wanted] + batches[: max(0, wanted - len(batches))]
        if self._smart:
            full = [batch for batch in batches if len(batch) == self.batch_size]
            short = [batch for batch in batches if len(batch) < self.batch_size]
            np.random.default_rng((self._seed, epoch, 1)).shuffle(full)
            # Last, or accelerate drops it, and the one beside it, where it deals to processes.
            batches = full + short
        return batches

    def _order(self, epoch: int) -> Order:
        order = np.random.default_rng((self._seed, epoch)).permutation(len(self.examples))
        if self._labels is not None:
            together = max(2, min(_TOGETHER, self.batch_size // 2))
            return grouped(self._labels, order, together)
        if self._lengths is None:
            return order
        pool = self.batch_size * _POOL_BATCHES
        parts = [order[start : start + pool] for start in range(0, len(order), pool)]
        return np.concatenate([p[np.argsort(self._lengths[p], kind="stable")] for p in parts])

    def _cut(self, order: Order) -> list[list[int]]:
        size = self.batch_size
        if not self._distinct:
            return [order[start : start + size].tolist() for start in range(0, len(order), size)]
        found = distinct_batches([e.texts for e in self.examples.all], order.tolist(), size)
        return _whole(found, size) if processes() > 1 else found


def grouped(labels: Sequence[object], order: Order, together: int) -> Order:
    """An order in which some examples of a label follow each other.

    Args:
        labels: Of each example.
        order: Positions of examples, as they were drawn.
        together: How many; up to twice as many less one, so that none of a label is left alone.

    Examples:
        >>> grouped("xyxyx", np.arange(5), 2).tolist()
        [0, 2, 4, 1, 3]
    """
    own: dict[object, list[int]] = {}
    for position in order.tolist():
        own.setdefault(labels[position], []).append(position)
    parts = [
        part
        for positions in own.values()
        for part in np.array_split(positions, max(1, len(positions) // together))
    ]
    drawn = np.argsort(order)
    return np.concatenate(sorted(parts, key=lambda part: int(drawn[part[0]])))


def distinct_batches(
    texts: Sequence[Sequence[str]], order: Sequence[int], size: int
) -> list[list[int]]:
    """Batches in which no text is in two examples.

    Args:
        texts: Of each example.
        order: Positions of examples.
        size: Examples in a batch.

    Examples:
        >>> distinct_batches([("a", "b"), ("a", "c"), ("d", "e")], [0, 1, 2], 2)
        [[0, 2], [1]]
    """
    batches: list[list[int]] = []
    waiting: list[int] = []
    ahead = iter(order)
    while True:
        batch, waiting = _next_batch(texts, waiting, ahead, size)
        if not batch:
            return batches
        batches.append(batch)


def _next_batch(
    texts: Sequence[Sequence[str]], waiting: list[int], ahead: Iterator[int], size: int
) -> tuple[list[int], list[int]]:
    """A batch out of those that wait and then those ahead; and those that wait after it."""
    batch: list[int] = []
    seen: set[str] = set()
    passed: list[int] = []
    for source in (iter(waiting), ahead):
        for position in source:
            if seen.isdisjoint(texts[position]):
                batch.append(position)
                seen.update(texts[position])
            else:
                passed.append(position)
            if len(batch) == size:
                return batch, [*passed, *(source if source is not ahead else ())]
    return batch, passed


def _whole(batches: list[list[int]], size: int) -> list[list[int]]:
    """Those that are full: accelerate deals no others out to several processes.

    Raises:
        InputError: There is none.
    """
    whole = [batch for batch in batches if len(batch) == size]
    if not whole:
        raise InputError(
            f"no {size} examples without a text in common: several devices need batches that are "
            "full, so lower batch_size"
        )
    return whole


def _length(example: Example) -> int:
    return sum(map(len, example.texts))
