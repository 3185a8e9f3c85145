"""Open an FAQ for a command."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sbert_retriever.cli.opening import collection_exists, collection_names
from sbert_retriever.cli.output import say
from sbert_retriever.errors import CollectionNotFoundError

if TYPE_CHECKING:
    from sbert_retriever.faq import Faq

DEFAULT_COLLECTION = "faq"
DEFAULT_MODEL = "all-MiniLM-L6-v2"


def open_faq(
    location: str,
    collection: str,
    *,
    new: bool = False,
    quiet: bool = False,
    model: str | None = None,
    **settings: Any,
) -> Faq:
    """Open an FAQ.

    Args:
        location: A folder or a URL.
        collection: Its name.
        new: Whether it is made where it is not there.
        quiet: Do not say so.
        model: Of a new one; or what one that is there must have been made with.
        settings: Further arguments of `Faq.open`.

    Raises:
        CollectionNotFoundError: It is not there, and may not be made; with those that are.
    """
    from sbert_retriever.faq import Faq

    there = collection_exists(location, collection, settings.get("api_key"))
    if not there and not new:
        raise CollectionNotFoundError(_missing(location, collection, settings.get("api_key")))
    if not there:
        model = model or DEFAULT_MODEL
        if not quiet:
            say(f"new FAQ {collection!r} at {location}, model {model}")
    return Faq.open(location, collection_name=collection, model=model, create=new, **settings)


def _missing(location: str, collection: str, api_key: str | None) -> str:
    names = ", ".join(map(repr, collection_names(location, api_key)))
    there = f"; the collections there are {names} (choose one with --collection)" if names else ""
    return (
        f"there is no FAQ {collection!r} at {location}{there}: make one with "
        f"`sbert-retriever faq import {location} FILE`"
    )
