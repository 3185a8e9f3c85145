"""The model contract: what a collection was built with, kept with the collection.

It lies in the collection's own metadata (on a server) or in the file that stands for it
(embedded), under one key, as plain JSON.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from sbert_retriever.errors import ContractError
from sbert_retriever.types import ModelIdentity, Profile, SparseIdentity

FORMAT_VERSION = 1
METADATA_KEY = "sbert_retriever"
# Beside the contract and not in it: versions that know no profile read the contract as before.
PROFILE_KEY = "sbert_retriever_profile"
REBUILD_KEY = "sbert_retriever_rebuild"
"""Whether a collection is in the making by a rebuild, which may write over it."""


@dataclass(frozen=True, kw_only=True)
class Contract:
    """What a collection holds, and which encoder made its vectors.

    Args:
        model: The encoder.
        format_version: Of the payload's shape; a newer one than ours is refused.
        filterable: Metadata fields with a payload index: {field: kind}.
        sparse: The encoder of its sparse vectors; None where it has none.
    """

    model: ModelIdentity
    format_version: int = FORMAT_VERSION
    filterable: Mapping[str, str] = field(default_factory=dict)
    sparse: SparseIdentity | None = None

    def to_metadata(self) -> dict[str, Any]:
        """As collection metadata."""
        return {METADATA_KEY: asdict(self)}

    @classmethod
    def from_metadata(cls, metadata: Mapping[str, Any] | None) -> Contract | None:
        """Read it back; None where the collection was made by something else.

        Raises:
            ContractError: It was written by a newer version, or is damaged.
        """
        raw = (metadata or {}).get(METADATA_KEY)
        if raw is None:
            return None
        version = raw.get("format_version") if isinstance(raw, Mapping) else None
        if not isinstance(version, int) or version > FORMAT_VERSION:
            raise ContractError(
                f"the collection's contract has format {version!r}, and this version reads up to "
                f"{FORMAT_VERSION}: upgrade sbert-retriever"
            )
        try:
            return cls(
                model=ModelIdentity(**_known(ModelIdentity, raw["model"])),
                format_version=version,
                filterable=dict(raw.get("filterable") or {}),
                sparse=_sparse(raw.get("sparse")),
            )
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ContractError(
                f"the collection's contract is damaged ({type(error).__name__}: {error}): restore "
                "it from a copy, or index the sources again"
            ) from error

    def check(self, asked: ModelIdentity) -> None:
        """Refuse another model than the collection's.

        Raises:
            ContractError: With both sides printed.
        """
        differences = self.model.differences(asked)
        if not differences:
            return
        sides = "; ".join(
            f"{name}: the collection has {ours!r}, asked for {theirs!r}"
            for name, (ours, theirs) in differences.items()
        )
        raise ContractError(
            f"the collection was built with {self.model.name!r}, not with {asked.name!r} "
            f"({sides}). Open it without a model to use its own, or build it anew from its own "
            "texts with `sbert-retriever rebuild`"
        )


def _sparse(raw: Mapping[str, Any] | None) -> SparseIdentity | None:
    return None if raw is None else SparseIdentity(**_known(SparseIdentity, raw))


def _known(kind: Any, raw: Mapping[str, Any]) -> dict[str, Any]:
    """The entries that this version has a field for."""
    names = {f.name for f in fields(kind)}
    return {key: value for key, value in raw.items() if key in names}


def companions(metadata: Mapping[str, Any] | None) -> dict[str, Any]:
    """What else of ours is kept with a collection: it goes wherever the passages go.

    That a rebuild has it in the making does not: its copy is nobody's to write over.
    """
    ours = f"{METADATA_KEY}_"
    return {
        key: value
        for key, value in (metadata or {}).items()
        if key.startswith(ours) and key not in (PROFILE_KEY, REBUILD_KEY)
    }


def profile_to_metadata(profile: Profile) -> dict[str, Any]:
    """A search profile as collection metadata."""
    return {PROFILE_KEY: asdict(profile)}


def profile_from_metadata(metadata: Mapping[str, Any] | None) -> Profile | None:
    """Read it back; None where none was saved.

    Raises:
        ContractError: It has settings that this version does not know, or is damaged.
    """
    raw = (metadata or {}).get(PROFILE_KEY)
    if raw is None:
        return None
    try:
        return Profile(**raw)
    except (TypeError, ValueError) as error:
        raise ContractError(
            f"the collection's saved profile cannot be used ({error}): save one anew with "
            "`sbert-retriever tradeoff`, or upgrade sbert-retriever"
        ) from error
