"""What of a collection its graph holds, and whether building it anew is worth the time."""

from __future__ import annotations

from typing import Any

from sbert_retriever.index.edge.description import Description

# The engine leaves fewer unindexed vectors than this as they are: exact search is fast enough.
_UNINDEXED_BYTES = 10_000 * 1024
_BYTES_PER_COMPONENT = 4
# As a server's optimiser has it, but sooner.
_MOST_DELETED = 0.2
_LEAST_DELETED = 100


def indexed(info: Any, description: Description, points: int, written: int) -> int:
    """Vectors that are indexed, as a server counts them: a sparse one is, always.

    Args:
        info: What the engine says.
        description: What is kept beside it.
        points: How many there are.
        written: Of them, since the graph was built.
    """
    sparse = points if description.sparse_vectors else 0
    return points - _outside(info, description, points, written) + sparse


def worth_building(info: Any, description: Description, points: int, written: int) -> bool:
    """Whether enough vectors lack the graph, or enough deleted ones lie about."""
    # No graph leads to the vectors of single tokens.
    widths = [v["size"] for v in description.vectors.values() if not v.get("multivector_config")]
    outside = _outside(info, description, points, written)
    if outside * sum(widths) * _BYTES_PER_COMPONENT >= _UNINDEXED_BYTES:
        return True
    if not description.sparse_vectors:
        return False
    # Words of deleted passages count in the document frequencies until then.
    deleted = info.indexed_vectors_count - _built(info, description) - points
    return bool(deleted >= _MOST_DELETED * points and deleted >= _LEAST_DELETED)


def _outside(info: Any, description: Description, points: int, written: int) -> int:
    """Points that no graph leads to.

    A point that is written again leaves the graph, where the engine goes on counting it.
    """
    return min(points, max(points - _built(info, description), written))


def _built(info: Any, description: Description) -> int:
    """Points in the graph, deleted ones among them until the engine tidies up."""
    # Where there are sparse vectors the engine counts those too.
    return description.in_graph if description.sparse_vectors else int(info.indexed_vectors_count)
