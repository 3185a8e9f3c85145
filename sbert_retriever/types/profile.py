"""Operating points: how a query is answered."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, get_args

from sbert_retriever.errors import InputError, InputTypeError
from sbert_retriever.types.checks import expect, in_range
from sbert_retriever.types.kinds import FusionMethod, RerankMode, SearchMode

DEFAULT_RERANKER = "ms-marco-MiniLM-L12-v2"
"""The cross-encoder where one is wanted and none is named."""


@dataclass(frozen=True, kw_only=True)
class Fusion:
    """How a hybrid search makes one order of what its dense and its sparse leg found.

    Args:
        method: "boost" adds to each cosine a share of the sparse score, relative to the leg's best:
            a hit's score stays near its cosine. "weighted" sums the scores of both legs, each
            leg's set to 0 .. 1; "rrf" their reciprocal ranks (Cormack, Clarke and Buettcher 2009);
            "dbsf" their scores by each leg's mean and deviation (distribution-based score fusion).
            None is "boost" where the collection's scores are cosines, else "weighted".
        sparse_weight: For "boost" what the best sparse score adds, from 0 to 1; for the others the
            sparse leg's share, from 0 to 1. None is 0.2 for "weighted", 0.5 for "rrf" and "dbsf",
            and for "boost" from 0.15 for a question in plain words to 0.6 for one that is a name.
        k: The constant of "rrf"; the larger, the less the first ranks stand out.
        depth: How many passages each leg finds.

    Raises:
        InputError: A value is out of range.
        InputTypeError: A value has the wrong type.
    """

    method: FusionMethod | None = None
    sparse_weight: float | None = None
    k: int = 60
    depth: int = 100

    def __post_init__(self) -> None:
        if self.method not in (None, *get_args(FusionMethod)):
            raise InputError(
                f"Fusion.method is {self.method!r}, expected 'boost', 'weighted', 'rrf' or 'dbsf'"
            )
        if self.sparse_weight is not None:
            in_range("sparse_weight", self.sparse_weight, least=0, most=1, whole=False, of="Fusion")
        in_range("k", self.k, least=1, of="Fusion")
        in_range("depth", self.depth, least=1, of="Fusion")

    def settled(self, *, cosine: bool, names: float = 0.0) -> Fusion:
        """The same with nothing left open.

        Args:
            cosine: Whether the collection's scores are cosines.
            names: How much of the question is names and codes, from 0 to 1.

        Raises:
            InputError: "boost" is asked for and they are not.
        """
        method = self.method or ("boost" if cosine else "weighted")
        if method == "boost" and not cosine:
            raise InputError(
                "Fusion.method is 'boost', which adds to cosines, and the collection's scores are "
                "none: use 'weighted', 'rrf' or 'dbsf'"
            )
        weight = self.sparse_weight
        if weight is None:
            weight = _SPARSE_WEIGHTS[method]
            if method == "boost":
                weight += names * (_NAMES_BOOST - weight)
        return replace(self, method=method, sparse_weight=weight)


_NAMES_BOOST = 0.6
_SPARSE_WEIGHTS: dict[FusionMethod, float] = {
    "boost": 0.15,
    "weighted": 0.2,
    "rrf": 0.5,
    "dbsf": 0.5,
}


@dataclass(frozen=True, kw_only=True)
class Profile:
    """An operating point: how a query is answered, from fast to accurate. None is unset.

    Args:
        name: As tables and plots write it.
        candidates: Hits that the first stage finds.
        rerank_depth: How many of them the cross-encoder may score; 0 none, None all of them.
        rerank_mode: Whether its order replaces the first stage's or is fused with it.
        fuse_weight: Its share in a weighted sum; None fuses ranks.
        pair_length: Tokens of a pair that it reads; None is its own limit.
        budget_ms: Milliseconds for a query; as many candidates as fit are scored.
        late: How many candidates late interaction puts in order before it; 0 none. No more are
            scored by the cross-encoder where a weight or a margin compares their scores.
        early_margin: Candidates whose score lies more than this below the k-th's are not scored.
        early_batches: Stop when the first k stayed the same over so many batches.
        exact: Whether the first stage compares with every vector.
        ef: Width of its walk through the graph; None is the engine's own.
        oversampling: Where vectors are quantised: how many times as many hits are found by their
            small copies, and compared by the vectors themselves; None is 2.
        rescore: Whether they are so compared; None is yes.
        truncate_dim: Dimensions of the vectors that are used; None is all.
        reranker: The cross-encoder that it was measured with, loaded where a retriever was opened
            without one; None names none.
        late_encoder: The ColBERT model whose token vectors late interaction compares, loaded where
            a retriever was opened without one; None compares those of the bi-encoder itself.
        mode: Which vectors the first stage searches; None is "hybrid" where the collection has
            sparse vectors, else "dense".
        fusion: How "hybrid" joins them; None is the default `Fusion`.

    Raises:
        InputError: A value is out of range.
        InputTypeError: A value has the wrong type.

    Examples:
        >>> print(Profile.named("fast"))
        fast: candidates=20, rerank_depth=0, rerank_mode='replace'
    """

    name: str = "custom"
    candidates: int = 50
    rerank_depth: int | None = None
    rerank_mode: RerankMode = "replace"
    fuse_weight: float | None = None
    pair_length: int | None = None
    budget_ms: float | None = None
    late: int = 0
    early_margin: float | None = None
    early_batches: int | None = None
    exact: bool = False
    ef: int | None = None
    oversampling: float | None = None
    rescore: bool | None = None
    truncate_dim: int | None = None
    reranker: str | None = None
    late_encoder: str | None = None
    mode: SearchMode | None = None
    fusion: Fusion | None = None

    def __post_init__(self) -> None:
        expect(self.name, str, "Profile.name")
        self._check_first_stage()
        self._check_models()
        expect(self.exact, bool, "Profile.exact")
        if self.rescore is not None:
            expect(self.rescore, bool, "Profile.rescore")
        if self.oversampling is not None:
            in_range("oversampling", self.oversampling, least=1, whole=False)
        in_range("candidates", self.candidates, least=1)
        in_range("late", self.late, least=0)
        for name, least in _PROFILE_WHOLE.items():
            if getattr(self, name) is not None:
                in_range(name, getattr(self, name), least=least)
        for name, most in _PROFILE_NUMBERS.items():
            if getattr(self, name) is not None:
                in_range(name, getattr(self, name), least=0, most=most, whole=False)
        if self.rerank_mode not in get_args(RerankMode):
            raise InputError(
                f"Profile.rerank_mode is {self.rerank_mode!r}, expected 'replace' or 'fuse'"
            )
        if self.fuse_weight is not None and self.rerank_mode == "replace":
            raise InputError("Profile.fuse_weight is set and rerank_mode is 'replace': use 'fuse'")

    def _check_models(self) -> None:
        for name in ("reranker", "late_encoder"):
            if getattr(self, name) is not None:
                expect(getattr(self, name), str, f"Profile.{name}")

    def _check_first_stage(self) -> None:
        if self.mode not in (None, *get_args(SearchMode)):
            raise InputError(
                f"Profile.mode is {self.mode!r}, expected 'dense', 'sparse', 'hybrid' or None"
            )
        if isinstance(self.fusion, Mapping):  # as JSON has it
            known = [f.name for f in fields(Fusion)]
            if unknown := sorted(str(name) for name in self.fusion if name not in known):
                raise InputError(
                    f"Profile.fusion holds {', '.join(unknown)}, expected some of {known}"
                )
            object.__setattr__(self, "fusion", Fusion(**self.fusion))
        if not isinstance(self.fusion, Fusion | None):
            raise InputTypeError(
                f"Profile.fusion is {type(self.fusion).__name__}, expected a Fusion"
            )

    def __str__(self) -> str:
        shown = [
            f"{f.name}={getattr(self, f.name)!r}"
            for f in fields(self)
            if f.name in _PROFILE_SHOWN or getattr(self, f.name) != f.default
        ]
        return f"{self.name}: {', '.join(x for x in shown if not x.startswith('name='))}"

    @property
    def reranks(self) -> bool:
        """Whether a cross-encoder takes part."""
        return self.rerank_depth != 0

    @classmethod
    def named(cls, name: str) -> Profile:
        """One of the points that come with the package: "fast", "balanced", "accurate".

        Raises:
            InputError: There is none of that name.
        """
        if name not in _PROFILES:
            raise InputError(f"no profile {name!r}, expected one of {', '.join(_PROFILES)}")
        return cls(name=name, **_PROFILES[name])

    def save(self, path: str | Path) -> None:
        """Write it as JSON."""
        text = json.dumps(asdict(self), indent=2)
        Path(path).write_text(f"{text}\n", encoding="utf-8")

    @classmethod
    def load(cls, path: str | Path) -> Profile:
        """Read it from JSON; a field that is absent has its default.

        Raises:
            InputError: The file cannot be read, or holds something else.
            InputTypeError: A value has the wrong type.
        """
        try:
            value = json.loads(Path(path).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise InputError(f"{path} cannot be read as a profile: {error}") from error
        known = {f.name for f in fields(cls)}
        if not isinstance(value, dict) or set(value) - known:
            wrong = sorted(set(value) - known) if isinstance(value, dict) else type(value).__name__
            raise InputError(f"{path} holds {wrong}, expected a JSON object of {sorted(known)}")
        return cls(**value)


# Where the cross-encoder knows the field its order alone is a little better than the weighted sum,
# elsewhere much worse: docs/tradeoff.md has the figures.
_WEIGHTED: dict[str, Any] = {"rerank_mode": "fuse", "fuse_weight": 0.6}
_PROFILES: dict[str, dict[str, Any]] = {
    "fast": {"candidates": 20, "rerank_depth": 0},
    "balanced": {"candidates": 20, "rerank_depth": 20, **_WEIGHTED},
    "accurate": {"candidates": 50, "rerank_depth": 50, "exact": True, **_WEIGHTED},
}


_PROFILE_SHOWN = ("candidates", "rerank_depth", "rerank_mode")


_PROFILE_WHOLE = {"rerank_depth": 0, "pair_length": 16, "early_batches": 1, "ef": 1} | {
    "truncate_dim": 1
}


_PROFILE_NUMBERS = {"fuse_weight": 1.0, "budget_ms": math.inf, "early_margin": math.inf}
