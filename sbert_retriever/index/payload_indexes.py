"""Which payload fields of a collection are indexed, and how."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, get_args

from qdrant_client import models

from sbert_retriever.errors import InputError
from sbert_retriever.index.filters import payload_key
from sbert_retriever.index.points import SOURCE_KEY, Layout
from sbert_retriever.index.steps import Steps

if TYPE_CHECKING:
    from sbert_retriever.index.collection import Collection

PayloadKind = Literal["keyword", "integer", "float", "bool", "datetime", "text", "uuid", "geo"]


def payload_indexes(
    filterable: Mapping[str, str], layout: Layout, *, chunks: bool
) -> dict[str, Any]:
    """The indexes to create, as {payload key: schema}.

    Args:
        filterable: Metadata fields and their kinds.
        layout: Where the metadata lies.
        chunks: Whether to index where a chunk stands, too. A server in strict mode refuses filters
            on fields without an index, and `expand` filters on these.

    Raises:
        InputError: A field is no path, or its kind is none of `PayloadKind`.

    Examples:
        >>> list(payload_indexes({"lang": "keyword"}, Layout(), chunks=False))
        ['_sbert.source', 'metadata.lang']
    """
    own: dict[str, Any] = {SOURCE_KEY: _KEYWORD}
    if chunks:
        own[payload_key("chunk", metadata_key=layout.metadata_key)] = _INTEGER_RANGE
        own[payload_key("parent", metadata_key=layout.metadata_key)] = _KEYWORD
    return own | {
        payload_key(field, metadata_key=layout.metadata_key): _schema(field, kind)
        for field, kind in filterable.items()
    }


def index_fields(
    collection: Collection, filterable: Mapping[str, str], *, there: Mapping[str, str]
) -> Steps[None]:
    """Create the payload indexes of a collection that it lacks, its own fields' among them.

    Args:
        collection: Which one.
        filterable: Metadata fields and their kinds.
        there: Payload keys that have an index.

    Raises:
        InputError: As for `payload_indexes`.
        StoreRequestError: The server refuses one.
    """
    server = collection.connection.engine == "server"
    indexes = payload_indexes(filterable, collection.layout, chunks=server)
    if not collection.connection.has_payload_indexes:
        return
    for key, schema in indexes.items():
        if key not in there:
            yield collection.call("create_payload_index", field_name=key, field_schema=schema)


def _schema(field: str, kind: str) -> Any:
    if kind not in get_args(PayloadKind):
        raise InputError(
            f"filterable field {field!r} has the kind {kind!r}, expected one of "
            f"{', '.join(get_args(PayloadKind))}"
        )
    return _TEXT if kind == "text" else models.PayloadSchemaType(kind)


# These fields are deleted and expanded by, and never searched by: no extra graph links for them.
_KEYWORD = models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD, enable_hnsw=False)
_INTEGER_RANGE = models.IntegerIndexParams(
    type=models.IntegerIndexType.INTEGER, lookup=False, range=True, enable_hnsw=False
)
# Without the positions of words, a phrase would match nothing.
_TEXT = models.TextIndexParams(type=models.TextIndexType.TEXT, phrase_matching=True)
