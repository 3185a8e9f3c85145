"""More filterable fields for a collection that is there: in its contract, and indexed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sbert_retriever.errors import InputError, InputTypeError
from sbert_retriever.index.collection import Collection
from sbert_retriever.index.filters import payload_key
from sbert_retriever.index.payload_indexes import index_fields, payload_indexes
from sbert_retriever.index.steps import Steps


def checked_filterable(filterable: Any) -> dict[str, str]:
    """Fields and their kinds as a dict; the kinds are looked at where indexes are made.

    Raises:
        InputTypeError: It is no mapping of strings.
    """
    if not isinstance(filterable, Mapping) or not all(isinstance(f, str) for f in filterable):
        raise InputTypeError(
            f"filterable is {filterable!r:.60}, expected fields and their kinds, such as "
            '{"lang": "keyword"}'
        )
    return dict(filterable)


def declare(collection: Collection, filterable: Mapping[str, str]) -> Steps[None]:
    """Index metadata fields of a collection, and have its contract say so.

    The contract comes first: what a kill leaves out then is made at the next opening.

    Args:
        collection: Which one.
        filterable: Metadata fields and their kinds.

    Raises:
        InputError: A field is no path, its kind is unknown or another than the one that is there,
            or the collection is bound to a tenant.
        InputTypeError: It is no mapping of strings.
        StoreRequestError: The server refuses it.
    """
    fields = checked_filterable(filterable)
    payload_indexes(fields, collection.layout, chunks=False)  # refuses what is no field or no kind
    if collection.tenant is not None:
        raise InputError(
            f"this is bound to tenant {collection.tenant!r}, and indexes are the whole "
            "collection's: make them without tenant="
        )
    facts = yield from collection.facts()
    declared = facts.contract.filterable if facts.contract is not None else {}
    by_contract = {_key(collection, field): kind for field, kind in declared.items()}
    known = {**by_contract, **facts.filterable}
    for field, kind in fields.items():
        there = known.setdefault(_key(collection, field), kind)
        if there != kind:
            raise InputError(
                f"field {field!r} is to be indexed as {kind!r}, and is as {there!r}: a field has "
                "one kind while the collection lives"
            )
    more = {f: kind for f, kind in fields.items() if _key(collection, f) not in by_contract}
    if more and facts.contract is not None:
        contract = replace(facts.contract, filterable={**declared, **more})
        yield collection.call("update_collection", metadata=contract.to_metadata())
    yield from index_fields(collection, fields, there=facts.filterable)
    yield from collection.settle()


def _key(collection: Collection, field: str) -> str:
    return payload_key(field, metadata_key=collection.layout.metadata_key)
