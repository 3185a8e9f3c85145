"""`PassageStore`: passages and vectors in one collection, the same on every engine.

Each operation is a generator (see `steps`), so that one implementation serves threads and event
loops. What an engine would accept and be harmed by (NaN, an empty delete filter) is refused here,
so all engines refuse alike.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from qdrant_client import models
from qdrant_client.http.models import QueryResponse

from sbert_retriever.errors import (
    ContractError,
    InputError,
    StoreRequestError,
    StoreUnavailableError,
)
from sbert_retriever.index.batches import LARGEST_POINT_BYTES, estimated_bytes, request_slices
from sbert_retriever.index.connection import Connection
from sbert_retriever.index.contract import (
    Contract,
    profile_to_metadata,
)
from sbert_retriever.index.filters import is_match_all
from sbert_retriever.index.payload_indexes import payload_indexes
from sbert_retriever.index.points import (
    RESERVED,
    SOURCE_KEY,
    Draft,
    Fingerprint,
    Layout,
    check_id,
    point_id,
    stored_fingerprint,
    stored_id,
    to_hit,
    to_passage,
)
from sbert_retriever.index.steps import Steps, call
from sbert_retriever.types import Failure, Hit, Passage, Profile, ScoreKind

# As many as `sync` compares at once.
_PAGE = 1024
_DISTANCES: dict[str, models.Distance] = {
    "cosine": models.Distance.COSINE,
    "dot": models.Distance.DOT,
    "neg_l2": models.Distance.EUCLID,
    "neg_l1": models.Distance.MANHATTAN,
}
_SIMILARITIES: dict[models.Distance, ScoreKind] = {
    models.Distance.COSINE: "cosine",
    models.Distance.DOT: "dot",
    models.Distance.EUCLID: "neg_l2",
    models.Distance.MANHATTAN: "neg_l1",
}


@dataclass(frozen=True, kw_only=True)
class CollectionFacts:
    """What the engine says of a collection.

    Args:
        count: Passages.
        indexed: Vectors in the HNSW graph; the rest is searched exactly.
        dim: Width of the vectors.
        score_kind: Which score its distance gives.
        contract: What it was built with; None where another program made it.
        filterable: Payload fields with an index.
        metadata: Of the collection, as it lies there.
    """

    count: int
    indexed: int
    dim: int
    score_kind: ScoreKind
    contract: Contract | None
    filterable: Mapping[str, str]
    metadata: Mapping[str, Any]


class PassageStore:
    """Passages and their vectors in one collection.

    Args:
        connection: To an engine.
        collection_name: Which collection.
        layout: Where its points keep what.

    Attributes:
        score_kind: The scale of its scores; known once it was created or its facts were read.
        dim: Width of its vectors; likewise.
    """

    def __init__(
        self, connection: Connection, collection_name: str, layout: Layout | None = None
    ) -> None:
        self.connection = connection
        self.collection_name = collection_name
        self.layout = layout or Layout()
        self.score_kind: ScoreKind = "cosine"
        self.dim = 0
        self._pinned: str | None = None

    # Collection -------------------------------------------------------------------------

    def exists(self) -> Steps[bool]:
        """Whether the collection is there."""
        there: bool = yield self._call("collection_exists")
        return there

    def pin(self) -> Steps[None]:
        """Follow an alias once: when it is switched to another collection, this one stays.

        What was opened was opened with this collection's model, which need not be the other's.
        """
        if self.connection.embedded:
            return  # it holds what it opened
        try:
            known = yield call("get_aliases")
        except StoreRequestError:
            return  # a key for one collection may not be told of aliases
        names = {alias.alias_name: alias.collection_name for alias in known.aliases}
        self._pinned = names.get(self.collection_name)

    def create(self, contract: Contract) -> Steps[None]:
        """Create the collection with the contract in its metadata.

        Raises:
            InputError: `contract.filterable` names no path or no kind.
            ContractError: It was created meanwhile, with another contract.
            StoreRequestError: The server refuses it, or keeps no collection metadata.
        """
        model = contract.model
        indexes = payload_indexes(
            contract.filterable, self.layout, chunks=self.connection.engine == "server"
        )
        distance = _DISTANCES[model.similarity]
        vectors = {self.layout.vector_name: models.VectorParams(size=model.dim, distance=distance)}
        try:
            yield self._call(
                "create_collection", vectors_config=vectors, metadata=contract.to_metadata()
            )
        except StoreRequestError as error:
            yield from self._check_created(contract, error)
        else:
            yield from self._check_kept(contract)
        if self.connection.has_payload_indexes:
            for key, schema in indexes.items():
                yield self._call("create_payload_index", field_name=key, field_schema=schema)
        self.score_kind, self.dim = model.similarity, model.dim

    def facts(self) -> Steps[CollectionFacts]:
        """What the engine says of the collection."""
        info = yield self._call("get_collection")
        size, distance = self._vector_params(info.config.params.vectors)
        self.score_kind, self.dim = _SIMILARITIES[distance], size
        count = yield self._call("count", exact=True)
        return CollectionFacts(
            count=count.count,
            # A server counts vectors that were deleted or replaced until it tidies up.
            indexed=min(info.indexed_vectors_count or 0, count.count),
            dim=size,
            score_kind=self.score_kind,
            contract=Contract.from_metadata(info.config.metadata),
            filterable={k: str(v.data_type) for k, v in (info.payload_schema or {}).items()},
            metadata=info.config.metadata or {},
        )

    def save_profile(self, profile: Profile) -> Steps[None]:
        """Keep search settings with the collection, in the place of those before."""
        yield self._call("update_collection", metadata=profile_to_metadata(profile))

    def settle(self, *, bulk: bool = False) -> Steps[None]:
        """Put on disk what was written; after bulk writes, build the index too."""
        if self.connection.embedded:
            if bulk:
                yield self._call("optimize")
            yield self._call("flush")

    # Reading ----------------------------------------------------------------------------

    def search(
        self,
        vectors: npt.NDArray[np.float32],
        *,
        k: int,
        condition: models.Filter | None = None,
        params: models.SearchParams | None = None,
    ) -> Steps[list[list[Hit]]]:
        """The k nearest passages of each row of `vectors` (m, dim), best first."""
        using = self.layout.vector_name or None
        if self.connection.engine == "local":
            # It compares with every vector anyway, and warns of parameters that it does not need.
            params = None
        rows = vectors.tolist()
        if len(rows) == 1:
            found = yield self._call(
                "query_points",
                query=rows[0],
                using=using,
                query_filter=condition,
                limit=k,
                search_params=params,
                with_payload=True,
            )
            return [self._hits(found)]
        hits: list[list[Hit]] = []
        for part in _parts(rows):
            requests = [
                models.QueryRequest(
                    query=row,
                    using=using,
                    filter=condition,
                    limit=k,
                    params=params,
                    with_payload=True,
                )
                for row in part
            ]
            answers = yield self._call("query_batch_points", requests=requests)
            hits.extend(self._hits(answer) for answer in answers)
        return hits

    def get(self, ids: Sequence[str]) -> Steps[list[Passage]]:
        """Passages by id, in the order asked for; missing ones are left out."""
        records = yield from self._retrieve(ids)
        return [
            to_passage(records[i].payload, records[i].id, self.layout) for i in ids if i in records
        ]

    def vector(self, passage_id: str) -> Steps[npt.NDArray[np.float32] | None]:
        """The stored vector (dim,) of a passage, or None."""
        return (yield from self.vectors([passage_id])).get(passage_id)

    def vectors(self, ids: Sequence[str]) -> Steps[dict[str, npt.NDArray[np.float32]]]:
        """The stored vector (dim,) of each of these ids; ids the store lacks are left out."""
        records = yield from self._retrieve(ids, payload=[RESERVED], vectors=True)
        found = {i: self._vector_of(record) for i, record in records.items()}
        return {i: vector for i, vector in found.items() if vector is not None}

    def fingerprints(self, ids: Sequence[str]) -> Steps[dict[str, Fingerprint | None]]:
        """What each of these ids was written with; ids the store lacks are left out."""
        records = yield from self._retrieve(ids, payload=[RESERVED])
        return {i: stored_fingerprint(record.payload) for i, record in records.items()}

    def scroll(
        self,
        *,
        condition: models.Filter | None,
        limit: int,
        offset: str | int | None,
        vectors: bool = False,
    ) -> Steps[tuple[list[tuple[Passage, npt.NDArray[np.float32] | None]], str | int | None]]:
        """A page of passages (with vectors when asked) and where the next page begins."""
        records, following = yield self._call(
            "scroll",
            scroll_filter=condition,
            limit=limit,
            offset=offset,
            with_payload=True,
            with_vectors=vectors,
        )
        page = [
            (
                to_passage(record.payload, record.id, self.layout),
                self._vector_of(record) if vectors else None,
            )
            for record in records
        ]
        return page, following

    def count(self, condition: models.Filter | None) -> Steps[int]:
        """How many passages match."""
        answer: models.CountResult = yield self._call("count", count_filter=condition, exact=True)
        return answer.count

    def has_field(self, key: str) -> Steps[bool]:
        """Whether any point has a value (or an empty one) under a payload key."""
        empty = models.IsEmptyCondition(is_empty=models.PayloadField(key=key))
        return (yield from self.count(models.Filter(must_not=[empty]))) > 0

    def ids_of_source(self, source: str) -> Steps[list[str]]:
        """Ids of all passages of a source."""
        ids: list[str] = []
        offset = None
        while True:
            records, offset = yield self._call(
                "scroll",
                scroll_filter=source_is(source),
                limit=_PAGE,
                offset=offset,
                with_payload=[RESERVED],
                with_vectors=False,
            )
            ids.extend(stored_id(record.payload, record.id) for record in records)
            if offset is None:
                return ids

    # Writing ----------------------------------------------------------------------------

    def write(
        self, drafts: Sequence[Draft], vectors: npt.NDArray[np.float32]
    ) -> Steps[list[Failure]]:
        """Write passages with their vectors (n, dim); what is too big for a request comes back.

        Raises:
            StoreUnavailableError: With the ids that are in and those that are not.
        """
        sizes = [estimated_bytes(draft, vectors.shape[1]) for draft in drafts]
        fits = [n for n, size in enumerate(sizes) if size <= LARGEST_POINT_BYTES]
        rows = vectors.tolist()
        stored: list[str] = []
        for part in request_slices([sizes[n] for n in fits]):
            chosen = fits[part]
            points = [self._point(drafts[n], rows[n]) for n in chosen]
            try:
                yield self._call("upsert", points=points, wait=True)
            except StoreUnavailableError as error:
                written = set(stored)
                missing = [drafts[n].id for n in fits if drafts[n].id not in written]
                raise StoreUnavailableError(str(error), stored=stored, missing=missing) from error
            stored.extend(drafts[n].id for n in chosen)
        return _too_big(drafts, sizes)

    def rewrite(self, drafts: Sequence[Draft]) -> Steps[list[Failure]]:
        """Replace the payload of passages that are there, keeping their vectors.

        What is too big for a request comes back.
        """
        sizes = [estimated_bytes(draft, 0) for draft in drafts]
        fits = [n for n, size in enumerate(sizes) if size <= LARGEST_POINT_BYTES]
        for part in request_slices([sizes[n] for n in fits]):
            operations = [self._overwriting(drafts[n]) for n in fits[part]]
            yield self._call("batch_update_points", update_operations=operations)
        return _too_big(drafts, sizes)

    def delete_ids(self, ids: Sequence[str]) -> Steps[int]:
        """Delete passages by id; how many of them were there."""
        there = list((yield from self._retrieve(ids, payload=[RESERVED])))
        for part in _parts(there, _PAGE):
            selector = [point_id(i, self.layout) for i in part]
            yield self._call("delete", points_selector=selector)
        return len(there)

    def delete_where(self, condition: models.Filter) -> Steps[int]:
        """Delete passages by filter; how many there were.

        Raises:
            InputError: The filter has no condition, so it would delete everything.
        """
        if is_match_all(condition):
            raise InputError(
                "the filter has no condition and would delete every passage: give one, "
                "or call delete_all()"
            )
        count = yield from self.count(condition)
        yield self._call("delete", points_selector=condition)
        return count

    def delete_all(self) -> Steps[int]:
        """Delete every passage; how many there were."""
        deleted = 0
        while True:
            records, _ = yield self._call(
                "scroll", limit=_PAGE, with_payload=False, with_vectors=False
            )
            if not records:
                return deleted
            yield self._call("delete", points_selector=[record.id for record in records])
            deleted += len(records)

    # Inside -----------------------------------------------------------------------------

    def _check_created(self, contract: Contract, error: StoreRequestError) -> Steps[None]:
        """Pass where the collection is there after all.

        A request that was answered too late is sent again and refused, and another process may
        have been quicker.
        """
        if not (yield from self.exists()):
            raise error
        facts = yield from self.facts()
        if facts.contract != contract:
            raise ContractError(
                f"collection {self.collection_name!r} was created a moment ago with other "
                "settings: open it again"
            ) from error

    def _check_kept(self, contract: Contract) -> Steps[None]:
        """Refuse a server that takes a collection's metadata and does not keep it."""
        info = yield self._call("get_collection")
        if Contract.from_metadata(info.config.metadata) == contract:
            return
        yield self._call("delete_collection")
        raise StoreRequestError(
            "the server keeps no collection metadata, where the model's contract goes: Qdrant 1.16 "
            "or newer is needed"
        )

    def _call(self, method: str, **kwargs: Any) -> Any:
        return call(method, collection_name=self._pinned or self.collection_name, **kwargs)

    def _hits(self, answer: QueryResponse) -> list[Hit]:
        return [to_hit(point, self.layout, self.score_kind) for point in answer.points]

    def _point(self, draft: Draft, row: list[float]) -> models.PointStruct:
        vector: Any = {self.layout.vector_name: row} if self.layout.vector_name else row
        return models.PointStruct.model_construct(
            id=point_id(draft.id, self.layout), vector=vector, payload=draft.payload
        )

    def _overwriting(self, draft: Draft) -> models.OverwritePayloadOperation:
        payload = models.SetPayload(payload=draft.payload, points=[point_id(draft.id, self.layout)])
        return models.OverwritePayloadOperation(overwrite_payload=payload)

    def _retrieve(
        self, ids: Sequence[str], *, payload: bool | list[str] = True, vectors: bool = False
    ) -> Steps[dict[str, models.Record]]:
        found: dict[str, models.Record] = {}
        for part in _parts(list(dict.fromkeys(ids)), _PAGE):
            wanted = {str(point_id(check_id(i), self.layout)): i for i in part}
            records = yield self._call(
                "retrieve",
                ids=[point_id(i, self.layout) for i in part],
                with_payload=payload,
                with_vectors=vectors,
            )
            found.update({wanted[str(r.id)]: r for r in records})
        return found

    def _vector_of(self, record: models.Record) -> npt.NDArray[np.float32] | None:
        vector: Any = record.vector
        if isinstance(vector, dict):
            vector = vector.get(self.layout.vector_name)
        return None if vector is None else np.asarray(vector, dtype=np.float32)

    def _vector_params(self, vectors: Any) -> tuple[int, models.Distance]:
        if isinstance(vectors, models.VectorParams):
            vectors = {"": vectors}
        params = (vectors or {}).get(self.layout.vector_name)
        if params is None:
            raise InputError(
                f"collection {self.collection_name!r} has no vector {self.layout.vector_name!r} "
                f"(it has: {', '.join(repr(n) for n in vectors or {}) or 'none'}): name another"
            )
        return params.size, params.distance


def source_is(source: str) -> models.Filter:
    """The filter for one source."""
    match = models.MatchValue(value=source)
    return models.Filter(must=[models.FieldCondition(key=SOURCE_KEY, match=match)])


def _too_big(drafts: Sequence[Draft], sizes: Sequence[int]) -> list[Failure]:
    return [
        Failure(
            draft.id,
            f"may take {size:,} bytes in a request, over the limit of {LARGEST_POINT_BYTES:,}",
        )
        for draft, size in zip(drafts, sizes, strict=True)
        if size > LARGEST_POINT_BYTES
    ]


def _parts(items: Sequence[Any], size: int = 64) -> Iterator[Sequence[Any]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]
