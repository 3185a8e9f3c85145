"""The half of the vector store that writes: adding and deleting."""

# LangChain's methods take any keyword and drop what they do not know. Ours name each keyword, so
# that a misspelt one is an error, which to mypy is an incompatible override.
# mypy: disable-error-code="override"

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import VectorStore

from langchain_sbert._convert import passages_of_documents, passages_of_texts
from langchain_sbert.embeddings import SBERTEmbeddings
from sbert_retriever import Retriever
from sbert_retriever.errors import InputError, InputTypeError, StoreRequestError, TruncationWarning
from sbert_retriever.index.points import Draft, Layout, draft
from sbert_retriever.retriever.writing import said_elsewhere
from sbert_retriever.search.request import FilterSpec
from sbert_retriever.types import IndexReport, Passage


class WritingStore(VectorStore):
    """Adding to and deleting from a vector store, each synchronous and for an event loop."""

    _retriever: Retriever
    _embedding: Embeddings

    def add_texts(
        self,
        texts: Iterable[str],
        metadatas: Iterable[Mapping[str, Any] | None] | None = None,
        *,
        ids: Iterable[str | None] | None = None,
        batch_size: int | None = None,
    ) -> list[str]:
        """Add texts; what a known id holds is replaced, and what is unchanged is not encoded.

        Everything is checked before anything is encoded or written.

        Args:
            texts: Any iterable.
            metadatas: One for each text, or None.
            ids: One for each text, any non-empty strings, or None; a missing one is random.
            batch_size: Texts that are encoded and written in one go; None suits memory.

        Returns:
            The ids, in the order of the texts.

        Raises:
            InputError: Lengths differ; an id stands for two different texts; or metadata cannot
                be stored, by key and id.
            InputTypeError: A value has the wrong type, by its position.
            StoreUnavailableError: A server gave up; with the ids that are in.
        """
        passages = passages_of_texts(texts, metadatas, ids)
        return self._add(passages, batch_size)

    async def aadd_texts(
        self,
        texts: Iterable[str],
        metadatas: Iterable[Mapping[str, Any] | None] | None = None,
        *,
        ids: Iterable[str | None] | None = None,
        batch_size: int | None = None,
    ) -> list[str]:
        """`add_texts` for an event loop."""
        passages = passages_of_texts(texts, metadatas, ids)
        return await self._aadd(passages, batch_size)

    def add_documents(
        self,
        documents: Iterable[Document],
        *,
        ids: Iterable[str | None] | None = None,
        batch_size: int | None = None,
    ) -> list[str]:
        """`add_texts` for documents; `ids` come before their own."""
        passages = passages_of_documents(documents, ids)
        return self._add(passages, batch_size)

    async def aadd_documents(
        self,
        documents: Iterable[Document],
        *,
        ids: Iterable[str | None] | None = None,
        batch_size: int | None = None,
    ) -> list[str]:
        """`add_documents` for an event loop."""
        passages = passages_of_documents(documents, ids)
        return await self._aadd(passages, batch_size)

    def delete(
        self,
        ids: Iterable[str] | None = None,
        *,
        filter: FilterSpec | None = None,
        source: str | None = None,
    ) -> bool:
        """Delete documents by id, by filter or by source; ids that are not there are no error.

        LangChain's `delete(ids=None)` means "delete everything". That is refused here: a variable
        that happens to be None must not empty a store. `delete_all` does it.

        Raises:
            InputError: None or several of the three are given, or the filter has no condition.
        """
        self._retriever.delete(ids, filter=filter, source=source)
        return True

    async def adelete(
        self,
        ids: Iterable[str] | None = None,
        *,
        filter: FilterSpec | None = None,
        source: str | None = None,
    ) -> bool:
        """`delete` for an event loop."""
        await self._retriever.adelete(ids, filter=filter, source=source)
        return True

    def delete_all(self) -> int:
        """Delete every document, keeping the collection; how many there were."""
        return self._retriever.delete_all()

    async def adelete_all(self) -> int:
        """`delete_all` for an event loop."""
        return await self._retriever.adelete_all()

    # Inside -----------------------------------------------------------------------------

    def _add(self, passages: list[Passage], batch_size: int | None) -> list[str]:
        check_passages(passages, self._retriever.store.layout)
        reports = [
            self._retriever.index(batch, strict=True, on_truncate=said_elsewhere(self._retriever))
            for batch in _batches(passages, batch_size)
        ]
        self._account(reports)
        return [passage.id for passage in passages]

    async def _aadd(self, passages: list[Passage], batch_size: int | None) -> list[str]:
        await asyncio.to_thread(check_passages, passages, self._retriever.store.layout)
        reports = [
            await self._retriever.aindex(
                batch, strict=True, on_truncate=said_elsewhere(self._retriever)
            )
            for batch in _batches(passages, batch_size)
        ]
        self._account(reports)
        return [passage.id for passage in passages]

    def _account(self, reports: list[IndexReport]) -> None:
        """Say what was cut, and raise for what is too big to store."""
        cut = sum(report.truncated for report in reports)
        quiet = isinstance(self._embedding, SBERTEmbeddings) and (
            self._embedding.on_truncate == "ignore"
        )
        if cut and not quiet:
            warnings.warn(
                f"{cut} of {sum(report.encoded for report in reports)} texts are longer than the "
                f"model reads (the longest: {max(report.longest for report in reports)} tokens); "
                "the rest of each is not searched: split them first",
                TruncationWarning,
                stacklevel=4,
            )
        failures = [failure for report in reports for failure in report.failures]
        if failures:
            names = "; ".join(f"{f.id[:80]!r} {f.reason}" for f in failures[:5])
            raise StoreRequestError(
                f"{len(failures)} documents could not be stored, and the others were: {names}"
            )


def check_passages(passages: Iterable[Passage], layout: Layout) -> None:
    """Refuse, before anything is written, what cannot be stored or would overwrite its neighbour.

    Raises:
        InputError: Metadata that cannot be stored, or two different passages with one id.
    """
    seen: dict[str, tuple[int, Draft]] = {}
    for position, passage in enumerate(passages):
        made = draft(passage, layout)
        first, twin = seen.setdefault(made.id, (position, made))
        if twin.fingerprint != made.fingerprint:
            raise InputError(
                f"the id {made.id[:80]!r} stands for two different documents, at positions "
                f"{first} and {position}: give each its own id. Nothing was written"
            )


def _batches(passages: list[Passage], size: int | None) -> Iterator[list[Passage]]:
    if size is None:
        size = max(1, len(passages))
    if isinstance(size, bool) or not isinstance(size, int):
        raise InputTypeError(f"batch_size is {size!r}, expected a whole number")
    if size < 1:
        raise InputError(f"batch_size is {size}, expected 1 or more")
    for start in range(0, len(passages), size):
        yield passages[start : start + size]
