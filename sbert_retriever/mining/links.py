"""Groups out of pairs: what is linked, directly or through others, is one group."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


class Links:
    """The connected components of numbers from 0, pairs of which come in batches.

    Examples:
        >>> links = Links()
        >>> links.join(np.array([[0, 4], [2, 3]]))
        >>> links.join(np.array([[4, 1]]))
        >>> [group.tolist() for group in links.groups()]
        [[0, 1, 4], [2, 3]]
    """

    def __init__(self) -> None:
        # The least number of the group that each number is in.
        self._first = np.empty(0, dtype=np.int64)

    def join(self, pairs: npt.NDArray[np.int64]) -> None:
        """Link pairs (m, 2)."""
        if not len(pairs):
            return
        known, needed = len(self._first), int(pairs.max()) + 1
        if needed > known:
            self._first = np.concatenate([self._first, np.arange(known, needed)])
        ends = self._first[pairs]
        apart = ends[ends[:, 0] != ends[:, 1]]
        if len(apart):
            self._merge(apart)

    def groups(self) -> list[npt.NDArray[np.int64]]:
        """Groups of two or more, each in order; the largest first, equal ones by their first."""
        order = np.argsort(self._first, kind="stable")
        starts = np.flatnonzero(np.diff(self._first[order], prepend=-1))
        parts = [part for part in np.split(order, starts[1:]) if len(part) > 1]
        return sorted(parts, key=lambda part: (-len(part), int(part[0])))

    def _merge(self, apart: npt.NDArray[np.int64]) -> None:
        """Join the groups of pairs of firsts (m, 2)."""
        size = len(self._first)
        low, high = apart.min(axis=1), apart.max(axis=1)
        codes = np.unique(low * size + high)
        parent: dict[int, int] = {}
        for one, other in zip((codes // size).tolist(), (codes % size).tolist(), strict=True):
            a, b = _root(parent, one), _root(parent, other)
            if a != b:
                parent[max(a, b)] = min(a, b)
        renamed = np.arange(size)
        changed = list(parent)
        renamed[changed] = [_root(parent, one) for one in changed]
        self._first = renamed[self._first]


def _root(parent: dict[int, int], number: int) -> int:
    """The least number of a tree; the way there is made shorter."""
    while (above := parent.get(number)) is not None:
        parent[number] = number = parent.get(above, above)
    return number
