"""The operating points that are measured: how a query may be answered, from cheap to dear."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from sbert_retriever.errors import InputError
from sbert_retriever.types import Fusion, Profile, RerankMode, SearchMode

T = TypeVar("T")

BASELINE = "bi-encoder"
"""The point that the others are compared with."""

EVERYTHING = "cross-encoder over everything"
PROFILES = ("fast", "balanced", "accurate")
# Batches after which the first k count as settled; as `EarlyStop` has it.
_SETTLED = 2


@dataclass(frozen=True, kw_only=True)
class OperatingPoint:
    """One way to answer a query, as it was measured.

    Args:
        profile: Its settings; the name is the one that tables and plots write.
        k: How many passages are handed out.
        everything: Whether the cross-encoder scores the whole collection: extrapolated.
        words: Whether the collection has sparse vectors.
        fitted: Whether a weight of it is chosen by the judgements.
    """

    profile: Profile
    k: int = 10
    everything: bool = False
    words: bool = False
    fitted: bool = False

    @property
    def mode(self) -> SearchMode:
        """Which vectors the first stage searches."""
        return self.profile.mode or ("hybrid" if self.words else "dense")

    @property
    def name(self) -> str:
        """As tables and plots write it."""
        return self.profile.name

    @property
    def candidates(self) -> int:
        """How many passages the first stage finds."""
        return max(self.k, self.profile.candidates)

    @property
    def rerank(self) -> int:
        """How many of them the cross-encoder may score."""
        depth = self.profile.rerank_depth
        return self.candidates if depth is None else min(depth, self.candidates)

    @property
    def late(self) -> int:
        """How many of them MaxSim over token vectors puts in order before that."""
        return min(self.profile.late, self.candidates)

    @property
    def fused(self) -> bool:
        """Whether the cross-encoder's order is fused with the one before."""
        return self.rerank > 0 and self.profile.rerank_mode == "fuse"

    @property
    def in_full(self) -> bool:
        """Whether the cross-encoder's order of whole pairs alone counts, over the first stage's."""
        profile = self.profile
        limits = (profile.pair_length, profile.early_margin, profile.early_batches)
        shortened = any(limit is not None for limit in limits)
        return self.rerank > 0 and not (self.fused or self.late or shortened)


def point(
    name: str, k: int, *, everything: bool = False, fitted: bool = False, **settings: Any
) -> OperatingPoint:
    """A point out of some settings of a `Profile`; without a depth there is no cross-encoder."""
    depth = settings.setdefault("rerank_depth", 0)
    settings.setdefault("candidates", max(k, depth, settings.get("late", 0)))
    profile = Profile(name=name, **settings)
    return OperatingPoint(profile=profile, k=k, everything=everything, fitted=fitted)


@dataclass(frozen=True, kw_only=True)
class Grid:
    """Which points are measured beside the bi-encoder alone.

    Args:
        efs: Widths of the walk through the graph.
        exact: Whether to measure exact search, where searches are not exact anyway.
        oversamplings: Where vectors are quantised: how many times as many hits are found by the
            small copies.
        dimensions: Cut dimensions; None is a half, a quarter and an eighth of the collection's.
        late: Candidates for late interaction; 0 leaves it out.
        late_rerank: How many of those the cross-encoder scores after it; 0 is none.
        fusions: Further ways to join words and meanings, beside the default.
        hybrid_depths: How many candidates of both the cross-encoder scores.
        depths: How many candidates the cross-encoder scores.
        modes: What its scores do to the order.
        fit: Whether to fit the weights of fusions, where there are judgements.
        early_stops: Candidates of which it scores as many as it takes for the first k to settle.
        pair_lengths: Tokens of a pair, for shorter pairs.
        pair_depth: How many candidates are scored as shorter pairs.
        profiles: Further points, as they are.
        everything: Whether to extrapolate the cross-encoder over the whole collection.

    Raises:
        InputError: A number is below its least, a mode is unknown, or a profile has a budget.
    """

    efs: tuple[int, ...] = (16, 64, 256)
    exact: bool = True
    oversamplings: tuple[float, ...] = (1.0, 4.0)
    dimensions: tuple[int, ...] | None = None
    late: int = 100
    late_rerank: int = 20
    fusions: tuple[Fusion, ...] = (Fusion(method="rrf", k=20),)
    hybrid_depths: tuple[int, ...] = (10, 20, 50)
    depths: tuple[int, ...] = (5, 10, 20, 50, 100)
    modes: tuple[RerankMode, ...] = ("replace", "fuse")
    fit: bool = True
    early_stops: tuple[int, ...] = (100,)
    pair_lengths: tuple[int, ...] = (128,)
    pair_depth: int = 20
    profiles: tuple[Profile, ...] = field(
        default_factory=lambda: tuple(Profile.named(name) for name in PROFILES)
    )
    everything: bool = True

    def __post_init__(self) -> None:
        numbers: list[float] = [
            *self.efs,
            *(self.dimensions or ()),
            *self.depths,
            *self.early_stops,
        ]
        numbers += [*self.hybrid_depths, *self.oversamplings]
        numbers += [*self.pair_lengths, self.pair_depth]
        if any(number < 1 for number in numbers) or min(self.late, self.late_rerank) < 0:
            raise InputError(f"{self} has a number below its least, which is 1 (late: 0)")
        if unknown := set(self.modes) - {"replace", "fuse"}:
            raise InputError(f"the modes {sorted(unknown)} are unknown: use 'replace' and 'fuse'")
        if timed := [p.name for p in self.profiles if p.budget_ms is not None]:
            raise InputError(
                f"profile {timed[0]!r} has a budget, and how much fits into that is no setting "
                "whose answers can be compared: give it a rerank_depth"
            )

    def no_deeper_than(self, depth: int) -> Grid:
        """The same without points at which the cross-encoder scores more candidates."""
        return replace(
            self,
            late_rerank=min(self.late_rerank, depth),
            depths=tuple(d for d in self.depths if d <= depth),
            hybrid_depths=tuple(d for d in self.hybrid_depths if d <= depth),
            early_stops=tuple(d for d in _different(min(e, depth) for e in self.early_stops) if d),
            pair_lengths=self.pair_lengths if depth else (),
            pair_depth=max(min(self.pair_depth, depth), 1),
            profiles=tuple(p for p in self.profiles if _depth(p) <= depth),
            everything=self.everything and depth > 0,
        )


def _depth(profile: Profile) -> int:
    return profile.candidates if profile.rerank_depth is None else profile.rerank_depth


@dataclass(frozen=True, kw_only=True)
class Means:
    """What there is to measure with.

    Args:
        dim: Width of the collection's vectors.
        graph: Whether its vectors are in a graph, without which every search is exact.
        cosine: Whether its scores are cosines, which alone survive cut vectors.
        tokens: Whether anything gives token vectors.
        scorer: Whether there is a cross-encoder.
        lengths: Whether it can be told how long a pair may be.
        words: Whether the collection has sparse vectors.
        quantized: Whether small copies of its vectors are looked at first.
        judged: Whether there are judgements to fit weights by.
    """

    dim: int
    graph: bool
    cosine: bool
    tokens: bool
    scorer: bool
    lengths: bool
    words: bool = False
    quantized: bool = False
    judged: bool = False

    def allow(self, asked: OperatingPoint) -> bool:
        """Whether a point can be measured."""
        profile = asked.profile
        needs = [
            (asked.rerank > 0 or asked.everything, self.scorer),
            (profile.pair_length is not None, self.lengths),
            (profile.late > 0, self.tokens),
            (profile.truncate_dim is not None, self.cosine),
            (profile.mode in ("sparse", "hybrid"), self.words),
            (asked.fitted, self.judged),
        ]
        # Cut vectors are searched by a matrix product here, which hands nothing on.
        alone = profile.truncate_dim is None or not (asked.rerank or asked.late)
        return alone and all(there for needed, there in needs if needed)


def operating_points(
    grid: Grid,
    means: Means,
    *,
    k: int,
    reranker: str | None = None,
    late_encoder: str | None = None,
) -> list[OperatingPoint]:
    """The points of a grid that can be measured, the baseline first.

    Args:
        grid: What was asked for.
        means: What there is.
        k: How many passages are handed out.
        reranker: The cross-encoder's name, for the profiles in which it takes part.
        late_encoder: Likewise of the late-interaction model, where it is not the bi-encoder.

    Raises:
        InputError: Two of them have one name, under which only one could be told of.
    """
    points = [point(BASELINE, k)]
    if means.graph:
        points += [point(f"ef {ef}", k, ef=ef) for ef in _different(grid.efs)]
        points += [point("exact", k, exact=True)] if grid.exact else []
    if means.quantized:
        points += _quantized(grid, k, exact=grid.exact and not means.graph)
    points += _truncated(grid, means.dim, k)
    points += _with_words(grid, k)
    if grid.late:
        points.append(point(f"MaxSim {grid.late}", k, late=grid.late))
    points += _reranked(grid, k)
    if means.words:
        points = [_by_meaning(asked) for asked in points]
    points += [OperatingPoint(profile=profile, k=k) for profile in grid.profiles]
    if grid.everything:
        points.append(point(EVERYTHING, k, everything=True))
    measured = [asked for asked in points if means.allow(asked)]
    names = Counter(asked.name for asked in measured)
    if twice := [name for name, count in names.items() if count > 1]:
        raise InputError(
            f"the grid has several points of the name {twice[0]!r}: give its profiles names of "
            "their own, and one fusion of a method"
        )
    return [
        _naming(replace(asked, words=means.words), reranker, late_encoder) for asked in measured
    ]


def _by_meaning(asked: OperatingPoint) -> OperatingPoint:
    """Say "dense" where a collection with words would be searched by both."""
    if asked.profile.mode is not None:
        return asked
    return replace(asked, profile=replace(asked.profile, mode="dense"))


def _with_words(grid: Grid, k: int) -> Iterator[OperatingPoint]:
    yield point("words alone", k, mode="sparse")
    yield point("hybrid", k, mode="hybrid")
    for fusion in grid.fusions:
        name = f"hybrid by {fusion.method or 'default'}"
        yield point(name, k, mode="hybrid", fusion=fusion)
    if grid.late:
        yield point(f"hybrid, MaxSim {grid.late}", k, mode="hybrid", late=grid.late)
    if grid.fit:
        yield point("hybrid, fitted", k, mode="hybrid", fusion=Fusion(), fitted=True)
    for depth in _different(grid.hybrid_depths):
        yield from _at_depth(grid, f"hybrid, cross-encoder {depth}", k, depth, mode="hybrid")


def _at_depth(
    grid: Grid, name: str, k: int, depth: int, **settings: Any
) -> Iterator[OperatingPoint]:
    """One depth of the cross-encoder, with everything that may be done with its scores."""
    for mode in _different(grid.modes):
        fused = " fused" if mode == "fuse" else ""
        yield point(f"{name}{fused}", k, rerank_depth=depth, rerank_mode=mode, **settings)
    if grid.fit and "fuse" in grid.modes:
        weighted: dict[str, Any] = {"rerank_mode": "fuse", "fuse_weight": 0.5, "fitted": True}
        yield point(f"{name} weighted", k, rerank_depth=depth, **weighted, **settings)


def _naming(
    asked: OperatingPoint, reranker: str | None, late_encoder: str | None
) -> OperatingPoint:
    """The point with the names of the models that take part."""
    profile = asked.profile
    if asked.rerank:
        profile = replace(profile, reranker=reranker)
    if asked.late:
        profile = replace(profile, late_encoder=late_encoder)
    return replace(asked, profile=profile)


def _quantized(grid: Grid, k: int, *, exact: bool) -> Iterator[OperatingPoint]:
    if exact:
        yield point("exact", k, exact=True)
    yield point("small copies alone", k, rescore=False)
    for times in _different(grid.oversamplings):
        yield point(f"small copies, oversampling {times:g}", k, oversampling=times)


def _truncated(grid: Grid, dim: int, k: int) -> Iterator[OperatingPoint]:
    chosen = (dim // 2, dim // 4, dim // 8) if grid.dimensions is None else grid.dimensions
    for dimension in _different(chosen):
        if 0 < dimension < dim:
            yield point(f"{dimension} dimensions", k, exact=True, truncate_dim=dimension)


def _reranked(grid: Grid, k: int) -> Iterator[OperatingPoint]:
    for depth in _different(grid.depths):
        yield from _at_depth(grid, f"cross-encoder {depth}", k, depth)
    for depth in _different(grid.early_stops):
        name = f"cross-encoder {depth}, early stop"
        yield point(name, k, rerank_depth=depth, early_batches=_SETTLED)
    for length in _different(grid.pair_lengths):
        depth = grid.pair_depth
        name = f"cross-encoder {depth}, {length} tokens"
        yield point(name, k, rerank_depth=depth, pair_length=length)
    if grid.late and grid.late_rerank:
        depth = min(grid.late_rerank, grid.late)
        name = f"MaxSim {grid.late}, cross-encoder {depth}"
        yield point(name, k, late=grid.late, rerank_depth=depth)


def _different(values: Iterable[T]) -> list[T]:
    return list(dict.fromkeys(values))
