"""What scoring pairs costs on this machine, so that a budget can be kept.

A batch of pairs with the lengths n costs a + b * sum(n) + c * sum(n * n) seconds: the call, the
matrix products and the attention. The three are measured once; the level is then kept up to date by
the latest batches, through quantiles of measured over expected, so that one stalled batch moves
nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from sbert_retriever.forks import Lock

Lengths: TypeAlias = Sequence[int] | npt.NDArray[np.int64]

_REMEMBERED = 24
_CAUTIOUS = 0.75
_MUCH_FASTER = 0.7


class CostModel:
    """Seconds of a batch by the lengths of its pairs. Many threads may use it.

    Examples:
        >>> model = CostModel()
        >>> model.fit([([100], 0.010), ([200], 0.020), ([100, 200], 0.030)])
        >>> round(model.seconds([300]), 3)
        0.03
    """

    def __init__(self) -> None:
        self._shape: npt.NDArray[np.float64] | None = None
        self._ratios: deque[float] = deque(maxlen=_REMEMBERED)
        self._lock = Lock()

    @property
    def ready(self) -> bool:
        """Whether anything was measured."""
        return self._shape is not None

    def fit(self, measured: Sequence[tuple[Lengths, float]]) -> None:
        """Take the shape from measured batches: the lengths of the pairs, and the seconds."""
        features = np.array([_features(lengths) for lengths, _ in measured])
        seconds = np.maximum([took for _, took in measured], 1e-9)
        shape = _not_negative(features / seconds[:, None])
        ratios = seconds / np.maximum(features @ shape, 1e-9)
        with self._lock:
            self._shape = shape
            self._ratios = deque(ratios.tolist(), maxlen=_REMEMBERED)

    def observe(self, lengths: Lengths, seconds: float) -> None:
        """Learn from a batch that was scored."""
        with self._lock:
            if self._shape is not None and len(lengths):
                expected = float(_features(lengths) @ self._shape)
                self._ratios.append(seconds / max(expected, 1e-9))

    def renew(self, lengths: Lengths, seconds: float) -> None:
        """Where a batch was much faster than is remembered, forget the rest: times have changed."""
        with self._lock:
            if self._shape is not None:
                ratio = seconds / max(float(_features(lengths) @ self._shape), 1e-9)
                if ratio < _MUCH_FASTER * np.quantile(self._ratios, _CAUTIOUS):
                    self._ratios = deque([ratio], maxlen=_REMEMBERED)

    def seconds(self, lengths: Lengths, *, cautious: bool = False) -> float:
        """What a batch is likely to take; `cautious` is exceeded by one batch in four."""
        with self._lock:
            if self._shape is None:
                return 0.0
            level = np.quantile(self._ratios, _CAUTIOUS if cautious else 0.5)
            return float(_features(lengths) @ self._shape * level)

    def fitting(self, lengths: Lengths, seconds: float) -> int:
        """How many pairs, taken from the front, are likely to fit into some seconds."""
        with self._lock:
            if self._shape is None:
                return len(lengths)
            level = np.quantile(self._ratios, _CAUTIOUS)
            values = np.asarray(lengths, dtype=np.float64)
            call, linear, square = self._shape * level
            ends = call + linear * np.cumsum(values) + square * np.cumsum(values**2)
        return int(np.searchsorted(ends, seconds, side="right"))


def _features(lengths: Lengths) -> npt.NDArray[np.float64]:
    values = np.asarray(lengths, dtype=np.float64)
    return np.array([1.0, values.sum(), (values**2).sum()])


def _not_negative(features: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Coefficients (3,), none negative, that bring the rows of (m, 3) nearest to 1."""
    kept = list(range(features.shape[1]))
    shape = np.zeros(features.shape[1])
    while kept:
        found = np.linalg.lstsq(features[:, kept], np.ones(len(features)), rcond=None)[0]
        if (found >= 0).all():
            shape[kept] = found
            break
        kept.pop(int(found.argmin()))
    return shape
