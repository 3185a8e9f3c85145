"""What a rerank is asked for, checked once, and what it did."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import numpy as np

from sbert_retriever.errors import InputError, InputTypeError
from sbert_retriever.types import Hit, Profile, RerankMode
from sbert_retriever.types.checks import whole

Ended: TypeAlias = Literal["all", "budget", "early stop", "no time", "failed"]

_SHORTEST_PAIR = 16


@dataclass(frozen=True, kw_only=True)
class EarlyStop:
    """When to leave the rest of the candidates unscored.

    Args:
        margin: Candidates whose first-stage score lies more than this below that of the k-th are
            left out; None leaves none out.
        stable_batches: Stop once the first k were the same, in the same order, after so many
            batches in a row; None never stops so.
        batch: Pairs in a batch.

    Raises:
        InputError: A number is out of range, or nothing is asked for.
    """

    margin: float | None = None
    stable_batches: int | None = 2
    batch: int = 5

    def __post_init__(self) -> None:
        if self.margin is not None:
            _number("margin", self.margin, least=0)
        if self.stable_batches is not None:
            whole("stable_batches", self.stable_batches, least=1)
        whole("batch", self.batch, least=1)
        if self.margin is None and self.stable_batches is None:
            raise InputError("EarlyStop has neither margin nor stable_batches: give one of them")


@dataclass(frozen=True, kw_only=True)
class RerankOptions:
    """A checked request; `Reranker.rerank` documents the fields.

    Args:
        watched: How many of the first an early stop looks at; None is k.

    Raises:
        InputError: A value is out of range.
        InputTypeError: A value has the wrong type.
    """

    k: int | None = None
    candidates: int | None = None
    budget_ms: float | None = None
    mode: RerankMode = "replace"
    weight: float | None = None
    early_stop: EarlyStop | None = None
    min_score: float | None = None
    pair_length: int | None = None
    watched: int | None = None

    def __post_init__(self) -> None:
        known = (("k", 0), ("candidates", 0), ("pair_length", _SHORTEST_PAIR), ("watched", 1))
        for name, least in known:
            if (value := getattr(self, name)) is not None:
                whole(name, value, least=least)
        if self.budget_ms is not None:
            _number("budget_ms", self.budget_ms, least=0)
        if self.min_score is not None:
            _number("min_score", self.min_score)
        if self.mode not in get_args(RerankMode):
            raise InputError(f"mode={self.mode!r}, expected 'replace' or 'fuse'")
        if self.early_stop is not None and not isinstance(self.early_stop, EarlyStop):
            raise InputTypeError(
                f"early_stop is {type(self.early_stop).__name__}, expected EarlyStop(...)"
            )
        if self.early_stop is not None and self.first is None:
            raise InputError("early_stop is given without k, whose hits it looks at: give k too")
        self._check_weight()

    @property
    def first(self) -> int | None:
        """How many of the first an early stop looks at."""
        return self.k if self.watched is None else self.watched

    @classmethod
    def of(
        cls,
        profile: Profile,
        *,
        k: int | None,
        min_score: float | None = None,
        watched: int | None = None,
    ) -> RerankOptions:
        """What a profile asks of the reranker; its budget is that of the whole query.

        Where all hits are wanted there is nothing to stop for.
        """
        stop = None
        some = k is not None or watched is not None
        if some and (profile.early_margin is not None or profile.early_batches is not None):
            stop = EarlyStop(margin=profile.early_margin, stable_batches=profile.early_batches)
        return cls(
            k=k,
            candidates=profile.rerank_depth,
            budget_ms=profile.budget_ms,
            mode=profile.rerank_mode,
            weight=profile.fuse_weight,
            early_stop=stop,
            min_score=min_score,
            pair_length=profile.pair_length,
            watched=watched,
        )

    def _check_weight(self) -> None:
        if self.weight is None:
            return
        _number("weight", self.weight, least=0)
        if self.weight > 1:
            raise InputError(f"weight={self.weight}, expected 0 to 1")
        if self.mode == "replace":
            raise InputError("weight is given and mode is 'replace', which has none: use 'fuse'")


@dataclass(frozen=True, kw_only=True)
class RerankResult:
    """Hits, and what was done for them.

    Args:
        hits: Best first.
        candidates: How many were to be rescored.
        rescored: How many were.
        ended: Why it ended: "all" were rescored, the "budget" was used up, an "early stop", there
            was "no time" for two pairs, or the scorer "failed".
        reason: One sentence where the first stage's order was kept; else None.
        seconds: Wall time, without the measurement of the scorer's speed at its first use.
    """

    hits: list[Hit]
    candidates: int
    rescored: int
    ended: Ended
    reason: str | None = None
    seconds: float = 0.0


def checked_hits(query: object, hits: object) -> list[Hit]:
    """The hits as a list of their own.

    Raises:
        InputTypeError: The query is no str, or something among the hits is no Hit.
    """
    if not isinstance(query, str):
        raise InputTypeError(f"query is {type(query).__name__}, expected str")
    found: list[Hit] = []
    for position, hit in enumerate(_listed("hits", hits)):
        if not isinstance(hit, Hit):
            raise InputTypeError(f"hits[{position}] is {type(hit).__name__}, expected Hit")
        found.append(hit)
    return found


def checked_runs(queries: object, hits: object) -> list[tuple[str, list[Hit]]]:
    """Each query with its hits, as a list of their own.

    Raises:
        InputError: Their numbers differ.
        InputTypeError: Something is of the wrong type.
    """
    texts, lists = _listed("queries", queries), _listed("hits", hits)
    if len(texts) != len(lists):
        raise InputError(
            f"{len(texts)} queries and {len(lists)} lists of hits: give one list for each query"
        )
    checked = [checked_hits(text, found) for text, found in zip(texts, lists, strict=True)]
    return list(zip(map(str, texts), checked, strict=True))


def _listed(name: str, value: object) -> Sequence[object]:
    if not isinstance(value, Sequence) or isinstance(value, str | bytes):
        raise InputTypeError(f"{name} is {type(value).__name__}, expected a list")
    return value


def _number(name: str, value: object, *, least: float = -math.inf) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float | np.number):
        raise InputTypeError(f"{name} is {value!r}, expected a number")
    if math.isnan(value) or value < least:
        expected = "a number" if least == -math.inf else f"{least:g} or more"
        raise InputError(f"{name} is {value}, expected {expected}")
