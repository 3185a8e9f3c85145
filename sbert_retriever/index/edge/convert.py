"""The border to the embedded engine: `qdrant_client.models` in, `qdrant_edge` out, and back.

Pure functions that need no open shard. Their code stands by subject in `filter`, `query`,
`config`, `points` and `ids`.
"""

from sbert_retriever.index.edge.config import (
    edge_config,
    edge_payload_schema,
    edge_sparse_params,
    edge_vector_params,
)
from sbert_retriever.index.edge.filter import edge_filter
from sbert_retriever.index.edge.ids import edge_point_id
from sbert_retriever.index.edge.points import (
    edge_point,
    edge_points,
    edge_vector,
    record,
    scored_point,
)
from sbert_retriever.index.edge.query import (
    edge_order_by,
    edge_payload_selector,
    edge_query_request,
    edge_query_request_from,
    edge_search_params,
)

__all__ = [
    "edge_config",
    "edge_filter",
    "edge_order_by",
    "edge_payload_schema",
    "edge_payload_selector",
    "edge_point",
    "edge_point_id",
    "edge_points",
    "edge_query_request",
    "edge_query_request_from",
    "edge_search_params",
    "edge_sparse_params",
    "edge_vector",
    "edge_vector_params",
    "record",
    "scored_point",
]
