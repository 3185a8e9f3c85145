"""`PassageStore`: passages and vectors in one collection, the same on every engine.

Each operation is a generator (see `steps`), so that one implementation serves threads and event
loops. What an engine would accept and be harmed by (NaN, an empty delete filter) is refused here,
so all engines refuse alike.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
from qdrant_client import models
from qdrant_client.http.models import QueryResponse

from sbert_retriever.errors import InputError, StoreRequestError, StoreUnavailableError
from sbert_retriever.index.batches import LARGEST_POINT_BYTES, estimated_bytes, request_slices
from sbert_retriever.index.collection import Collection
from sbert_retriever.index.faults import says_no_point
from sbert_retriever.index.filters import is_match_all
from sbert_retriever.index.points import (
    RESERVED,
    SOURCE_KEY,
    SPARSE_NAME,
    TOKENS_NAME,
    Draft,
    Fingerprint,
    check_id,
    stored_fingerprint,
    stored_id,
    stored_source,
    to_hit,
    to_passage,
)
from sbert_retriever.index.steps import Steps, work
from sbert_retriever.index.storage import quantized_search
from sbert_retriever.index.vectors import check_sparse
from sbert_retriever.types import Failure, Hit, Passage, SparseVector

T = TypeVar("T")
EncodeTokens: TypeAlias = Callable[[list[str]], list[npt.NDArray[np.float32]]]

# As many as `sync` compares at once.
_PAGE = 1024
# Passages whose token vectors are held at once: half a megabyte each, ten times that in a request.
_WITH_TOKENS = 16
_DELETED = "it was deleted while it was being rewritten: run this again"
_NO_TOKENS = np.empty((0, 0), dtype=np.float32)


class PassageStore(Collection):
    """Passages and their vectors in one collection.

    Attributes:
        encode_tokens: Gives the token vectors of passages, one float32 (tokens, width) a text.
    """

    encode_tokens: EncodeTokens | None = None

    @property
    def half(self) -> bool:
        """Whether numbers that float16 has not cannot be kept."""
        return self.shape.half

    @property
    def tokens(self) -> bool:
        """Whether it keeps token vectors."""
        return self.shape.storage.tokens

    # Reading -----------------------------------------------------------------------------

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

    def ids_of_source(self, source: str) -> Steps[list[str]]:
        """Ids of all passages of a source."""
        return (yield from self._read(source_is(source), _id_of))

    def sources(self) -> Steps[dict[str, int]]:
        """Every source, and how many passages it has; reads every passage's, not the texts."""
        found = yield from self._read(None, _source_of)
        return Counter(source for source in found if source is not None)

    # Writing -----------------------------------------------------------------------------

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

    def rewrite(self, drafts: Sequence[Draft]) -> Steps[list[Failure]]:
        """Replace the payload of passages that are there, keeping their vectors.

        What is too big for a request comes back, and what was deleted since it was looked at.
        """
        yield from self._open_part()
        sizes = [estimated_bytes(draft, 0) for draft in drafts]
        fits = [n for n, size in enumerate(sizes) if size <= LARGEST_POINT_BYTES]
        gone: list[Failure] = []
        for part in request_slices([sizes[n] for n in fits]):
            chosen = [drafts[n] for n in fits[part]]
            try:
                yield from self._overwrite(chosen)
            except StoreRequestError as error:
                if not says_no_point(error):
                    raise
                there = set((yield from self._retrieve([d.id for d in chosen], payload=[RESERVED])))
                yield from self._overwrite([draft for draft in chosen if draft.id in there])
                gone += [Failure(d.id, _DELETED) for d in chosen if d.id not in there]
        return _too_big(drafts, sizes) + gone

    def _overwrite(self, drafts: Sequence[Draft]) -> Steps[None]:
        if operations := [self._overwriting(draft) for draft in drafts]:
            yield self.call("batch_update_points", update_operations=operations)

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

    # Inside ------------------------------------------------------------------------------

    def _params(self, params: models.SearchParams | None) -> models.SearchParams | None:
        """What the engine is told of how to search."""
        if self.connection.engine == "local":
            # It compares with every vector anyway, and warns of parameters that it does not need.
            return None
        return quantized_search(params) if self.shape.storage.quantization is not None else params

    def _hits(self, answer: QueryResponse) -> list[Hit]:
        return [to_hit(point, self.layout, self.score_kind) for point in answer.points]

    def _read(
        self, condition: models.Filter | None, read: Callable[[models.Record], T]
    ) -> Steps[list[T]]:
        """One value of every point that matches, from what is ours of its payload."""
        found: list[T] = []
        offset = None
        while True:
            records, offset = yield self.call(
                "scroll",
                scroll_filter=self.within(condition),
                limit=_PAGE,
                offset=offset,
                with_payload=[RESERVED],
                with_vectors=False,
            )
            found += map(read, records)
            if offset is None:
                return found

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

    def _sparse_vectors(self, drafts: Sequence[Draft]) -> Steps[list[SparseVector | None]]:
        """The sparse vector of each passage; None where there is none."""
        if self.sparse_identity is None:
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
        # The one vector of a collection that names none has the name "" beside others.
        several = self.layout.vector_name or sparse is not None or len(tokens)
        vector: Any = {self.layout.vector_name: row} if several else row
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

    def _payload(self, draft: Draft) -> dict[str, Any]:
        if self.tenant is None:
            return draft.payload
        return {**draft.payload, RESERVED: {**draft.payload[RESERVED], "tenant": self.tenant}}


def _id_of(record: models.Record) -> str:
    return stored_id(record.payload, record.id)


def _source_of(record: models.Record) -> str | None:
    return stored_source(record.payload)


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
