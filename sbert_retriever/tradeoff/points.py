"""The operating points that are measured: how a query may be answered, from cheap to dear."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, TypeVar

from sbert_retriever.errors import InputError

T = TypeVar("T")
Mode = Literal["replace", "fuse"]

BASELINE = "bi-encoder"
"""The point that the others are compared with."""

EVERYTHING = "cross-encoder over everything"


@dataclass(frozen=True, kw_only=True)
class OperatingPoint:
    """One way to answer a query.

    Args:
        name: As tables and plots write it.
        k: How many passages are handed out.
        exact: Whether the first stage compares with every vector.
        ef: Width of its walk through the graph; None is the engine's own.
        dimension: Its vectors are cut to this many dimensions, set to length 1 again, and searched
            exactly; None takes the collection's own.
        late: How many of its passages MaxSim over token vectors puts in order.
        rerank: How many passages the cross-encoder scores.
        mode: Whether its order replaces the one before, or is fused with it.
        everything: Whether the cross-encoder scores the whole collection: extrapolated.
    """

    name: str
    k: int = 10
    exact: bool = False
    ef: int | None = None
    dimension: int | None = None
    late: int = 0
    rerank: int = 0
    mode: Mode = "replace"
    everything: bool = False

    @property
    def candidates(self) -> int:
        """How many passages the first stage finds."""
        return max(self.k, self.late, self.rerank)

    @property
    def needs_scorer(self) -> bool:
        """Whether a cross-encoder takes part."""
        return self.rerank > 0 or self.everything


@dataclass(frozen=True, kw_only=True)
class Grid:
    """Which points are measured beside the bi-encoder alone.

    Args:
        efs: Widths of the walk through the graph.
        exact: Whether to measure exact search.
        dimensions: Cut dimensions; None is a half, a quarter and an eighth of the collection's.
        late: Candidates for late interaction; 0 leaves it out.
        late_rerank: How many of those the cross-encoder scores after it; 0 is none.
        depths: How many candidates the cross-encoder scores.
        modes: What its scores do to the order.
        everything: Whether to extrapolate the cross-encoder over the whole collection.
    """

    efs: tuple[int, ...] = (16, 64, 256)
    exact: bool = True
    dimensions: tuple[int, ...] | None = None
    late: int = 100
    late_rerank: int = 20
    depths: tuple[int, ...] = (5, 10, 20, 50, 100)
    modes: tuple[Mode, ...] = ("replace", "fuse")
    everything: bool = True

    def __post_init__(self) -> None:
        numbers = (*self.efs, *(self.dimensions or ()), *self.depths)
        if any(number < 1 for number in numbers) or min(self.late, self.late_rerank) < 0:
            raise InputError(f"{self} has a number below its least, which is 1 (late: 0)")
        if unknown := set(self.modes) - {"replace", "fuse"}:
            raise InputError(f"the modes {sorted(unknown)} are unknown: use 'replace' and 'fuse'")


def operating_points(
    grid: Grid, *, dim: int, k: int, graph: bool, cosine: bool, tokens: bool, scorer: bool
) -> list[OperatingPoint]:
    """The points of a grid that can be measured on a collection, the baseline first.

    Args:
        grid: What was asked for.
        dim: Width of the collection's vectors.
        k: How many passages are handed out.
        graph: Whether its vectors are in a graph, without which every search is exact.
        cosine: Whether its scores are cosines, which alone survive cut vectors.
        tokens: Whether the encoder gives token vectors.
        scorer: Whether there is a cross-encoder.
    """
    points = [OperatingPoint(name=BASELINE, k=k)]
    if graph:
        points += [OperatingPoint(name=f"ef {ef}", k=k, ef=ef) for ef in grid.efs]
        points += [OperatingPoint(name="exact", k=k, exact=True)] if grid.exact else []
    if cosine:
        points += _truncated(grid, dim, k)
    if tokens and grid.late:
        points.append(OperatingPoint(name=f"MaxSim {grid.late}", k=k, late=grid.late))
    if scorer:
        points += _reranked(grid, k, late=grid.late if tokens else 0)
    return points


def _truncated(grid: Grid, dim: int, k: int) -> Iterator[OperatingPoint]:
    chosen = (dim // 2, dim // 4, dim // 8) if grid.dimensions is None else grid.dimensions
    for dimension in _different(chosen):
        if 0 < dimension < dim:
            yield OperatingPoint(
                name=f"{dimension} dimensions", k=k, exact=True, dimension=dimension
            )


def _reranked(grid: Grid, k: int, *, late: int) -> Iterator[OperatingPoint]:
    for depth in _different(grid.depths):
        for mode in _different(grid.modes):
            fused = " fused" if mode == "fuse" else ""
            name = f"cross-encoder {depth}{fused}"
            yield OperatingPoint(name=name, k=k, rerank=depth, mode=mode)
    if late and grid.late_rerank:
        depth = min(grid.late_rerank, late)
        name = f"MaxSim {late}, cross-encoder {depth}"
        yield OperatingPoint(name=name, k=k, late=late, rerank=depth)
    if grid.everything:
        yield OperatingPoint(name=EVERYTHING, k=k, everything=True)


def _different(values: Iterable[T]) -> list[T]:
    return list(dict.fromkeys(values))
