"""`PassageStore`: passages and vectors in one collection, the same on every engine.

Each operation is a generator (see `steps`), so that one implementation serves threads and event
loops. What an engine would accept and be harmed by (NaN, an empty delete filter) is refused here,
so all engines refuse alike.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

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
from sbert_retriever.index.contract import Contract, profile_to_metadata
from sbert_retriever.index.filters import is_match_all
from sbert_retriever.index.payload_indexes import payload_indexes
from sbert_retriever.index.points import (
    RESERVED,
    SOURCE_KEY,
    SPARSE_NAME,
    TENANT_KEY,
    TOKENS_NAME,
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
from sbert_retriever.index.steps import Call, Steps, call, work
from sbert_retriever.index.storage import Storage, named_vectors, quantized_search, storage_of
from sbert_retriever.index.tenants import checked_tenant, tenant_index, within_tenant
from sbert_retriever.index.vectors import check_sparse
from sbert_retriever.sparse import encoder_of_identity
from sbert_retriever.types import (
    Failure,
    Hit,
    Passage,
    Profile,
    ScoreKind,
    SparseEncoder,
    SparseIdentity,
    SparseVector,
)

EncodeTokens: TypeAlias = Callable[[list[str]], list[npt.NDArray[np.float32]]]

# Calls that can be sent to the parts of one tenant alone, and those that take a time limit.
_TO_SHARDS = {"query_points", "retrieve", "scroll", "count", "upsert", "delete"}
_TIMED = {*_TO_SHARDS, "query_batch_points", "batch_update_points"}
# As many as `sync` compares at once.
_PAGE = 1024
# Passages whose token vectors are held at once: half a megabyte each, ten times that in a request.
_WITH_TOKENS = 16
_NO_TOKENS = np.empty((0, 0), dtype=np.float32)
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
        storage: How it keeps its vectors.
        token_width: Of its token vectors; None where it keeps none.
    """

    count: int
    indexed: int
    dim: int
    score_kind: ScoreKind
    contract: Contract | None
    filterable: Mapping[str, str]
    metadata: Mapping[str, Any]
    storage: Storage
    token_width: int | None = None


class PassageStore:
    """Passages and their vectors in one collection.

    Args:
        connection: To an engine.
        collection_name: Which collection.
        layout: Where its points keep what.
        tenant: Whose passages alone are seen, written and deleted; None is the whole collection.

    Attributes:
        score_kind: The scale of its scores; known once it was created or its facts were read.
        dim: Width of its vectors; likewise.
        tokens: Whether it keeps token vectors; likewise.
        encode_tokens: Gives those of passages, one float32 (tokens, width) a text.
    """

    def __init__(
        self,
        connection: Connection,
        collection_name: str,
        layout: Layout | None = None,
        *,
        tenant: str | None = None,
    ) -> None:
        self.connection = connection
        self.collection_name = collection_name
        self.layout = layout or Layout()
        self.tenant = checked_tenant(tenant, self.layout)
        self.score_kind: ScoreKind = "cosine"
        self.dim = 0
        self.tokens = False
        self.encode_tokens: EncodeTokens | None = None
        self._sparse: SparseEncoder | None = None
        self._sparse_identity: SparseIdentity | None = None
        self._quantized = False
        self._half = False
        self._sharded = False
        self._keys: frozenset[Any] = frozenset()
        self._tenants_indexed = False
        self._timeout_s: float | None = None
        self._pinned: str | None = None

    # Collection -------------------------------------------------------------------------

    @property
    def half(self) -> bool:
        """Whether the numbers of vectors are kept as they are in float16; cosine makes them small.

        Known once it was created or its facts were read.
        """
        return self._half and self.score_kind != "cosine"

    @property
    def sparse_identity(self) -> SparseIdentity | None:
        """What makes its sparse vectors; None where it has none."""
        return self._sparse_identity

    def bind_sparse(self, encoder: SparseEncoder) -> None:
        """Take an encoder for the collection's sparse vectors, in the place of its own.

        Raises:
            ContractError: It is another than the collection was built with.
        """
        if encoder.identity != self._sparse_identity:
            raise ContractError(
                f"words were asked for from {_described(encoder.identity)}, and collection "
                f"{self.collection_name!r} has {_described(self._sparse_identity)}: open it as it "
                "is, or index its texts into a new one"
            )
        self._sparse = encoder

    def sparse_encoder(self) -> SparseEncoder:
        """The encoder of the collection's sparse vectors, made when first needed.

        Raises:
            InputError: The collection has none.
            ModelError: It cannot be made from what the collection remembers.
        """
        if self._sparse_identity is None:
            raise InputError(
                f"collection {self.collection_name!r} has no sparse vectors: index its texts into "
                "a new one with sparse='bm25'"
            )
        if self._sparse is None:
            self._sparse = encoder_of_identity(self._sparse_identity)
        return self._sparse

    def exists(self) -> Steps[bool]:
        """Whether the collection is there."""
        there: bool = yield self.call("collection_exists")
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

    def create(
        self, contract: Contract, storage: Storage | None = None, *, token_width: int | None = None
    ) -> Steps[None]:
        """Create the collection with the contract in its metadata.

        Args:
            contract: What it is built with.
            storage: How it keeps its vectors.
            token_width: Of the token vectors, where it keeps them.

        Raises:
            InputError: `contract.filterable` names no path or no kind, or `storage` asks for what
                this engine has not.
            ContractError: It was created meanwhile, with another contract.
            StoreRequestError: The server refuses it, or keeps no collection metadata.
        """
        model = contract.model
        indexes = payload_indexes(
            contract.filterable, self.layout, chunks=self.connection.engine == "server"
        )
        kept = storage or Storage()
        params = kept.vector_params(size=model.dim, distance=_DISTANCES[model.similarity])
        vectors = {self.layout.vector_name: params}
        if token_width is not None:
            vectors[TOKENS_NAME] = kept.token_params(width=token_width)
        more = kept.cluster_params(server=self.connection.engine == "server")
        if sparse := _sparse_params(contract):
            more["sparse_vectors_config"] = sparse
        try:
            yield self.call(
                "create_collection",
                vectors_config=vectors,
                metadata=contract.to_metadata(),
                **more,
            )
        except StoreRequestError as error:
            yield from self._check_created(contract, error)
        else:
            yield from self._check_kept(contract)
        if self.connection.has_payload_indexes:
            for key, schema in indexes.items():
                yield self.call("create_payload_index", field_name=key, field_schema=schema)
        if self.tenant is not None or kept.shard_by_tenant:
            yield from self.index_tenants()
        self.score_kind, self.dim = model.similarity, model.dim
        self._sparse_identity = contract.sparse
        self._quantized = params.quantization_config is not None
        self._half = kept.datatype == "float16"
        self.tokens = token_width is not None
        self._sharded = kept.shard_by_tenant

    def facts(self) -> Steps[CollectionFacts]:
        """What the engine says of the collection."""
        info = yield self.call("get_collection")
        params = self._vector_params(info.config)
        server = self.connection.engine == "server"
        storage = storage_of(info.config, vector_name=self.layout.vector_name, server=server)
        self.score_kind, self.dim = _SIMILARITIES[params.distance], params.size
        self._quantized = storage.quantization is not None
        self._half = storage.datatype == "float16"
        self.tokens = storage.tokens
        self._sharded = storage.shard_by_tenant
        self._tenants_indexed = TENANT_KEY in (info.payload_schema or {})
        count = yield from self.count(None)
        contract = Contract.from_metadata(info.config.metadata)
        self._sparse_identity = contract.sparse if contract is not None else None
        # Sparse vectors are indexed as they come, and counted with the others.
        sparse = (info.points_count or 0) if info.config.params.sparse_vectors else 0
        indexed = max((info.indexed_vectors_count or 0) - sparse, 0)
        return CollectionFacts(
            count=count,
            # A server counts vectors that were deleted or replaced until it tidies up.
            indexed=min(indexed, count),
            dim=params.size,
            score_kind=self.score_kind,
            contract=contract,
            filterable={k: str(v.data_type) for k, v in (info.payload_schema or {}).items()},
            metadata=info.config.metadata or {},
            storage=storage,
            token_width=_token_width(info.config),
        )

    def index_tenants(self) -> Steps[None]:
        """Have the engine keep each tenant's points together, where it does not yet."""
        if self.connection.has_payload_indexes and not self._tenants_indexed:
            for key, schema in tenant_index().items():
                yield self.call("create_payload_index", field_name=key, field_schema=schema)
        self._tenants_indexed = True

    def has_tenants(self) -> Steps[bool]:
        """Whether tenants have, or had, passages in the collection; its facts have been read."""
        if self._tenants_indexed:
            return True
        try:
            return (yield from self.has_field(TENANT_KEY))
        except StoreRequestError:
            # Some servers refuse a filter on a field without an index, and tenants have theirs.
            return False

    def for_tenant(self, tenant: str) -> PassageStore:
        """The same collection, for one tenant.

        Raises:
            InputError: This one is bound to a tenant, or the name is empty.
            InputTypeError: The tenant is no string.
        """
        if self.tenant is not None:
            raise InputError(
                f"this is bound to tenant {self.tenant!r}: open the collection anew for another"
            )
        bound = copy(self)
        bound.tenant = checked_tenant(tenant, self.layout)
        return bound

    def find_part(self) -> Steps[bool]:
        """Whether there can be anything here: where each tenant has a part, there may be none yet.

        It is made at the first write: a server refuses what is sent to a part that is not there,
        and a misspelt tenant in a search should leave nothing behind.
        """
        if not self._sharded or self._in_sight():
            return True
        known = yield self.call("list_shard_keys")
        self._keys = frozenset(entry.key for entry in known.shard_keys or ())
        return self._in_sight()

    def _in_sight(self) -> bool:
        return bool(self._keys) if self.tenant is None else self.tenant in self._keys

    def within_time(self, timeout_s: float | None) -> PassageStore:
        """The same collection, whose server has so many seconds for a request."""
        if timeout_s is None or self.connection.engine != "server":
            return self
        hurried = copy(self)
        hurried._timeout_s = timeout_s
        return hurried

    def save_profile(self, profile: Profile) -> Steps[None]:
        """Keep search settings with the collection, in the place of those before.

        Raises:
            InputError: This is bound to a tenant, and the settings are everybody's.
        """
        if self.tenant is not None:
            raise InputError(
                f"this is bound to tenant {self.tenant!r}, and a profile is the whole collection's:"
                " save it without tenant="
            )
        yield self.call("update_collection", metadata=profile_to_metadata(profile))

    def save_companions(self, metadata: Mapping[str, Any]) -> Steps[None]:
        """Keep what else of ours goes with a collection, in the place of what is there of it."""
        if metadata:
            yield self.call("update_collection", metadata=dict(metadata))

    def optimize(self) -> Steps[None]:
        """Build the graph of what lacks it and tidy up what was deleted, however little it is.

        A server does so by itself, when it finds it worth it.
        """
        if self.connection.embedded:
            yield self.call("optimize", force=True)
            yield self.call("flush")

    def settle(self, *, bulk: bool = False) -> Steps[None]:
        """Put on disk what was written; after bulk writes, build the index too."""
        if self.connection.embedded:
            if bulk:
                yield self.call("optimize")
            yield self.call("flush")

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
        if not (yield from self.find_part()):
            return [[] for _ in vectors]
        using = self.layout.vector_name or None
        params = self._params(params)
        rows = vectors.tolist()
        if len(rows) == 1:
            found = yield self.call(
                "query_points",
                query=rows[0],
                using=using,
                query_filter=self.within(condition),
                limit=k,
                search_params=params,
                with_payload=True,
            )
            return [self._hits(found)]
        hits: list[list[Hit]] = []
        for part in _parts(rows):
            requests = [
                self.request(row, k=k, condition=condition, params=params, payload=True)
                for row in part
            ]
            answers = yield from self.answers(requests)
            hits.extend(self._hits(answer) for answer in answers)
        return hits

    def answers(self, requests: Sequence[models.QueryRequest]) -> Steps[list[QueryResponse]]:
        """What is found for each of several searches."""
        if not requests or not (yield from self.find_part()):
            return [QueryResponse(points=[]) for _ in requests]
        found: list[QueryResponse] = yield self.call("query_batch_points", requests=requests)
        return found

    def request(
        self,
        row: list[float],
        *,
        k: int,
        condition: models.Filter | None = None,
        params: models.SearchParams | None = None,
        payload: bool = False,
    ) -> models.QueryRequest:
        """A search by one dense vector, for a batch."""
        return models.QueryRequest(
            query=row,
            using=self.layout.vector_name or None,
            filter=self.within(condition),
            limit=k,
            params=self._params(params),
            with_payload=payload,
            shard_key=self.shard_key,
        )

    @property
    def shard_key(self) -> str | None:
        """The part of the collection that calls are sent to; None is all of them."""
        return self.tenant if self.tenant in self._keys else None

    def _params(self, params: models.SearchParams | None) -> models.SearchParams | None:
        """What the engine is told of how to search."""
        if self.connection.engine == "local":
            # It compares with every vector anyway, and warns of parameters that it does not need.
            return None
        return quantized_search(params) if self._quantized else params

    def token_scores(
        self, rows: npt.NDArray[np.float32], ids: Sequence[str]
    ) -> Steps[dict[str, float]]:
        """How passages compare with a query's token vectors (tokens, width), by MaxSim.

        Ids without token vectors are left out.
        """
        points = {str(self.point_id(i)): i for i in ids}
        chosen = models.HasIdCondition(has_id=list(map(self.point_id, ids)))
        found = yield self.call(
            "query_points",
            query=rows.tolist(),
            using=TOKENS_NAME,
            query_filter=models.Filter(must=[chosen]),
            limit=max(len(ids), 1),
            with_payload=False,
        )
        return {points[str(point.id)]: float(point.score) for point in found.points}

    def records(self, points: Sequence[Any]) -> Steps[list[models.Record]]:
        """Points by the engine's ids, with their payload; missing ones are left out."""
        found: list[models.Record] = []
        for part in _parts(points, _PAGE):
            found += yield self.call(
                "retrieve", ids=list(part), with_payload=True, with_vectors=False
            )
        return found

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
        records, following = yield self.call(
            "scroll",
            scroll_filter=self.within(condition),
            limit=limit,
            offset=offset,
            with_payload=True,
            with_vectors=self._dense_only() if vectors else False,
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
        if not (yield from self.find_part()):
            return 0
        answer: models.CountResult = yield self.call(
            "count", count_filter=self.within(condition), exact=True
        )
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
            records, offset = yield self.call(
                "scroll",
                scroll_filter=self.within(source_is(source)),
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
            InputError: Each tenant has a part, and this is bound to none.
            StoreUnavailableError: With the ids that are in and those that are not.
        """
        yield from self._open_part()
        stored: list[str] = []
        refused: list[Failure] = []
        size = _WITH_TOKENS if self.tokens else max(len(drafts), 1)
        try:
            for start in range(0, len(drafts), size):
                part = slice(start, start + size)
                refused += yield from self._write(drafts[part], vectors[part], stored)
        except StoreUnavailableError as error:
            settled = {*stored, *(failure.id for failure in refused)}
            missing = [draft.id for draft in drafts if draft.id not in settled]
            raise StoreUnavailableError(str(error), stored=stored, missing=missing) from error
        return refused

    def _write(
        self, drafts: Sequence[Draft], vectors: npt.NDArray[np.float32], stored: list[str]
    ) -> Steps[list[Failure]]:
        """Write passages whose vectors of all kinds are held at once; adds what went in."""
        sparse = yield from self._sparse_vectors(drafts)
        tokens = yield from self._token_vectors(drafts)
        sizes = [
            estimated_bytes(draft, row.size + token_rows.size, len(terms.indices) if terms else 0)
            for draft, row, token_rows, terms in zip(drafts, vectors, tokens, sparse, strict=True)
        ]
        fits = [n for n, size in enumerate(sizes) if size <= LARGEST_POINT_BYTES]
        rows = vectors.tolist()
        for part in request_slices([sizes[n] for n in fits]):
            chosen = fits[part]
            points = [self._point(drafts[n], rows[n], sparse[n], tokens[n]) for n in chosen]
            yield self.call("upsert", points=points, wait=True)
            stored.extend(drafts[n].id for n in chosen)
        return _too_big(drafts, sizes)

    def rewrite(self, drafts: Sequence[Draft]) -> Steps[list[Failure]]:
        """Replace the payload of passages that are there, keeping their vectors.

        What is too big for a request comes back.
        """
        yield from self._open_part()
        sizes = [estimated_bytes(draft, 0) for draft in drafts]
        fits = [n for n, size in enumerate(sizes) if size <= LARGEST_POINT_BYTES]
        for part in request_slices([sizes[n] for n in fits]):
            operations = [self._overwriting(drafts[n]) for n in fits[part]]
            yield self.call("batch_update_points", update_operations=operations)
        return _too_big(drafts, sizes)

    def delete_ids(self, ids: Sequence[str]) -> Steps[int]:
        """Delete passages by id; how many of them were there."""
        if not (yield from self._has_part()):
            return 0
        there = list((yield from self._retrieve(ids, payload=[RESERVED])))
        for part in _parts(there, _PAGE):
            selector = [self.point_id(i) for i in part]
            yield self.call("delete", points_selector=selector)
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
        if not (yield from self._has_part()):
            return 0
        count = yield from self.count(condition)
        yield self.call("delete", points_selector=self.within(condition))
        return count

    def delete_all(self) -> Steps[int]:
        """Delete every passage; how many there were."""
        if not (yield from self._has_part()):
            return 0
        deleted = 0
        while True:
            records, _ = yield self.call(
                "scroll",
                scroll_filter=self.within(None),
                limit=_PAGE,
                with_payload=False,
                with_vectors=False,
            )
            if not records:
                return deleted
            yield self.call("delete", points_selector=[record.id for record in records])
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
        info = yield self.call("get_collection")
        if Contract.from_metadata(info.config.metadata) == contract:
            return
        yield self.call("delete_collection")
        raise StoreRequestError(
            "the server keeps no collection metadata, where the model's contract goes: Qdrant 1.16 "
            "or newer is needed"
        )

    def call(self, method: str, **kwargs: Any) -> Call:
        """A call of the client on this collection."""
        if self.shard_key is not None and method in _TO_SHARDS:
            kwargs["shard_key_selector"] = self.shard_key
        if self._timeout_s is not None and method in _TIMED:
            # Qdrant counts whole seconds.
            kwargs["timeout"] = max(math.ceil(self._timeout_s), 1)
        asked = call(method, collection_name=self._pinned or self.collection_name, **kwargs)
        return replace(asked, deadline_s=self._timeout_s)

    def _hits(self, answer: QueryResponse) -> list[Hit]:
        return [to_hit(point, self.layout, self.score_kind) for point in answer.points]

    def within(self, condition: models.Filter | None) -> models.Filter | None:
        """A condition that holds for the tenant's passages alone."""
        return within_tenant(self.tenant, condition)

    def point_id(self, passage_id: str) -> str | int:
        """The engine's id of a passage."""
        return point_id(passage_id, self.layout, self.tenant)

    def _payload(self, draft: Draft) -> dict[str, Any]:
        if self.tenant is None:
            return draft.payload
        return {**draft.payload, RESERVED: {**draft.payload[RESERVED], "tenant": self.tenant}}

    def _has_part(self) -> Steps[bool]:
        """`find_part`, before anything is changed.

        Raises:
            InputError: Each tenant has a part, and this is bound to none.
        """
        if self._sharded and self.tenant is None:
            raise InputError(
                f"collection {self.collection_name!r} has a part for each tenant, and this is "
                "bound to none: write and delete with tenant="
            )
        return (yield from self.find_part())

    def _open_part(self) -> Steps[None]:
        """Make the tenant's own part, where each has one and it is not there."""
        if (yield from self._has_part()):
            return
        try:
            yield self.call("create_shard_key", shard_key=self.tenant)
        except StoreRequestError as error:
            if not (yield from self.find_part()):  # another process may have been quicker
                raise StoreRequestError(
                    f"there is no part for tenant {self.tenant!r}, and none can be made: {error}. "
                    "Parts of tenants need a server that runs as a cluster, if only of one"
                ) from error
        self._keys |= {self.tenant}

    def _sparse_vectors(self, drafts: Sequence[Draft]) -> Steps[list[SparseVector | None]]:
        """The sparse vector of each passage; None where there is none."""
        if self._sparse_identity is None:
            return [None] * len(drafts)
        made: list[SparseVector] = yield work(self._sparse_passages, [d.text for d in drafts])
        check_sparse(made, [draft.id for draft in drafts])
        return [vector if vector.indices else None for vector in made]

    def _sparse_passages(self, texts: list[str]) -> list[SparseVector]:
        return self.sparse_encoder().encode_passages(texts)

    def _token_vectors(self, drafts: Sequence[Draft]) -> Steps[list[npt.NDArray[np.float32]]]:
        """The token vectors (tokens, width) of each passage; (0, 0) where none are kept.

        Raises:
            InputError: They are kept, and there is no encoder to make them.
        """
        if not self.tokens:
            return [_NO_TOKENS] * len(drafts)
        if self.encode_tokens is None:
            raise InputError(
                f"collection {self.collection_name!r} keeps token vectors, and no encoder was "
                "opened with it: open it with a Retriever"
            )
        made: list[npt.NDArray[np.float32]] = yield work(
            self.encode_tokens, [draft.text for draft in drafts]
        )
        return made

    def _point(
        self,
        draft: Draft,
        row: list[float],
        sparse: SparseVector | None,
        tokens: npt.NDArray[np.float32],
    ) -> models.PointStruct:
        vector: Any = {self.layout.vector_name: row} if self.layout.vector_name else row
        if sparse is not None:
            vector[SPARSE_NAME] = models.SparseVector(indices=sparse.indices, values=sparse.values)
        if len(tokens):
            vector[TOKENS_NAME] = tokens.tolist()
        return models.PointStruct.model_construct(
            id=self.point_id(draft.id), vector=vector, payload=self._payload(draft)
        )

    def _overwriting(self, draft: Draft) -> models.OverwritePayloadOperation:
        payload = models.SetPayload(
            payload=self._payload(draft),
            points=[self.point_id(draft.id)],
            shard_key=self.shard_key,
        )
        return models.OverwritePayloadOperation(overwrite_payload=payload)

    def _retrieve(
        self, ids: Sequence[str], *, payload: bool | list[str] = True, vectors: bool = False
    ) -> Steps[dict[str, models.Record]]:
        found: dict[str, models.Record] = {}
        for part in _parts(list(dict.fromkeys(ids)), _PAGE):
            points = [self.point_id(check_id(i)) for i in part]
            wanted = dict(zip(map(str, points), part, strict=True))
            records = yield self.call(
                "retrieve",
                ids=points,
                with_payload=payload,
                with_vectors=self._dense_only() if vectors else False,
            )
            found.update({wanted[str(r.id)]: r for r in records})
        return found

    def _dense_only(self) -> bool | list[str]:
        """Which of a point's vectors are read."""
        return [self.layout.vector_name] if self.layout.vector_name else True

    def _vector_of(self, record: models.Record) -> npt.NDArray[np.float32] | None:
        vector: Any = record.vector
        if isinstance(vector, dict):
            vector = vector.get(self.layout.vector_name)
        return None if vector is None else np.asarray(vector, dtype=np.float32)

    def _vector_params(self, config: models.CollectionConfig) -> models.VectorParams:
        vectors = named_vectors(config)
        params = vectors.get(self.layout.vector_name)
        if params is None:
            raise InputError(
                f"collection {self.collection_name!r} has no vector {self.layout.vector_name!r} "
                f"(it has: {', '.join(map(repr, vectors)) or 'none'}): name another"
            )
        return params


def _sparse_params(contract: Contract) -> dict[str, models.SparseVectorParams]:
    """The collection's sparse vectors; none where it has none."""
    if contract.sparse is None:
        return {}
    modifier = models.Modifier.IDF if contract.sparse.idf else models.Modifier.NONE
    return {SPARSE_NAME: models.SparseVectorParams(modifier=modifier)}


def _token_width(config: models.CollectionConfig) -> int | None:
    params = named_vectors(config).get(TOKENS_NAME)
    return None if params is None else params.size


def _described(identity: SparseIdentity | None) -> str:
    """Sparse vectors in words."""
    if identity is None:
        return "none"
    settings = ", ".join(f"{name}={value}" for name, value in identity.settings.items())
    return f"{identity.name} ({settings})" if settings else identity.name


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
