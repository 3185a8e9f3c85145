"""Any scorer as one that tokenises first and scores some of the pairs at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from sbert_retriever.errors import InputError, ModelError
from sbert_retriever.rerank.cost import CostModel

if TYPE_CHECKING:
    from sbert_retriever.types import Scorer

Pair = tuple[str, str]
Floats = npt.NDArray[np.float32]

# A sentence, a passage, several, and a long one.
_TRIALS = ((1, 16), (1, 90), (4, 60), (1, 280))
_REPEATS = 2


class Prepared(Protocol):
    """Pairs ready to be scored."""

    lengths: npt.NDArray[np.int64]
    """What each pair costs, in tokens: (n,)."""
    truncated: npt.NDArray[np.bool_]
    """Which were cut to fit: (n,)."""

    def score(self, indexes: Sequence[int]) -> Floats:
        """Scores of some of the pairs: (len(indexes),)."""


@runtime_checkable
class PreparingScorer(Protocol):
    """A scorer that tells what pairs will cost. `CrossEncoder` is one."""

    def prepare(self, pairs: Sequence[Pair], *, max_length: int | None = None) -> Prepared:
        """Tokenise pairs."""


class PlainPairs:
    """Pairs of a scorer that only scores; the cost is guessed from their characters.

    Args:
        scorer: Asked for the scores.
        pairs: Queries and passages.
    """

    def __init__(self, scorer: Scorer, pairs: Sequence[Pair]) -> None:
        self._scorer, self._pairs = scorer, pairs
        self.lengths = guessed_lengths(pairs)
        self.truncated = np.zeros(len(pairs), dtype=bool)

    def score(self, indexes: Sequence[int]) -> Floats:
        """Scores of some of the pairs: (len(indexes),)."""
        return self._scorer.score([self._pairs[i] for i in indexes])


def guessed_lengths(pairs: Sequence[Pair]) -> npt.NDArray[np.int64]:
    """Tokens of each pair by its characters, four a token: int64 (n,)."""
    sizes = [4 + (len(query) + len(text)) // 4 for query, text in pairs]
    return np.array(sizes, dtype=np.int64)


def prepared(scorer: Scorer, pairs: Sequence[Pair], max_length: int | None) -> Prepared:
    """Pairs ready to be scored.

    Raises:
        InputError: `max_length` is given and the scorer takes none.
    """
    if isinstance(scorer, PreparingScorer):
        return scorer.prepare(pairs, max_length=max_length)
    if max_length is not None:
        raise InputError(
            f"pair_length={max_length} is given, and {type(scorer).__name__} has no prepare(): "
            "leave it out"
        )
    return PlainPairs(scorer, pairs)


def scored(pairs: Prepared, indexes: Sequence[int]) -> Floats:
    """Scores (len(indexes),), checked.

    Raises:
        ModelError: The scorer gave another number of scores, or one that is not finite.
    """
    if not len(indexes):
        return np.empty(0, dtype=np.float32)
    scores = np.asarray(pairs.score(indexes), dtype=np.float32)
    if scores.shape != (len(indexes),):
        raise ModelError(
            f"the scorer gave an array of shape {scores.shape} for {len(indexes)} pairs, expected "
            "one number each"
        )
    if not np.isfinite(scores).all():
        bad = int((~np.isfinite(scores)).sum())
        raise ModelError(f"the scorer gave {bad} of {len(indexes)} scores that are not finite")
    return scores


def measure(scorer: Scorer, cost: CostModel, clock: Callable[[], float]) -> None:
    """Time made-up pairs of several lengths and fit the cost to them."""
    batches = [prepared(scorer, _made_up(pairs, words), None) for pairs, words in _TRIALS]
    scored(batches[0], [0])  # the first call reads the weights
    measured = []
    for _ in range(_REPEATS):
        for batch in batches:
            started = clock()
            scored(batch, range(len(batch.lengths)))
            measured.append((batch.lengths, clock() - started))
    cost.fit(measured)


def probe(scorer: Scorer, clock: Callable[[], float]) -> tuple[npt.NDArray[np.int64], float]:
    """Time the smallest trial: the lengths of its pairs, and the seconds of the slower of two."""
    batch = prepared(scorer, _made_up(*_TRIALS[0]), None)
    seconds = []
    for _ in range(_REPEATS):
        started = clock()
        scored(batch, range(len(batch.lengths)))
        seconds.append(clock() - started)
    return batch.lengths, max(seconds)


def probe_lengths() -> list[int]:
    """About how many tokens each pair of `probe` has."""
    pairs, words = _TRIALS[0]
    return [words + 4] * pairs


def _made_up(pairs: int, words: int) -> list[Pair]:
    """Pairs of so many words, no two of them equal: equal ones would be scored once."""
    return [("water", " ".join([str(number), *["water"] * (words - 1)])) for number in range(pairs)]
