"""Qdrant Edge in a folder, in the shape of `qdrant_client.QdrantClient`.

The same method names, `qdrant_client.models` in and out, for the calls that this project makes.
What the engine lacks is kept beside it: a collection's metadata and parameters lie in
`collection.json`, written atomically, next to the shard.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import threading
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import qdrant_edge as edge
from qdrant_client import models

# `models` has another class of this name in front of the one that queries return.
from qdrant_client.http.models import QueryResponse

from sbert_retriever.errors import (
    CollectionNotFoundError,
    InputError,
    InputTypeError,
    StoreClosedError,
    StoreError,
)
from sbert_retriever.index.edge import convert
from sbert_retriever.index.edge.shard import (
    DESCRIPTION_FILE,
    ROOM_TO_WRITE,
    Shard,
    acquire,
    check_room,
    exchange,
    release,
)

# The engine leaves fewer unindexed vectors than this as they are: exact search is fast enough.
_UNINDEXED_BYTES = 10_000_000
_BYTES_PER_COMPONENT = 4


@dataclass
class _Description:
    """What `collection.json` holds."""

    vectors: dict[str, Any]
    sparse_vectors: dict[str, Any] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)
    payload_schema: dict[str, str] = field(default_factory=dict)


class EmbeddedClient:
    """Collections in one folder, each an Edge shard.

    Args:
        folder: Where the collections lie; None is a private temporary folder that `close`
            removes.

    Raises:
        StoreError: The location is a file, or no path that this system has.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._temporary = tempfile.mkdtemp(prefix="sbert-retriever-") if folder is None else None
        self.folder = _usable(Path(self._temporary or folder or "."))
        self._shards: dict[str, Shard] = {}
        self._guard = threading.RLock()
        self._closed = False
        self._finalizer = weakref.finalize(
            self, _clean_up, self._shards, self._temporary, os.getpid()
        )

    def close(self) -> None:
        """Flush and let go of the folder; a second call does nothing."""
        with self._guard:
            self._closed = True
            self._finalizer()

    # Collections ------------------------------------------------------------------------

    def collection_exists(self, collection_name: str) -> bool:
        """Whether there is a collection of that name."""
        place = self._place(collection_name)
        if not place.is_dir() and _aside(place).is_dir():
            _aside(place).rename(place)
        return (place / DESCRIPTION_FILE).is_file()

    def get_collections(self) -> models.CollectionsResponse:
        """The names of all collections."""
        names = (path.parent.name for path in self.folder.glob(f"*/{DESCRIPTION_FILE}"))
        found = sorted(name for name in names if "+" not in name)
        return models.CollectionsResponse(
            collections=[models.CollectionDescription(name=unquote(name)) for name in found]
        )

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
            StoreError: It exists.
        """
        with self._guard:
            self._check_open()
            if self.collection_exists(collection_name):
                raise StoreError(
                    f"collection {collection_name!r} exists in {self.folder}; if another process "
                    "created it just now, run this again"
                )
            place = self._place(collection_name)
            config = convert.edge_config(
                vectors_config, sparse_vectors_config, hnsw_config=hnsw_config
            )
            self._shards[collection_name] = acquire(place, config=config)
            description = _Description(
                vectors=_dumped(vectors_config),
                sparse_vectors=_dumped(sparse_vectors_config or {}),
                metadata=dict(metadata or {}),
            )
            _write(place, description)
        return True

    def delete_collection(self, collection_name: str) -> bool:
        """Delete a collection with all it holds; False where there is none."""
        with self._guard:
            self._check_open()
            place = self._place(collection_name)
            if not self.collection_exists(collection_name):
                return False
            shard = self._shards.pop(collection_name, None) or acquire(place)
            (place / DESCRIPTION_FILE).unlink()
            release(shard)
            shutil.rmtree(place, ignore_errors=True)
        return True

    def replace_collection(self, collection_name: str, by: str) -> bool:
        """Put one collection in the place of another, which is deleted.

        Two renames; where a process was killed between them, the next one that asks for the
        collection puts the old one back.

        Raises:
            StoreLockedError: Another process holds one of them.
            StoreError: Something else in this process has one of them open.
        """
        with self._guard:
            self._check_open()
            old, new = self._existing(collection_name), self._existing(by)
            for name in (collection_name, by):
                if (shard := self._shards.pop(name, None)) is not None:
                    release(shard)
            _remove(_aside(old))
            exchange(old, new, aside=_aside(old))
            _remove(_aside(old))
        return True

    def get_collection(self, collection_name: str) -> models.CollectionInfo:
        """Parameters, metadata and counts of a collection."""
        description = _read(self._existing(collection_name))
        shard = self._shard(collection_name)
        info = shard.use(lambda engine: engine.info())
        points = self.count(collection_name).count
        vectors = {n: models.VectorParams(**v) for n, v in description.vectors.items()}
        sparse = {n: models.SparseVectorParams(**v) for n, v in description.sparse_vectors.items()}
        return models.CollectionInfo(
            status=models.CollectionStatus.GREEN,
            optimizer_status=models.OptimizersStatusOneOf.OK,
            points_count=points,
            indexed_vectors_count=min(info.indexed_vectors_count, points),
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
        with self._guard:
            place = self._existing(collection_name)
            description = _read(place)
            description.metadata.update(metadata)
            _write(place, description)
        return True

    def create_payload_index(
        self, collection_name: str, *, field_name: str, field_schema: Any
    ) -> models.UpdateResult:
        """Index a payload field, so that filters on it are fast."""
        schema = convert.edge_payload_schema(field_schema)
        operation = edge.UpdateOperation.create_field_index(field_name, schema)
        with self._guard:
            result = self._update(collection_name, operation)
            place = self._place(collection_name)
            description = _read(place)
            kind = models.PayloadSchemaType(getattr(field_schema, "type", field_schema))
            description.payload_schema[field_name] = kind.value
            _write(place, description)
        return result

    def optimize(self, collection_name: str) -> bool:
        """Build the HNSW graph where enough vectors lack one; True where it was built."""
        info = self.get_collection(collection_name)
        unindexed = (info.points_count or 0) - (info.indexed_vectors_count or 0)
        vectors = info.config.params.vectors
        widths = [v.size for v in vectors.values()] if isinstance(vectors, dict) else []
        if unindexed * sum(widths) * _BYTES_PER_COMPONENT < _UNINDEXED_BYTES:
            return False
        self._shard(collection_name).optimize()
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
        return self._update(collection_name, edge.UpdateOperation.upsert_points(rows))

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
        return self._update(collection_name, operation)

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

    def _update(self, collection_name: str, operation: Any) -> models.UpdateResult:
        self._shard(collection_name).use(lambda engine: engine.update(operation))
        return models.UpdateResult.model_construct(status=models.UpdateStatus.COMPLETED)

    def _shard(self, collection_name: str) -> Shard:
        with self._guard:
            self._check_open()
            shard = self._shards.get(collection_name)
            if shard is None:
                shard = self._shards[collection_name] = acquire(self._existing(collection_name))
            return shard

    def _check_open(self) -> None:
        if self._closed:
            raise StoreClosedError(f"{self.folder} is closed: open the retriever again")

    def _existing(self, collection_name: str) -> Path:
        if not self.collection_exists(collection_name):
            names = ", ".join(repr(c.name) for c in self.get_collections().collections)
            raise CollectionNotFoundError(
                f"there is no collection {collection_name!r} in {self.folder} "
                f"(it has: {names or 'none'})"
            )
        return self._place(collection_name)

    def _place(self, collection_name: str) -> Path:
        if not isinstance(collection_name, str):
            raise InputTypeError(
                f"a collection name is {type(collection_name).__name__}, expected str"
            )
        try:
            name = quote(collection_name, safe=" ")
        except UnicodeEncodeError:
            name = ""
        if name in ("", ".", "..") or len(name) > 200:
            raise InputError(
                f"{collection_name[:80]!r} is not a collection name: use 1 to 200 letters and "
                "digits (other characters count as several)"
            )
        return self.folder / name


def _usable(folder: Path) -> Path:
    try:
        folder = folder.expanduser()
        folder.stat()
    except FileNotFoundError:
        return folder
    except (OSError, RuntimeError, ValueError) as error:
        # A user that is not there, a NUL, a name that is too long.
        reason = getattr(error, "strerror", None) or str(error)
        raise StoreError(
            f"{str(folder)[:200]!r} cannot be a folder here ({reason}): give another"
        ) from error
    if not folder.is_dir():
        raise StoreError(f"{folder} is a file: give a folder, ':memory:' or a URL")
    return folder


def _clean_up(shards: dict[str, Shard], temporary: str | None, owner: int) -> None:
    for name in list(shards):
        release(shards.pop(name))
    # A forked child has a copy of this, and the folder is still the parent's.
    if temporary is not None and os.getpid() == owner:
        shutil.rmtree(temporary, ignore_errors=True)


def _aside(place: Path) -> Path:
    """Where a collection lies while another takes its place; no collection's name gives a "+"."""
    return place.with_name(f"{place.name}+replaced")


def _remove(place: Path) -> None:
    """Delete a collection's folder, the description first: without it, it is no collection."""
    (place / DESCRIPTION_FILE).unlink(missing_ok=True)
    shutil.rmtree(place, ignore_errors=True)


def _dumped(parameters: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: value.model_dump(mode="json", exclude_none=True) for name, value in parameters.items()
    }


def _read(place: Path) -> _Description:
    try:
        return _Description(**json.loads((place / DESCRIPTION_FILE).read_text(encoding="utf-8")))
    except (ValueError, TypeError) as error:
        raise StoreError(f"{place / DESCRIPTION_FILE} is damaged ({error}): restore it") from error


def _write(place: Path, description: _Description) -> None:
    """Write whole or not at all: a new file, synced, takes the old one's name."""
    target = place / DESCRIPTION_FILE
    draft = target.with_suffix(".new")
    with draft.open("w", encoding="utf-8") as file:
        json.dump(asdict(description), file, indent=2)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(target)
    if os.name == "posix":
        directory = os.open(place, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
