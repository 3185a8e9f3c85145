"""The part of the retriever that reads passages without a question, and what is known of them."""

from __future__ import annotations

from collections.abc import Iterable

from sbert_retriever.errors import InputTypeError
from sbert_retriever.index.contract import Contract
from sbert_retriever.index.facts import CollectionFacts
from sbert_retriever.index.points import check_id
from sbert_retriever.index.steps import Steps
from sbert_retriever.retriever.held import Held
from sbert_retriever.search.request import FilterSpec, whole
from sbert_retriever.types import Passage, RetrieverInfo


class Reading(Held):
    """Passages by id, page by page, and counted; each synchronous and for an event loop."""

    def get(self, ids: Iterable[str]) -> list[Passage]:
        """Passages by id, in the order asked for; missing ones are left out."""
        return self._run(self._store.get(passage_ids(ids)))

    async def aget(self, ids: Iterable[str]) -> list[Passage]:
        """`get` for an event loop."""
        return await self._arun(self._store.get(passage_ids(ids)))

    def scroll(
        self,
        *,
        filter: FilterSpec | None = None,
        limit: int = 100,
        offset: str | int | None = None,
    ) -> tuple[list[Passage], str | int | None]:
        """A page of passages, in no order of meaning, and the offset of the next page.

        Args:
            filter: As in `search`.
            limit: Passages a page.
            offset: What the call before returned; None begins.
        """
        return self._run(self._scrolled(filter, limit, offset))

    async def ascroll(
        self,
        *,
        filter: FilterSpec | None = None,
        limit: int = 100,
        offset: str | int | None = None,
    ) -> tuple[list[Passage], str | int | None]:
        """`scroll` for an event loop."""
        return await self._arun(self._scrolled(filter, limit, offset))

    def count(self, filter: FilterSpec | None = None) -> int:
        """How many passages there are, or match a filter."""
        return self._run(self._store.count(self._condition(filter)))

    async def acount(self, filter: FilterSpec | None = None) -> int:
        """`count` for an event loop."""
        return await self._arun(self._store.count(self._condition(filter)))

    def sources(self) -> dict[str, int]:
        """How many passages each source has, in the order of their names.

        Reads where every passage is from, so it takes longer the more there are. Passages without a
        source are not counted.
        """
        return dict(sorted(self._run(self._store.sources()).items()))

    async def asources(self) -> dict[str, int]:
        """`sources` for an event loop."""
        return dict(sorted((await self._arun(self._store.sources())).items()))

    def info(self) -> RetrieverInfo:
        """What is known of the collection; loads no model."""
        return self._info_of(self._run(self._store.facts()))

    async def ainfo(self) -> RetrieverInfo:
        """`info` for an event loop."""
        return self._info_of(await self._arun(self._store.facts()))

    # Inside -----------------------------------------------------------------------------

    def _scrolled(
        self, spec: FilterSpec | None, limit: int, offset: str | int | None
    ) -> Steps[tuple[list[Passage], str | int | None]]:
        condition = self._condition(spec)
        page, following = yield from self._store.scroll(
            condition=condition, limit=whole("limit", limit, least=1), offset=offset
        )
        return [passage for passage, _ in page], following

    def _info_of(self, facts: CollectionFacts) -> RetrieverInfo:
        identity = facts.contract.model if facts.contract is not None else None
        return RetrieverInfo(
            location=self._store.connection.location,
            collection_name=self._store.collection_name,
            engine=self._store.connection.engine,
            count=facts.count,
            indexed=facts.indexed,
            dim=facts.dim,
            score_kind=facts.score_kind,
            model=identity.name if identity is not None else None,
            identity=identity,
            filterable=facts.filterable,
            sparse=_name(facts.contract),
            quantized=facts.storage.quantization is not None,
            tokens=facts.storage.tokens,
        )


def passage_ids(ids: Iterable[str]) -> list[str]:
    """Ids as a list.

    Raises:
        InputError: One of them is empty.
        InputTypeError: A bare string, no iterable, or an item that is no string.
    """
    if isinstance(ids, str):
        raise InputTypeError(f"ids is the single string {ids[:80]!r}: put it into a list")
    if not isinstance(ids, Iterable):
        raise InputTypeError(f"ids is {type(ids).__name__}, expected an iterable of str")
    return [check_id(i) for i in ids]


def _name(contract: Contract | None) -> str | None:
    """Of the encoder of a collection's sparse vectors."""
    return contract.sparse.name if contract is not None and contract.sparse is not None else None
