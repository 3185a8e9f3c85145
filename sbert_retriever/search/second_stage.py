"""Which settings a query is answered with, and the models of the stages after the first."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import replace
from functools import partial
from os import PathLike, fspath
from typing import Any, Generic, TypeAlias, TypeVar

import numpy as np

from sbert_retriever.errors import InputError, InputTypeError
from sbert_retriever.forks import Lock
from sbert_retriever.index.contract import profile_from_metadata, profile_to_metadata
from sbert_retriever.rerank import Reranker
from sbert_retriever.rerank.late import TokenEncoder
from sbert_retriever.search.request import Query
from sbert_retriever.types import DEFAULT_RERANKER, Profile, Scorer

RerankerSpec: TypeAlias = str | PathLike[str] | Scorer | Reranker
"""A name or a folder of a cross-encoder, a scorer, or a reranker."""
LateSpec: TypeAlias = str | PathLike[str] | TokenEncoder
"""A name or a folder of a ColBERT checkpoint, or what gives token vectors."""

_DEFAULT_PROFILE = "balanced"
_LEAST_CANDIDATES_OF_A_BUDGET = 100
Spec = TypeVar("Spec")
Model = TypeVar("Model")

# How many late interaction puts in order where there is a model for it and nobody says.
_LATE = 50


class SecondStage:
    """The reranker and the ColBERT model of a retriever, and its collection's own profile.

    Args:
        reranker: Found and checked at once; None is the one that a profile names, when one does.
        device: For a name or a folder.
        dtype: For a name or a folder.
        metadata: Of the collection.
        late: What gives token vectors for late interaction, found and checked at once; None is the
            one that a profile names, when one does, else the bi-encoder.

    Raises:
        InputTypeError: One of them is nothing of what it may be.
        ModelFormatError: The files of its name are of another kind of model.
        ModelNotFoundError: Nothing holds a model of its name.
    """

    def __init__(
        self,
        reranker: RerankerSpec | None = None,
        *,
        device: str = "auto",
        dtype: str = "auto",
        metadata: Mapping[str, Any] | None = None,
        late: LateSpec | None = None,
    ) -> None:
        self._metadata = metadata or {}
        self._as_reranker = partial(as_reranker, device=device, dtype=dtype)
        self._rerankers = _Models(self._as_reranker, reranker)
        as_late = partial(as_token_encoder, device=device, dtype=dtype)
        self._token_encoders: _Models[LateSpec, TokenEncoder] = _Models(as_late, late)

    @property
    def late(self) -> TokenEncoder | None:
        """What was given for late interaction."""
        return self._token_encoders.given

    def over(self, metadata: Mapping[str, Any]) -> SecondStage:
        """The same over a collection with that metadata."""
        other = copy(self)
        other._metadata = metadata
        return other

    def with_reranker(self, reranker: RerankerSpec | None) -> SecondStage:
        """The same with another reranker, or with none."""
        other = copy(self)
        other._rerankers = _Models(self._as_reranker, reranker)
        return other

    @property
    def saved(self) -> Profile | None:
        """The collection's own profile.

        Raises:
            ContractError: It has settings that this version does not know, or is damaged.
        """
        return profile_from_metadata(self._metadata)

    def remember(self, profile: Profile) -> None:
        """Take a profile that has just been saved."""
        self._metadata = {**self._metadata, **profile_to_metadata(profile)}

    def settings(self, asked: Query) -> Profile:
        """What a query is answered with: what it says, over the profile that holds.

        That is the one that it names, else the collection's own, else "balanced" where there is a
        reranker and the query says nothing of it, with late interaction before it, or in its
        place, where a model for that was given.

        Raises:
            InputError: It takes a reranker and there is none, or no search can follow it.
        """
        profile = _said(asked, asked.named_profile() or self._standing(asked))
        if asked.diversity is not None and (profile.reranks or profile.late):
            profile = _without_second_stage(asked, profile)
        if profile.truncate_dim is not None:
            raise InputError(
                f"profile {profile.name!r} cuts vectors to {profile.truncate_dim} dimensions, "
                "which is measured only: build the collection with such vectors instead"
            )
        if profile.reranks and self._rerankers.given is None and profile.reranker is None:
            raise InputError(
                f"{_origin(asked)} asks for a rerank, and there is no reranker: open the "
                f"collection with reranker={DEFAULT_RERANKER!r}, or another"
            )
        if asked.rerank_threshold is not None and not profile.reranks:
            raise InputError(
                "rerank_threshold is a score of the reranker, and this search has none: use "
                "score_threshold"
            )
        return profile

    def reranker(self, profile: Profile) -> Reranker | None:
        """The one that was given, else the one that a profile names, loaded once."""
        return self._rerankers.get(profile.reranker)

    def token_encoder(self, profile: Profile) -> TokenEncoder | None:
        """What was given for late interaction, else what a profile names, loaded once.

        None is the bi-encoder of the collection.
        """
        return self._token_encoders.get(profile.late_encoder)

    def _standing(self, asked: Query) -> Profile:
        if (saved := self.saved) is not None:
            return saved
        if _says(asked):
            return Profile(rerank_depth=0)
        own = Profile(rerank_depth=0)
        if self._rerankers.given is not None:
            own = Profile.named(_DEFAULT_PROFILE)
        if self.late is not None:
            own = replace(own, name="custom", candidates=_LATE, late=_LATE)
        return own


class _Models(Generic[Spec, Model]):
    """The model that was given, else those that profiles name, each loaded once.

    Args:
        made: Makes a model of what a user may give for it.
        given: Made at once; None is none.
    """

    def __init__(self, made: Callable[[Spec | str], Model], given: Spec | None) -> None:
        self._made = made
        self._named: dict[str, Model] = {}
        self._guard = Lock()
        self.given = None if given is None else made(given)

    def get(self, name: str | None) -> Model | None:
        """The one that was given, else the one of that name; None for no name."""
        if self.given is not None or name is None:
            return self.given
        with self._guard:
            if name not in self._named:
                self._named[name] = self._made(name)
            return self._named[name]


def as_token_encoder(late: LateSpec, *, device: str = "auto", dtype: str = "auto") -> TokenEncoder:
    """A token encoder as it is, or a ColBERT checkpoint by its name.

    Raises:
        InputTypeError: It is nothing of these.
        ModelFormatError: The name is that of another kind of model.
        ModelNotFoundError: Nothing holds a model of its name.
    """
    if isinstance(late, str | PathLike):
        from sbert_retriever.encoder.colbert import ColbertEncoder  # torch takes a second

        return ColbertEncoder.load(late, device=device, dtype=dtype)
    if isinstance(late, type) or not isinstance(late, TokenEncoder):
        raise InputTypeError(
            f"late_encoder is {_described(late)}, expected a ColBERT checkpoint's name or folder, "
            "or an object with encode_tokens(texts, role=)"
        )
    return late


def as_reranker(reranker: RerankerSpec, *, device: str = "auto", dtype: str = "auto") -> Reranker:
    """A reranker as it is, or made from a scorer or a cross-encoder's name.

    Raises:
        InputTypeError: It is nothing of these.
        ModelNotFoundError: Nothing holds a model of its name.
    """
    if isinstance(reranker, Reranker):
        return reranker
    if isinstance(reranker, str | PathLike):
        return Reranker.load(fspath(reranker), device=device, dtype=dtype)
    if isinstance(reranker, type) or not isinstance(reranker, Scorer):
        raise InputTypeError(
            f"reranker is {_described(reranker)}, expected a name, a folder, a CrossEncoder, a "
            "Reranker or an object with score(pairs)"
        )
    return Reranker(reranker)


def _described(value: object) -> str:
    return f"the class {value.__name__}" if isinstance(value, type) else type(value).__name__


def _says(asked: Query) -> bool:
    said = (asked.candidates, asked.budget_ms, asked.rerank_mode)
    return any(value is not None for value in said)


def _without_second_stage(asked: Query, profile: Profile) -> Profile:
    """A profile's first stage alone, unless the rerank was asked for.

    Raises:
        InputError: It was.
    """
    if _says(asked) or asked.profile is not None:
        raise InputError(
            f"diversity chooses hits by their vectors, and {_origin(asked)} asks for a rerank: "
            "give one of them"
        )
    return replace(profile, rerank_depth=0, late=0)


def _origin(asked: Query) -> str:
    """What a user wrote that takes a reranker."""
    for name in ("candidates", "budget_ms", "rerank_mode", "profile"):
        if (value := getattr(asked, name)) is not None:
            return f"{name}={value if isinstance(value, Profile) else repr(value)}"
    return "the collection's profile"


def _said(asked: Query, profile: Profile) -> Profile:
    """A profile with what the query says in the place of its own."""
    changes: dict[str, Any] = {}
    if asked.candidates is not None:
        changes |= {"candidates": asked.candidates, "rerank_depth": None}
    elif asked.budget_ms is not None and asked.profile is None:
        most = max(profile.candidates, _LEAST_CANDIDATES_OF_A_BUDGET)
        changes |= {"candidates": most, "rerank_depth": None}
    elif asked.rerank_mode is not None and not profile.reranks:
        changes["rerank_depth"] = None
    if asked.budget_ms is not None:
        changes["budget_ms"] = asked.budget_ms
    if asked.rerank_mode is not None:
        changes["rerank_mode"] = asked.rerank_mode
        changes["fuse_weight"] = profile.fuse_weight if asked.rerank_mode == "fuse" else None
    for name in ("exact", "ef", "oversampling", "rescore", "mode", "fusion"):
        if (value := getattr(asked, name)) is not None:
            changes[name] = value
    if _says(asked) and changes:
        changes["name"] = "custom"
    return replace(profile, **{name: _plain(value) for name, value in changes.items()})


def _plain(value: Any) -> Any:
    """A numpy scalar as the number that it holds, for a profile is plain."""
    return value.item() if isinstance(value, np.generic) else value
