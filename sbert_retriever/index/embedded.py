"""Qdrant Edge in a folder, in the shape of `qdrant_client.QdrantClient`.

The same method names, `qdrant_client.models` in and out, for the calls that this project makes.
What the engine lacks is kept beside it: a collection's metadata and parameters lie in
`collection.json`, written atomically, next to the shard.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import qdrant_edge as edge
from qdrant_client import models

# `models` has another class of this name in front of the one that queries return.
from qdrant_client.http.models import QueryResponse

from sbert_retriever.errors import StoreRequestError
from sbert_retriever.forks import Lock
from sbert_retriever.index.edge import convert, graph
from sbert_retriever.index.edge.collections import Collections
from sbert_retriever.index.edge.description import (
    Description,
    dumped,
    read_description,
    write_description,
)
from sbert_retriever.index.edge.shard import (
    ROOM_TO_WRITE,
    Shard,
    acquire,
    check_room,
    release,
)

_creating = Lock()


class EmbeddedClient(Collections):
    """Collections in one folder, each an Edge shard.

    Args:
        folder: Where the collections lie; None is a private temporary folder that `close`
            removes.

    Raises:
        StoreError: The location is a file, or no path that this system has.
    """

    def create_collection(
        self,
        collection_name: str,
        *,
        vectors_config: Mapping[str, models.VectorParams],
        sparse_vectors_config: Mapping[str, models.SparseVectorParams] | None = None,
        hnsw_config: models.HnswConfigDiff | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> bool:
        """Create a collection; what a run that was killed while creating it left is replaced.

        Raises:
            StoreRequestError: It exists.
        """
        # Another client of this process may be creating it: one alone writes its description.
        with self._guard, _creating:
            self._check_open()
            if self.collection_exists(collection_name):
                raise StoreRequestError(
                    f"collection {collection_name!r} exists in {self.folder}; if another process "
                    "created it just now, run this again"
                )
            config = convert.edge_config(
                vectors_config, sparse_vectors_config, hnsw_config=hnsw_config
            )
            place = self._new_place(collection_name)
            description = Description(
                vectors=dumped(vectors_config),
                sparse_vectors=dumped(sparse_vectors_config or {}),
                metadata=dict(metadata or {}),
            )
            shard = acquire(place, config=config)
            try:
                write_description(place, description)
            except BaseException:
                release(shard)
                raise
            self._shards[collection_name] = shard
        return True

    def get_collection(self, collection_name: str) -> models.CollectionInfo:
        """Parameters, metadata and counts of a collection."""
        shard = self._shard(collection_name)
        description = read_description(shard.folder)
        info = shard.use(lambda engine: engine.info())
        points = self.count(collection_name).count
        vectors = {n: models.VectorParams(**v) for n, v in description.vectors.items()}
        sparse = {n: models.SparseVectorParams(**v) for n, v in description.sparse_vectors.items()}
        return models.CollectionInfo(
            status=models.CollectionStatus.GREEN,
            optimizer_status=models.OptimizersStatusOneOf.OK,
            points_count=points,
            indexed_vectors_count=graph.indexed(
                info, description, points, description.written + shard.written
            ),
            segments_count=info.segments_count,
            payload_schema={
                key: models.PayloadIndexInfo(
                    data_type=models.PayloadSchemaType(kind), points=points
                )
                for key, kind in description.payload_schema.items()
            },
            config=models.CollectionConfig(
                params=models.CollectionParams(vectors=vectors, sparse_vectors=sparse or None),
                hnsw_config=models.HnswConfig(m=16, ef_construct=100, full_scan_threshold=10000),
                optimizer_config=models.OptimizersConfig(
                    deleted_threshold=0.2,
                    vacuum_min_vector_number=1000,
                    default_segment_number=0,
                    flush_interval_sec=5,
                ),
                metadata=description.metadata,
            ),
        )

    def update_collection(self, collection_name: str, *, metadata: Mapping[str, Any]) -> bool:
        """Replace the named keys of a collection's metadata."""
        with self._described(collection_name) as (shard, description):
            self._check_current(collection_name, shard)
            description.metadata.update(metadata)
        return True

    def create_payload_index(
        self, collection_name: str, *, field_name: str, field_schema: Any
    ) -> models.UpdateResult:
        """Index a payload field, so that filters on it are fast."""
        schema = convert.edge_payload_schema(field_schema)
        operation = edge.UpdateOperation.create_field_index(field_name, schema)
        result = self._update(collection_name, operation)
        with self._described(collection_name) as (_, description):
            kind = models.PayloadSchemaType(getattr(field_schema, "type", field_schema))
            description.payload_schema[field_name] = kind.value
        return result

    def optimize(self, collection_name: str, *, force: bool = False) -> bool:
        """Build the HNSW graph and tidy up what was deleted, where there is enough of either.

        Args:
            collection_name: Which one.
            force: Do it however little there is.

        Returns:
            Whether it was done.
        """
        shard = self._shard(collection_name)
        description = read_description(shard.folder)
        info = shard.use(lambda engine: engine.info())
        points = self.count(collection_name).count
        written = description.written + shard.written
        if not (force or graph.worth_building(info, description, points, written)):
            return False
        with shard.held():
            shard.optimize()
            indexed = shard.use(lambda engine: engine.info()).indexed_vectors_count
            # Sparse vectors, which are always indexed, are counted too.
            # No collection is looked up here: who closes the client waits for this shard.
            sparse = 0
            if description.sparse_vectors:
                request = edge.CountRequest(exact=True, filter=None)
                sparse = shard.use(lambda engine: engine.count(request))
            shard.note_built(max(indexed - sparse, 0))
        return True

    def flush(self, collection_name: str) -> None:
        """Put everything acknowledged on the disk."""
        self._shard(collection_name).use(lambda engine: engine.flush())

    # Points -----------------------------------------------------------------------------

    def upsert(
        self, collection_name: str, *, points: Sequence[models.PointStruct], wait: bool = True
    ) -> models.UpdateResult:
        """Write points; those whose ids exist are replaced.

        Raises:
            StoreError: The disk is about to be full.
        """
        check_room(self._shard(collection_name).folder, ROOM_TO_WRITE)
        rows = [convert.edge_point(point) for point in points]
        operation = edge.UpdateOperation.upsert_points(rows)
        return self._update(collection_name, operation, written=len(rows))

    def batch_update_points(
        self,
        collection_name: str,
        *,
        update_operations: Sequence[models.OverwritePayloadOperation],
    ) -> list[models.UpdateResult]:
        """Replace the payload of points that exist, one after the other.

        Raises:
            StoreError: The disk is about to be full.
        """
        check_room(self._shard(collection_name).folder, ROOM_TO_WRITE)
        return [
            self._overwrite(collection_name, operation.overwrite_payload)
            for operation in update_operations
        ]

    def _overwrite(self, collection_name: str, asked: models.SetPayload) -> models.UpdateResult:
        ids = [convert.edge_point_id(point) for point in asked.points or ()]
        operation = edge.UpdateOperation.overwrite_payload(ids, asked.payload)
        return self._update(collection_name, operation, written=len(ids))

    def delete(
        self, collection_name: str, *, points_selector: Sequence[Any] | models.Filter
    ) -> models.UpdateResult:
        """Delete points by id or by filter."""
        if isinstance(points_selector, models.Filter):
            condition = convert.edge_filter(points_selector)
            operation = edge.UpdateOperation.delete_points_by_filter(condition)
        else:
            ids = [convert.edge_point_id(point) for point in points_selector]
            operation = edge.UpdateOperation.delete_points(ids)
        return self._update(collection_name, operation)

    def query_points(self, collection_name: str, **request: Any) -> QueryResponse:
        """Answer one query; the arguments are those of `QdrantClient.query_points`."""
        asked = convert.edge_query_request(**request)
        found = self._shard(collection_name).use(lambda engine: engine.query(asked))
        return QueryResponse.model_construct(
            points=[convert.scored_point(point) for point in found]
        )

    def query_batch_points(
        self, collection_name: str, *, requests: Sequence[models.QueryRequest]
    ) -> list[QueryResponse]:
        """Answer many queries in one pass."""
        asked = [convert.edge_query_request_from(request) for request in requests]
        batch = edge.QueryBatchRequest(asked)
        found = self._shard(collection_name).use(lambda engine: engine.query_batch(batch))
        return [
            QueryResponse.model_construct(points=[convert.scored_point(p) for p in points])
            for points in found
        ]

    def retrieve(
        self,
        collection_name: str,
        *,
        ids: Sequence[Any],
        with_payload: Any = True,
        with_vectors: bool | Sequence[str] = False,
    ) -> list[models.Record]:
        """Points by id; missing ones are left out."""
        asked = [convert.edge_point_id(point) for point in ids]
        payload = convert.edge_payload_selector(with_payload)
        vectors = with_vectors if isinstance(with_vectors, bool) else list(with_vectors)
        found = self._shard(collection_name).use(
            lambda engine: engine.retrieve(asked, payload, vectors)
        )
        return [convert.record(item) for item in found]

    def scroll(
        self,
        collection_name: str,
        *,
        scroll_filter: models.Filter | None = None,
        limit: int = 10,
        offset: Any = None,
        with_payload: Any = True,
        with_vectors: bool | Sequence[str] = False,
    ) -> tuple[list[models.Record], Any]:
        """A page of points in the order of their ids, and where the next page begins."""
        request = edge.ScrollRequest(
            offset=None if offset is None else convert.edge_point_id(offset),
            limit=limit,
            filter=None if scroll_filter is None else convert.edge_filter(scroll_filter),
            with_payload=convert.edge_payload_selector(with_payload),
            with_vector=with_vectors if isinstance(with_vectors, bool) else list(with_vectors),
        )
        found, following = self._shard(collection_name).use(lambda engine: engine.scroll(request))
        following = following if following is None or isinstance(following, int) else str(following)
        return [convert.record(item) for item in found], following

    def count(
        self, collection_name: str, *, count_filter: models.Filter | None = None, exact: bool = True
    ) -> models.CountResult:
        """How many points match."""
        condition = None if count_filter is None else convert.edge_filter(count_filter)
        request = edge.CountRequest(exact=exact, filter=condition)
        found = self._shard(collection_name).use(lambda engine: engine.count(request))
        return models.CountResult(count=found)

    # Inside -----------------------------------------------------------------------------

    @contextmanager
    def _described(self, collection_name: str) -> Iterator[tuple[Shard, Description]]:
        """A collection's description, to be changed; written where the block ends well.

        Other clients of this process have the same shard, and wait meanwhile. Inside the block no
        collection is looked up: who renames several waits for this shard with that lock in hand.
        """
        shard = self._shard(collection_name)
        with shard.held():
            description = read_description(shard.folder)
            yield shard, description
            write_description(shard.folder, description)

    def _update(
        self, collection_name: str, operation: Any, *, written: int = 0
    ) -> models.UpdateResult:
        shard = self._shard(collection_name)

        def update(engine: edge.EdgeShard) -> None:
            self._check_current(collection_name, shard)
            shard.writes += 1
            engine.update(operation)
            shard.note_written(written)

        shard.use(update)
        return models.UpdateResult.model_construct(status=models.UpdateStatus.COMPLETED)
