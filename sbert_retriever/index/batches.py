"""Points cut into requests that a server takes: bounded by bytes and by count."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from sbert_retriever.index.points import Draft

# A server refuses requests over 32 MiB. The estimate below is an upper bound, so half is enough
# room for the envelope and for many connections at once.
REQUEST_BYTES = 16 * 2**20
LARGEST_POINT_BYTES = 30 * 2**20
REQUEST_POINTS = 512
_BYTES_PER_COMPONENT = 22  # a float32 written out in JSON with all its digits, and a comma
_BYTES_PER_TERM = 34  # the same, and an index of 32 bits


def estimated_bytes(draft: Draft, dim: int, terms: int = 0) -> int:
    """Upper bound of a point's size in a JSON request, in bytes."""
    vectors = dim * _BYTES_PER_COMPONENT + terms * _BYTES_PER_TERM
    return len(json.dumps(draft.payload)) + vectors + 100


def request_slices(sizes: Sequence[int]) -> Iterator[slice]:
    """Consecutive slices, each within REQUEST_BYTES (or one point) and REQUEST_POINTS.

    Args:
        sizes: Bytes of each point.

    Examples:
        >>> [(s.start, s.stop) for s in request_slices([9 * 2**20, 9 * 2**20, 1])]
        [(0, 1), (1, 3)]
    """
    start, total = 0, 0
    for position, size in enumerate(sizes):
        full = total + size > REQUEST_BYTES or position - start >= REQUEST_POINTS
        if full and position > start:
            yield slice(start, position)
            start, total = position, 0
        total += size
    if start < len(sizes):
        yield slice(start, len(sizes))
