"""What a search asks for, checked once."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypedDict, get_args

import numpy as np
from qdrant_client import models

from sbert_retriever.errors import InputError, InputTypeError
from sbert_retriever.ingest.expand import Expand
from sbert_retriever.types import Fusion, Profile, RerankMode, SearchMode, checks

FilterSpec = Mapping[str, Any] | models.Filter

# Engines count in 64 bits.
LARGEST = 2**63 - 1
# The least that hits are chosen from for their variety.
_CHOSEN_FROM = 50


class SearchOptions(TypedDict, total=False):
    """The keyword-only arguments of every search; `Retriever.search` documents them."""

    filter: FilterSpec | None
    score_threshold: float | None
    expand: Expand | None
    window: int
    exact: bool | None
    ef: int | None
    oversampling: float | None
    rescore: bool | None
    group_by: str | None
    group_size: int
    diversity: float | None
    distinct: float | None
    timeout_s: float | None


class QueryOptions(SearchOptions, total=False):
    """Those of a search by text, which may go by words too, and may have a second stage."""

    mode: SearchMode | None
    fusion: Fusion | None
    candidates: int | None
    rerank_mode: RerankMode | None
    budget_ms: float | None
    profile: str | Profile | None
    rerank_threshold: float | None


@dataclass(frozen=True, kw_only=True)
class Search:
    """A checked request.

    Raises:
        InputError: k or window or ef below their least, a threshold that is NaN, an oversampling
            that is below 1 or infinite.
        InputTypeError: One of them has the wrong type.
    """

    k: int = 10
    filter: FilterSpec | None = None
    score_threshold: float | None = None
    expand: Expand | None = None
    window: int = 1
    exact: bool | None = None
    ef: int | None = None
    oversampling: float | None = None
    rescore: bool | None = None
    group_by: str | None = None
    group_size: int = 1
    diversity: float | None = None
    distinct: float | None = None
    timeout_s: float | None = None

    def __post_init__(self) -> None:
        whole("k", self.k, least=1)
        whole("window", self.window, least=0)
        if self.ef is not None:
            whole("ef", self.ef, least=1)
        for name in ("exact", "rescore"):
            if not isinstance(value := getattr(self, name), bool | np.bool_ | None):
                raise InputTypeError(f"{name} is {value!r}, expected True, False or None")
        if self.expand not in (None, "neighbours", "parent"):
            raise InputError(f"expand is {self.expand!r}, expected 'neighbours', 'parent' or None")
        if self.score_threshold is not None:
            _number("score_threshold", self.score_threshold)
        if self.oversampling is not None:
            _number("oversampling", self.oversampling)
            if not 1 <= self.oversampling < math.inf:
                raise InputError(
                    f"oversampling is {self.oversampling:g}, expected a finite number of 1 or more"
                )
        self._check_variety()
        if self.timeout_s is not None:
            checks.seconds("timeout_s", self.timeout_s)

    def _check_variety(self) -> None:
        whole("group_size", self.group_size, least=1)
        if self.group_by is not None and (not isinstance(self.group_by, str) or not self.group_by):
            raise InputTypeError(
                f"group_by is {self.group_by!r}, expected 'source' or a metadata field"
            )
        if self.diversity is not None:
            _number("diversity", self.diversity)
            if not 0 <= self.diversity <= 1:
                raise InputError(f"diversity is {self.diversity:g}, expected 0 to 1")
        if self.distinct is not None:
            _number("distinct", self.distinct)
        chosen_by = ("diversity", "distinct", "group_by")
        said = [name for name in chosen_by if getattr(self, name) is not None]
        if len(said) > 1:
            raise InputError(f"{said[0]} and {said[1]} each choose the hits: give one of them")

    @property
    def fetched(self) -> int:
        """How many hits are looked at for k: more where not every hit is taken."""
        if self.diversity is not None or self.distinct is not None:
            return min(max(_CHOSEN_FROM, 4 * self.k), LARGEST)
        if self.group_by is not None:
            return min(max(_CHOSEN_FROM, 4 * self.k * self.group_size), LARGEST)
        return self.k

    @property
    def params(self) -> models.SearchParams | None:
        """The engine's search parameters; None where all are its own."""
        quantization = None
        if self.rescore is not None or self.oversampling is not None:
            quantization = models.QuantizationSearchParams(
                rescore=None if self.rescore is None else bool(self.rescore),
                oversampling=self.oversampling,
            )
        if not self.exact and self.ef is None and quantization is None:
            return None
        return models.SearchParams(
            exact=bool(self.exact), hnsw_ef=self.ef, quantization=quantization
        )


@dataclass(frozen=True, kw_only=True)
class Query(Search):
    """A checked request by text.

    Raises:
        InputError: As for `Search`; a budget below 0, an unknown mode, no such profile, or one that
            asks for what no search can do.
        InputTypeError: One of them has the wrong type.
    """

    mode: SearchMode | None = None
    fusion: Fusion | None = None
    candidates: int | None = None
    rerank_mode: RerankMode | None = None
    budget_ms: float | None = None
    profile: str | Profile | None = None
    rerank_threshold: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.mode not in (None, *get_args(SearchMode)):
            raise InputError(f"mode is {self.mode!r}, expected 'dense', 'sparse', 'hybrid' or None")
        if not isinstance(self.fusion, Fusion | None):
            raise InputTypeError(f"fusion is {type(self.fusion).__name__}, expected a Fusion")
        if self.candidates is not None:
            whole("candidates", self.candidates, least=1)
        if self.budget_ms is not None:
            _number("budget_ms", self.budget_ms)
            if self.budget_ms < 0:
                raise InputError(f"budget_ms is {self.budget_ms:g}, expected 0 or more")
        if self.rerank_threshold is not None:
            _number("rerank_threshold", self.rerank_threshold)
        if self.rerank_mode not in (None, *get_args(RerankMode)):
            raise InputError(
                f"rerank_mode is {self.rerank_mode!r}, expected 'replace', 'fuse' or None"
            )
        self.named_profile()

    def named_profile(self) -> Profile | None:
        """The profile that was asked for, itself or by its name."""
        if isinstance(self.profile, str):
            return Profile.named(self.profile)
        if not isinstance(self.profile, Profile | None):
            raise InputTypeError(
                f"profile is {type(self.profile).__name__}, expected a name or a Profile"
            )
        return self.profile


def whole(name: str, value: object, *, least: int) -> int:
    """A whole number of at least `least` that an engine can count to.

    Raises:
        InputTypeError: It is no whole number.
        InputError: It is too small or too large.
    """
    number = checks.whole(name, value, least=least)
    if number > LARGEST:
        raise InputError(f"{name} is more than any collection holds: give {LARGEST} at most")
    return number


def _number(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float | np.number):
        raise InputTypeError(f"{name} is {value!r}, expected a number")
    try:
        nan = math.isnan(value)
    except OverflowError:
        raise InputError(f"{name} is too large for a float: give another") from None
    if nan:
        raise InputError(f"{name} is NaN, expected a number")


def query_texts(queries: Iterable[str]) -> list[str]:
    """Queries as a list.

    Raises:
        InputTypeError: A bare string, or an item that is none.
    """
    if isinstance(queries, str | bytes) or not isinstance(queries, Iterable):
        raise InputTypeError(
            f"queries is {type(queries).__name__}, expected an iterable of str: put one query "
            "into a list"
        )
    texts = list(queries)
    for position, text in enumerate(texts):
        query_text(text, f"query {position}")
    return texts


def query_text(query: object, name: str = "query") -> str:
    """A query as it is.

    Raises:
        InputTypeError: It is no string.
    """
    if not isinstance(query, str):
        raise InputTypeError(f"{name} is {type(query).__name__}, expected str")
    return query
