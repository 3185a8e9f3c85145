"""Points and answers: `qdrant_client.models` on one side, the embedded engine on the other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import qdrant_edge as edge
from qdrant_client import models

from sbert_retriever.errors import InputError
from sbert_retriever.index.edge.ids import edge_point_id

_FLOAT32_MAX = float(np.finfo(np.float32).max)


def edge_point(point: models.PointStruct) -> edge.Point:
    """Convert a point.

    Raises:
        InputError: An id that is none, or a vector that is not finite.
    """
    where = f"vector of point {point.id!r}"
    given: Any = point.vector
    vector = (
        {name: edge_vector(part, where=f"{where}, {name!r}") for name, part in given.items()}
        if isinstance(given, dict)
        else edge_vector(given, where=where)
    )
    return edge.Point(edge_point_id(point.id), vector, point.payload)


def edge_points(
    ids: Sequence[Any],
    matrix: npt.NDArray[np.float32],
    payloads: Sequence[dict[str, Any] | None],
    *,
    using: str = "dense",
) -> list[edge.Point]:
    """Points from a matrix (n, dim), read in one pass: the engine reads numpy rows slowly.

    Raises:
        InputError: Lengths differ, an id is none, or a row is not finite.
    """
    if not len(ids) == len(matrix) == len(payloads):
        raise InputError(
            f"{len(ids)} ids, {len(matrix)} vectors and {len(payloads)} payloads: give as many "
            "of each"
        )
    bad = np.flatnonzero(~np.isfinite(matrix).all(axis=1))
    if bad.size:
        raise InputError(
            f"vector of point {ids[bad[0]]!r} holds NaN or infinity: check the encoder"
        )
    return [
        edge.Point(edge_point_id(point), {using: row}, payload)
        for point, row, payload in zip(ids, matrix.tolist(), payloads, strict=True)
    ]


def edge_vector(vector: Any, *, where: str) -> Any:
    """One vector: dense (a list or array), sparse, or several (a list or matrix).

    Args:
        vector: As the client's models hold it, or a numpy array.
        where: The error's first words.

    Raises:
        InputError: NaN, infinity or a number beyond float32, which the engine would take and
            then lose the point from its answers; or a broken sparse vector.
    """
    if isinstance(vector, models.SparseVector):
        return _sparse(vector, where)
    rows = vector.tolist() if isinstance(vector, np.ndarray) else vector
    if not isinstance(rows, (list, tuple)):
        raise InputError(
            f"{where} is {type(vector).__name__}, expected a list of numbers, an array or a "
            "SparseVector"
        )
    if rows and isinstance(rows[0], (list, tuple, np.ndarray)):
        return [_dense(row, where) for row in rows]
    return _dense(rows, where)


def _dense(row: Any, where: str) -> list[float]:
    numbers: list[float] = row.tolist() if isinstance(row, np.ndarray) else list(row)
    try:
        finite = _all_finite(numbers)
    except TypeError:
        raise InputError(f"{where} contains something that is not a number") from None
    if not finite:
        raise InputError(f"{where} holds NaN, infinity or a number beyond float32")
    return numbers


def _all_finite(numbers: list[float]) -> bool:
    if not numbers:
        return True
    # One pass in C, which no number is larger than: NaN and infinity come through it. What is
    # longer than float32 reaches, as a whole, takes three more.
    if math.hypot(*numbers) <= _FLOAT32_MAX:
        return True
    largest = max(max(numbers), -min(numbers))
    return largest <= _FLOAT32_MAX and math.isfinite(sum(numbers))


def _sparse(vector: models.SparseVector, where: str) -> edge.SparseVector:
    indices, values = vector.indices, vector.values
    if len(indices) != len(values) or len(set(indices)) != len(indices):
        raise InputError(
            f"{where} has {len(indices)} indices ({len(set(indices))} different) and "
            f"{len(values)} values: give each index once, with one value"
        )
    return edge.SparseVector(indices, _dense(values, where))


def scored_point(point: edge.ScoredPoint) -> models.ScoredPoint:
    """Convert one answer of a query."""
    return models.ScoredPoint.model_construct(
        id=_id(point.id),
        version=point.version,
        score=point.score,
        payload=point.payload,
        vector=_vectors(point.vector),
        shard_key=None,
        order_value=point.order_value,
    )


def record(point: edge.Record) -> models.Record:
    """Convert one point that was fetched."""
    return models.Record.model_construct(
        id=_id(point.id),
        payload=point.payload,
        vector=_vectors(point.vector),
        shard_key=None,
        order_value=point.order_value,
    )


def _id(value: Any) -> int | str:
    return value if isinstance(value, int) else str(value)


def _vectors(vector: Any) -> Any:
    if isinstance(vector, dict):
        return {name: _vector(part) for name, part in vector.items()}
    return _vector(vector)


def _vector(vector: Any) -> Any:
    if isinstance(vector, edge.SparseVector):
        return models.SparseVector.model_construct(indices=vector.indices, values=vector.values)
    return vector
