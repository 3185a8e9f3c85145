"""Passages to points and back: the only place that knows a payload's keys."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from qdrant_client import models

from sbert_retriever.errors import InputError, InputTypeError, StoreRequestError
from sbert_retriever.index.metadata import exact_copy_needed, plain_metadata
from sbert_retriever.types import Hit, Passage, ScoreKind

RESERVED = "_sbert"
SOURCE_KEY = f"{RESERVED}.source"
TENANT_KEY = f"{RESERVED}.tenant"
SPARSE_NAME = "sparse"
"""Of the sparse vector, where a collection has them."""
TOKENS_NAME = "tokens"
"""Of the token vectors, where a collection keeps them."""
_UINT64_DIGITS = 20
_NAMESPACE = uuid.UUID("6f6a7c9e-2f0e-5d0a-9d43-5b1c0d1f7a11")
_TENANTS = uuid.UUID("b1d5b5a0-6b0c-5f63-8a55-2f1c7f0a9e27")


@dataclass(frozen=True, kw_only=True)
class Layout:
    """Where a collection keeps what. The default is ours.

    Args:
        vector_name: Name of the dense vector; "" is Qdrant's unnamed one.
        text_key: Payload key of the text.
        metadata_key: Payload key of the metadata.
        foreign: Whether another program wrote points there, with its own ids.

    Raises:
        InputError: A payload key is empty.
    """

    vector_name: str = "dense"
    text_key: str = "text"
    metadata_key: str = "metadata"
    foreign: bool = False

    def __post_init__(self) -> None:
        for name, key in (("text", self.text_key), ("metadata", self.metadata_key)):
            if not key:
                raise InputError(
                    f"the payload key of the {name} is empty, expected the name of the field that "
                    f"holds it: points whose {name} has no field of its own cannot be opened"
                )


@dataclass(frozen=True)
class Fingerprint:
    """What `sync` compares: the text decides on encoding, the rest on writing."""

    text: str
    rest: str


@dataclass(frozen=True)
class Draft:
    """A passage made ready for the store, without its vector."""

    id: str
    text: str
    payload: dict[str, Any]
    fingerprint: Fingerprint


def point_id(passage_id: str, layout: Layout | None = None, tenant: str | None = None) -> str | int:
    """The point's id: a uuid5 of the passage's, or what a foreign collection already uses.

    Each tenant has ids of its own, so that none can name another's points.
    """
    if tenant is not None:
        return str(uuid.uuid5(uuid.uuid5(_TENANTS, tenant), passage_id))
    if layout is not None and layout.foreign:
        native = _native_id(passage_id)
        if native is not None:
            return native
    return str(uuid.uuid5(_NAMESPACE, passage_id))


def _native_id(text: str) -> str | int | None:
    if len(text) <= _UINT64_DIGITS and text.isascii() and text.isdigit():
        number = int(text)
        if number < 2**64 and str(number) == text:
            return number
    try:
        return str(uuid.UUID(text))
    except ValueError:
        return None


def check_id(value: object) -> str:
    """A passage id, or one clear error.

    Raises:
        InputTypeError: Not a string. InputError: Empty, or not encodable as UTF-8.
    """
    if not isinstance(value, str):
        raise InputTypeError(
            f"a passage id is {value!r} ({type(value).__name__}), expected a string: use str(...)"
        )
    if not value:
        raise InputError("a passage id is empty: give any non-empty string")
    check_text(value, f"the passage id {value[:80]!r}")
    return value


def check_text(value: str, name: str) -> None:
    """Refuse what UTF-8, and so the engine, can't hold.

    Raises:
        InputError: The string has a lone surrogate.
    """
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InputError(
            f"{name} has a lone surrogate at character {error.start}: it is not valid text; "
            "decode the file again with errors='replace'"
        ) from None


def draft(passage: Passage, layout: Layout) -> Draft:
    """Check a passage and lay out its payload.

    Raises:
        InputError: The id is empty, or text, source or metadata hold what can't be stored.
    """
    check_id(passage.id)
    check_text(passage.text, f"the text of passage {passage.id[:80]!r}")
    if passage.source is not None:
        check_text(passage.source, f"the source of passage {passage.id[:80]!r}")
    metadata = plain_metadata(passage.metadata, passage_id=passage.id)
    written = json.dumps(metadata, sort_keys=True, ensure_ascii=False, allow_nan=False)
    fingerprint = Fingerprint(
        text=_digest(passage.text), rest=_digest(json.dumps([passage.source, written]))
    )
    own: dict[str, Any] = {
        "id": passage.id,
        "text_hash": fingerprint.text,
        "rest_hash": fingerprint.rest,
    }
    if passage.source is not None:
        own["source"] = passage.source
    if exact_copy_needed(metadata):
        own["metadata_json"] = json.dumps(metadata, ensure_ascii=False)
    payload = {layout.text_key: passage.text, layout.metadata_key: metadata, RESERVED: own}
    return Draft(passage.id, passage.text, payload, fingerprint)


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8"), digest_size=16).hexdigest()


def stored_fingerprint(payload: Mapping[str, Any] | None) -> Fingerprint | None:
    """The fingerprint a point was written with; None for a foreign point."""
    own = (payload or {}).get(RESERVED) or {}
    if "text_hash" not in own or "rest_hash" not in own:
        return None
    return Fingerprint(text=own["text_hash"], rest=own["rest_hash"])


def stored_id(payload: Mapping[str, Any] | None, point: object) -> str:
    """The passage id of a point: exactly what was given, or a foreign point's own id."""
    own = (payload or {}).get(RESERVED) or {}
    return str(own.get("id", point))


def stored_source(payload: Mapping[str, Any] | None) -> str | None:
    """The source a point was written with."""
    source = ((payload or {}).get(RESERVED) or {}).get("source")
    return source if isinstance(source, str) else None


def to_passage(payload: Mapping[str, Any] | None, point: object, layout: Layout) -> Passage:
    """A point's payload as a passage.

    Raises:
        StoreRequestError: The payload has no text where the layout says it is.
    """
    payload = payload or {}
    own = payload.get(RESERVED) or {}
    text = payload.get(layout.text_key)
    if not isinstance(text, str):
        raise StoreRequestError(
            f"point {point} has no text under {layout.text_key!r} (its keys: "
            f"{', '.join(sorted(payload)) or 'none'}): name the right content_payload_key"
        )
    copy = own.get("metadata_json")
    metadata = json.loads(copy) if copy is not None else payload.get(layout.metadata_key)
    return Passage(stored_id(payload, point), text, metadata or {}, own.get("source"))


def to_hit(point: models.ScoredPoint, layout: Layout, score_kind: ScoreKind) -> Hit:
    """A scored point as a hit."""
    score = to_score(point.score, score_kind)
    return Hit(to_passage(point.payload, point.id, layout), score, score_kind)


def to_score(score: float, score_kind: ScoreKind) -> float:
    """What the engine gives, as a score: distances change sign, so that bigger is better."""
    return float(-score if score_kind in ("neg_l2", "neg_l1") else score)
