"""Several tenants in one collection, none of whom can see, write or delete another's passages.

A tenant's points have ids that are made from its name, and its name in their payload; every filter
that is sent for it holds for that name too.
"""

from __future__ import annotations

from typing import Any

from qdrant_client import models

from sbert_retriever.errors import InputError, InputTypeError
from sbert_retriever.index.points import TENANT_KEY, Layout, check_text


def checked_tenant(tenant: object, layout: Layout) -> str | None:
    """A tenant's name as it is.

    Raises:
        InputError: It is empty, or the collection is another program's.
        InputTypeError: It is no string.
    """
    if tenant is None:
        return None
    if not isinstance(tenant, str):
        raise InputTypeError(f"tenant is {type(tenant).__name__}, expected str")
    if not tenant:
        raise InputError("tenant is empty: give a name, or None for the whole collection")
    check_text(tenant, f"the tenant {tenant[:80]!r}")
    if layout.foreign:
        raise InputError(
            "tenant= is for collections of this program's own, and this one was made by another: "
            "copy it into a new one"
        )
    return tenant


def within_tenant(tenant: str | None, condition: models.Filter | None) -> models.Filter | None:
    """A condition that holds for a tenant's passages alone.

    Examples:
        >>> within_tenant("acme", None).must[0].match.value
        'acme'
    """
    if tenant is None:
        return condition
    match = models.MatchValue(value=tenant)
    own = models.FieldCondition(key=TENANT_KEY, match=match)
    return models.Filter(must=[own] if condition is None else [own, condition])


def tenant_index() -> dict[str, Any]:
    """The payload index by which an engine keeps each tenant's points together."""
    keyword = models.KeywordIndexType.KEYWORD
    return {TENANT_KEY: models.KeywordIndexParams(type=keyword, is_tenant=True)}
