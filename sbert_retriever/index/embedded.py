"""Qdrant Edge in a folder, in the shape of `qdrant_client.QdrantClient`.

The same method names, `qdrant_client.models` in and out, for the calls that this project makes.
What the engine lacks is kept beside it: a collection's metadata and parameters lie in
`collection.json`, written atomically, next to the shard.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
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
from sbert_retriever.index.edge import convert, graph, pointers
from sbert_retriever.index.edge.description import (
    DESCRIPTION_FILE,
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
    discard,
    release,
)


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
        return (self._place(collection_name) / DESCRIPTION_FILE).is_file()

    def get_collections(self) -> models.CollectionsResponse:
        """The names of all collections."""
        folders = [path.parent.name for path in self.folder.glob(f"*/{DESCRIPTION_FILE}")]
        found = pointers.read(self.folder).names(folders)
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
            config = convert.edge_config(
                vectors_config, sparse_vectors_config, hnsw_config=hnsw_config
            )
            place = self._new_place(collection_name)
            self._shards[collection_name] = acquire(place, config=config)
            description = Description(
                vectors=dumped(vectors_config),
                sparse_vectors=dumped(sparse_vectors_config or {}),
                metadata=dict(metadata or {}),
            )
            write_description(place, description)
        return True

    def delete_collection(self, collection_name: str) -> bool:
        """Delete a collection with all it holds; False where there is none."""
        with self._guard:
            self._check_open()
            if not self.collection_exists(collection_name):
                return False
            self._let_go(collection_name)
            # Refused where another process holds it.
            shard = acquire(self._existing(collection_name))
            with pointers.changing(self.folder) as changed:
                changed.drop(self._quoted(collection_name))
            release(shard)
            self._sweep()
        return True

    def rename_collections(
        self, names: Mapping[str, str], *, unwritten: Mapping[str, int] | None = None
    ) -> bool:
        """Give collections other names, all in one instant.

        Who has one of them open goes on reading what it opened, and can no longer write to it
        under the name that it opened it by.

        Args:
            names: {new name: the name it has now}. Names that only stand on the right are given up.
            unwritten: {name of now: its `writes`}; where there were more since, nothing is done.

        Returns:
            Whether it was done.

        Raises:
            StoreError: A collection would be left without a name.
            StoreLockedError: Another process holds one of them.
        """
        with self._guard, ExitStack() as held:
            self._check_open()
            self._check_none_lost(names)
            shards = {name: self._shard(name) for name in names.values()}
            _hold(held, shards.values())
            if any(shards[name].writes != writes for name, writes in (unwritten or {}).items()):
                return False
            with pointers.changing(self.folder) as changed:
                changed.point(
                    {self._quoted(new): self._place(now).name for new, now in names.items()}
                )
        for name in {*names, *names.values()}:
            self._let_go(name)
        return True

    @contextmanager
    def frozen(self, collection_names: Sequence[str]) -> Iterator[dict[str, Path]]:
        """The folders of collections, flushed, which nobody reads or writes meanwhile."""
        with self._guard, ExitStack() as held:
            shards = {name: self._shard(name) for name in collection_names}
            _hold(held, shards.values())
            for shard in shards.values():
                shard.use(lambda engine: engine.flush())
            yield {name: shard.folder for name, shard in shards.items()}

    def adopt_collections(self, folders: Mapping[str, Path]) -> None:
        """Take folders on the same disk as collections; those of these names before are dropped.

        Several come in one instant where they replace others.

        Raises:
            StoreLockedError: Another process holds one of those before.
        """
        with self._guard:
            self._check_open()
            replaced = [name for name in folders if self.collection_exists(name)]
            for name in replaced:
                self._shard(name)  # refused where another process holds it
            with pointers.changing(self.folder) as changed:
                for name in replaced:
                    changed.drop(self._quoted(name))
                names = {self._quoted(name): folder for name, folder in folders.items()}
                places = {name: changed.folder(name) for name in names}
                for name, folder in names.items():
                    self._move_in(folder, self.folder / places[name])
                changed.point(places)
            for name in replaced:
                self._let_go(name)
            self._sweep()

    def _move_in(self, folder: Path, place: Path) -> None:
        if not discard(place):
            raise StoreError(f"{place} is in use: close what holds it and run this again")
        folder.rename(place)

    def writes(self, collection_name: str) -> int:
        """How many updates a collection has taken since this process opened it."""
        return self._shard(collection_name).writes

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
            indexed_vectors_count=graph.indexed(info, description, points),
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
        if not (force or graph.worth_building(info, description, points)):
            return False
        shard.optimize()
        if description.sparse_vectors:
            with self._described(collection_name) as (_, description):
                indexed = shard.use(lambda engine: engine.info()).indexed_vectors_count
                description.in_graph = max(indexed - points, 0)
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

    def _update(self, collection_name: str, operation: Any) -> models.UpdateResult:
        shard = self._shard(collection_name)

        def update(engine: edge.EdgeShard) -> None:
            self._check_current(collection_name, shard)
            shard.writes += 1
            engine.update(operation)

        shard.use(update)
        return models.UpdateResult.model_construct(status=models.UpdateStatus.COMPLETED)

    def _shard(self, collection_name: str) -> Shard:
        with self._guard:
            self._check_open()
            shard = self._shards.get(collection_name)
            if shard is None:
                shard = self._shards[collection_name] = self._acquired(collection_name)
            return shard

    def _acquired(self, collection_name: str) -> Shard:
        place = self._existing(collection_name)
        try:
            return acquire(place)
        except StoreError:
            # The name may have been given to another one between the two steps.
            if self._place(collection_name) == place:
                raise
            return self._acquired(collection_name)

    def _check_current(self, collection_name: str, shard: Shard) -> None:
        """Refuse to write where the name means another collection by now."""
        if self._place(collection_name).resolve() != shard.folder:
            raise StoreError(
                f"collection {collection_name!r} in {self.folder} was switched to another one "
                "since it was opened here: open it again to write to that"
            )

    def _let_go(self, collection_name: str) -> None:
        if (shard := self._shards.pop(collection_name, None)) is not None:
            release(shard)

    def _check_none_lost(self, names: Mapping[str, str]) -> None:
        for name in names:
            if self.collection_exists(name) and name not in names.values():
                raise StoreError(
                    f"collection {name!r} would be left without a name: give it one, or drop it "
                    "first"
                )

    def _new_place(self, collection_name: str) -> Path:
        """Where a collection is to be created, known as its place from now on."""
        name = self._quoted(collection_name)
        place = self._place(collection_name)
        if place.name != name:
            with pointers.changing(self.folder) as changed:
                changed.point({name: place.name})
        return place

    def _sweep(self) -> None:
        """Delete the folders of dropped collections that nobody holds any more."""
        with pointers.changing(self.folder) as changed:
            changed.dropped = [f for f in changed.dropped if not discard(self.folder / f)]

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
        return self.folder / pointers.read(self.folder).folder(self._quoted(collection_name))

    def _quoted(self, collection_name: str) -> str:
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
        return name


def _hold(held: ExitStack, shards: Iterable[Shard]) -> None:
    """Hold several shards, always in the same order, so that two who do so never wait in a ring."""
    for shard in sorted(shards, key=lambda shard: shard.folder):
        held.enter_context(shard.held())


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
