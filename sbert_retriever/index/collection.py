"""`Collection`: one collection on any engine: made, described, tidied, and asked within a tenant.

Each operation is a generator (see `steps`), so that one implementation serves threads and event
loops.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Any, Literal, Self, TypeAlias, get_args

from qdrant_client import models
from qdrant_client.http.models import QueryResponse

from sbert_retriever.errors import ContractError, InputError, StoreError, StoreRequestError
from sbert_retriever.index.connection import Connection
from sbert_retriever.index.contract import Contract, profile_to_metadata
from sbert_retriever.index.facts import (
    CollectionFacts,
    Shape,
    creation,
    facts_of,
    planned,
    shape_of,
)
from sbert_retriever.index.payload_indexes import index_fields, payload_indexes
from sbert_retriever.index.points import TENANT_KEY, Layout, point_id
from sbert_retriever.index.steps import Call, Steps, call
from sbert_retriever.index.storage import Storage
from sbert_retriever.index.tenants import checked_tenant, tenant_index, within_tenant
from sbert_retriever.sparse import encoder_of_identity
from sbert_retriever.sparse.identities import described_sparse, same_sparse
from sbert_retriever.types import (
    ModelIdentity,
    Profile,
    ScoreKind,
    SparseEncoder,
    SparseIdentity,
)

# Calls that can be sent to the parts of one tenant alone, and those that take a time limit.
_TO_SHARDS = {"query_points", "retrieve", "scroll", "count", "upsert", "delete"}
_TIMED = {*_TO_SHARDS, "query_batch_points", "batch_update_points"}
_WRITES = {"upsert", "delete", "batch_update_points"}

WriteOrder: TypeAlias = Literal["weak", "medium", "strong"]
"""Which node of a cluster puts writes in order: any, one that may change, or the leader alone."""


class Collection:
    """One collection, whole or as one tenant sees it.

    Args:
        connection: To an engine.
        collection_name: Which collection.
        layout: Where its points keep what.
        tenant: Whose passages alone are seen, written and deleted; None is the whole collection.

    Attributes:
        shape: What was settled when it was made; known once it was created or its facts were read.
        make_sparse: Makes the encoder of its sparse vectors from what the collection remembers.
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
        self.shape = Shape()
        # One at most; whoever makes it makes it for the copies of this, too.
        self._sparse: list[SparseEncoder] = []
        self._keys: frozenset[Any] = frozenset()
        self._tenants_indexed = False
        self._timeout_s: float | None = None
        self._ordering: models.WriteOrdering | None = None
        self._pinned: str | None = None
        # The model of a collection whose name may be an alias, which this may not be told of.
        self._unlisted: list[ModelIdentity | None] = []
        self.make_sparse: Callable[[SparseIdentity], SparseEncoder] = encoder_of_identity

    @property
    def score_kind(self) -> ScoreKind:
        """The scale of its scores."""
        return self.shape.score_kind

    @property
    def dim(self) -> int:
        """Width of its vectors."""
        return self.shape.dim

    @property
    def sparse_identity(self) -> SparseIdentity | None:
        """What makes its sparse vectors; None where it has none."""
        return self.shape.sparse

    # Making ------------------------------------------------------------------------------

    def bind_sparse(self, encoder: SparseEncoder) -> None:
        """Take an encoder for the collection's sparse vectors, in the place of its own.

        Raises:
            ContractError: It is another than the collection was built with.
        """
        if not same_sparse(encoder.identity, self.sparse_identity):
            raise ContractError(
                f"words were asked for from {described_sparse(encoder.identity)}, and collection "
                f"{self.collection_name!r} has {described_sparse(self.sparse_identity)}: open it "
                "as it is, or index its texts into a new one"
            )
        self._sparse[:] = [encoder]

    def sparse_encoder(self) -> SparseEncoder:
        """The encoder of the collection's sparse vectors, made when first needed.

        Raises:
            InputError: The collection has none.
            ModelError: It cannot be made from what the collection remembers.
        """
        if self.sparse_identity is None:
            raise InputError(
                f"collection {self.collection_name!r} has no sparse vectors: index its texts into "
                "a new one with sparse='bm25'"
            )
        if not self._sparse:
            self._sparse[:] = [self.make_sparse(self.sparse_identity)]
        return self._sparse[0]

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
            # A key for one collection may not be told of aliases.
            self._unlisted = [(yield from self._model())]
            return
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
        server = self.connection.engine == "server"
        payload_indexes(contract.filterable, self.layout, chunks=server)  # refuses a wrong kind
        shape = planned(contract, storage or Storage(), token_width=token_width)
        asked = creation(shape, vector_name=self.layout.vector_name, server=server)
        try:
            yield self.call("create_collection", metadata=contract.to_metadata(), **asked)
        except StoreRequestError as error:
            yield from self._check_created(contract, error)
        else:
            yield from self._check_kept()
        yield from index_fields(self, contract.filterable, there={})
        if self.tenant is not None or shape.storage.shard_by_tenant:
            yield from self.index_tenants()
        self.shape = shape

    def facts(self) -> Steps[CollectionFacts]:
        """What the engine says of the collection."""
        info = yield self.call("get_collection")
        self.shape = shape_of(
            info,
            name=self.collection_name,
            vector_name=self.layout.vector_name,
            server=self.connection.engine == "server",
        )
        self._tenants_indexed = TENANT_KEY in (info.payload_schema or {})
        return facts_of(info, self.shape, count=(yield from self.count(None)))

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
        return (yield from self.has_any(models.Filter(must_not=[empty])))

    def has_any(self, condition: models.Filter) -> Steps[bool]:
        """Whether any passage matches, which takes a server less than to count them."""
        if not (yield from self.find_part()):
            return False
        found, _ = yield self.call(
            "scroll",
            scroll_filter=self.within(condition),
            limit=1,
            with_payload=False,
            with_vectors=False,
        )
        return bool(found)

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
        yield from self.save_companions(profile_to_metadata(profile))

    def save_companions(self, metadata: Mapping[str, Any]) -> Steps[None]:
        """Keep what else of ours goes with a collection, in the place of what is there of it."""
        if metadata:
            yield from self._check_current()
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

    # Tenants -----------------------------------------------------------------------------

    def for_tenant(self, tenant: str) -> Self:
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

    def refuse_tenants(self, what: str) -> Steps[None]:
        """Refuse what goes by passages' ids, of which each tenant has its own.

        Args:
            what: A noun with its article.

        Raises:
            InputError: The collection has tenants, and this is bound to none.
        """
        if self.tenant is None and (yield from self.has_tenants()):
            raise InputError(
                f"collection {self.collection_name!r} has tenants, whose passages {what} would "
                "mix: keep a folder with `sbert-retriever snapshot`, or index each tenant's texts "
                "anew"
            )

    def within(self, condition: models.Filter | None) -> models.Filter | None:
        """A condition that holds for the tenant's passages alone."""
        return within_tenant(self.tenant, condition)

    def point_id(self, passage_id: str) -> str | int:
        """The engine's id of a passage."""
        return point_id(passage_id, self.layout, self.tenant)

    @property
    def shard_key(self) -> str | None:
        """The part of the collection that calls are sent to; None is all of them."""
        return self.tenant if self.tenant in self._keys else None

    def find_part(self) -> Steps[bool]:
        """Whether there can be anything here: where each tenant has a part, there may be none yet.

        It is made at the first write: a server refuses what is sent to a part that is not there,
        and a misspelt tenant in a search should leave nothing behind.
        """
        if not self.shape.storage.shard_by_tenant or self._in_sight():
            return True
        known = yield self.call("list_shard_keys")
        self._keys = frozenset(entry.key for entry in known.shard_keys or ())
        return self._in_sight()

    # Calls -------------------------------------------------------------------------------

    def call(self, method: str, **kwargs: Any) -> Call:
        """A call of the client on this collection."""
        if self.shard_key is not None and method in _TO_SHARDS:
            kwargs["shard_key_selector"] = self.shard_key
        if self._timeout_s is not None and method in _TIMED:
            # Qdrant counts whole seconds.
            kwargs["timeout"] = max(math.ceil(self._timeout_s), 1)
        if self._ordering is not None and method in _WRITES:
            kwargs["ordering"] = self._ordering
        asked = call(method, collection_name=self._pinned or self.collection_name, **kwargs)
        return replace(asked, deadline_s=self._timeout_s, gone=self._gone())

    def answers(self, requests: Sequence[models.QueryRequest]) -> Steps[list[QueryResponse]]:
        """What is found for each of several searches."""
        if not requests or not (yield from self.find_part()):
            return [QueryResponse(points=[]) for _ in requests]
        found: list[QueryResponse] = yield self.call("query_batch_points", requests=requests)
        return found

    def within_time(self, timeout_s: float | None) -> Self:
        """The same collection, whose server has so many seconds for a request."""
        if timeout_s is None or self.connection.engine != "server":
            return self
        hurried = copy(self)
        hurried._timeout_s = (
            timeout_s if self._timeout_s is None else min(timeout_s, self._timeout_s)
        )
        return hurried

    def in_order(self, ordering: WriteOrder | None) -> Self:
        """The same collection, whose server puts writes in this order.

        Raises:
            InputError: There is no such order.
        """
        if ordering not in (None, *get_args(WriteOrder)):
            raise InputError(f"ordering is {ordering!r}, expected 'weak', 'medium' or 'strong'")
        if ordering is None or self.connection.engine != "server":
            return self
        ordered = copy(self)
        ordered._ordering = models.WriteOrdering(ordering)
        return ordered

    # Inside ------------------------------------------------------------------------------

    def _has_part(self) -> Steps[bool]:
        """`find_part`, before anything is changed.

        Raises:
            InputError: Each tenant has a part, and this is bound to none.
            StoreError: The collection's name means another one by now.
        """
        yield from self._check_current()
        if self.shape.storage.shard_by_tenant and self.tenant is None:
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

    def _check_current(self) -> Steps[None]:
        """Refuse to write where the name means another collection by now.

        Raises:
            StoreError: It was switched.
        """
        if self._pinned is not None:
            known = yield self.call("get_collection_aliases")
            current = self.collection_name in {alias.alias_name for alias in known.aliases}
        else:
            current = not self._unlisted or (yield from self._model()) == self._unlisted[0]
        if not current:
            raise StoreError(self._switched())

    def _gone(self) -> str | None:
        """What is said where the collection behind an alias is not there any more."""
        return None if self._pinned is None else f"{self._switched()} (the one before is gone)"

    def _switched(self) -> str:
        return (
            f"collection {self.collection_name!r} at {self.connection.location} was switched to "
            "another one since it was opened here: open it again to go on with that"
        )

    def _model(self) -> Steps[ModelIdentity | None]:
        info = yield self.call("get_collection")
        contract = Contract.from_metadata(info.config.metadata)
        return None if contract is None else contract.model

    def _in_sight(self) -> bool:
        return bool(self._keys) if self.tenant is None else self.tenant in self._keys

    def _check_created(self, contract: Contract, error: StoreRequestError) -> Steps[None]:
        """Pass where the collection is there after all.

        A request that was answered too late is sent again and refused, and another process may
        have been quicker.
        """
        if not (yield from self.exists()):
            raise error
        facts = yield from self.facts()
        there = facts.contract
        if there is not None and contract.sparse and same_sparse(contract.sparse, there.sparse):
            there = replace(there, sparse=contract.sparse)
        if there != contract:
            raise ContractError(
                f"collection {self.collection_name!r} was created a moment ago with other "
                "settings: open it again"
            ) from error

    def _check_kept(self) -> Steps[None]:
        """Refuse a server that takes a collection's metadata and does not keep it.

        It is not compared: a server may read a float (BM25's `avg_len`) one unit off.
        """
        info = yield self.call("get_collection")
        if Contract.from_metadata(info.config.metadata) is not None:
            return
        yield self.call("delete_collection")
        raise StoreRequestError(
            "the server keeps no collection metadata, where the model's contract goes: Qdrant 1.16 "
            "or newer is needed"
        )
