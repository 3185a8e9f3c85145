"""`Faq`: questions to one answer, a short list, or "I don't know"."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Self

from sbert_retriever.errors import InputError
from sbert_retriever.faq.calibration import Thresholds
from sbert_retriever.faq.conversation import Conversation
from sbert_retriever.faq.entries import FaqAnswer, FaqEntry
from sbert_retriever.faq.improving import Improving
from sbert_retriever.faq.keeping import Shelf
from sbert_retriever.faq.notebook import Notebook
from sbert_retriever.faq.opening import opened
from sbert_retriever.faq.passages import FILTERABLE, entry_id_of
from sbert_retriever.retriever import Retriever
from sbert_retriever.types.checks import expect

if TYPE_CHECKING:
    from qdrant_client import QdrantClient

    from sbert_retriever.faq.reading import ImportReport
    from sbert_retriever.index.filters import FilterSpec
    from sbert_retriever.index.steps import RetryPolicy
    from sbert_retriever.search.second_stage import RerankerSpec
    from sbert_retriever.sparse import SparseSpec
    from sbert_retriever.types import Encoder, SearchMode


class Faq(Improving):
    """An FAQ in a collection. Make one with `Faq.open`.

    Safe to use from many threads. Methods that ask or write have an asynchronous twin whose name
    begins with "a" and which works in a thread.

    Args:
        retriever: Over the collection.
        shelf: Its entries.
        conversation: How questions are answered.
        notebook: Where feedback and unanswered questions are kept.
    """

    def __init__(
        self, retriever: Retriever, shelf: Shelf, conversation: Conversation, notebook: Notebook
    ) -> None:
        self._retriever = retriever
        self._shelf = shelf
        self._conversation = conversation
        self._notebook = notebook

    @classmethod
    def open(
        cls,
        location: str | PathLike[str] | None = None,
        *,
        model: str | PathLike[str] | Encoder | None = None,
        reranker: RerankerSpec | None = None,
        sparse: SparseSpec | None = None,
        answers: bool | None = None,
        mode: SearchMode | None = None,
        thresholds: Thresholds | None = None,
        log: str | PathLike[str] | None = None,
        log_unanswered: bool = False,
        collection_name: str = "faq",
        device: str = "auto",
        dtype: str = "auto",
        api_key: str | None = None,
        client: QdrantClient | None = None,
        create: bool = True,
        timeout_s: int | None = None,
        prefer_grpc: bool = False,
        retry: RetryPolicy | None = None,
    ) -> Self:
        """Open an FAQ, or create it.

        Args:
            location: A folder, ":memory:" or the URL of a Qdrant server, as for `Retriever.open`.
            model: The bi-encoder; needed to create. None is the collection's own.
            reranker: A cross-encoder that looks at the best entries again; None is none.
            sparse: "bm25", or a SPLADE model's name: an FAQ that is created keeps words too, and
                is asked by both.
            answers: For an FAQ that is created: whether questions are compared with answers too,
                and not with phrasings alone. None is no, or what it was created with.
            mode: "dense", "sparse" or "hybrid". None is "hybrid" where words are kept.
            thresholds: When to answer where nothing was calibrated. None is what was measured for
                the model; docs/faq.md lists those.
            log: The file for feedback and unanswered questions. None is one in the folder of an
                embedded collection; on a server there is none then.
            log_unanswered: Whether questions that get no answer are written there, as they were
                asked. Off unless asked for: they may be private.
            collection_name: Which collection at that location.
            device: "auto", "cpu", "cuda", "cuda:1", "mps"; for all models.
            dtype: "auto", "float32", "bfloat16", "float16"; for all models.
            api_key: For a URL; None reads QDRANT_API_KEY.
            client: Any QdrantClient, used instead of a location and left open by `close`.
            create: Whether to create an FAQ that is not there, when a model is given.
            timeout_s: Seconds a request to a server may take.
            prefer_grpc: Talk to a server over gRPC.
            retry: How long a call that failed in passing is tried again.

        Raises:
            CollectionNotFoundError: There is none, and no model to create it with or no leave to.
            ContractError: It was built with another model.
            InputError: The collection holds other passages; or `answers` is not as it was created
                with; or unanswered questions are to be logged and there is no place for them; or
                there is no folder for `log`.
            StoreLockedError: Another process holds the folder.
            StoreUnavailableError: No server answered within a few seconds.
        """
        retriever = Retriever.open(
            location,
            model=model,
            sparse=sparse,
            collection_name=collection_name,
            device=device,
            dtype=dtype,
            api_key=api_key,
            client=client,
            filterable=FILTERABLE,
            create=create,
            timeout_s=timeout_s,
            prefer_grpc=prefer_grpc,
            retry=retry,
        )
        try:
            return cls(
                *opened(
                    retriever,
                    reranker=reranker,
                    answers=answers,
                    mode=mode,
                    thresholds=thresholds,
                    log=None if log is None else Path(log),
                    log_unanswered=log_unanswered,
                    device=device,
                    dtype=dtype,
                )
            )
        except BaseException:
            retriever.close()
            raise

    # Asking -----------------------------------------------------------------------------

    def ask(
        self,
        question: str,
        previous: str | None = None,
        budget_ms: float | None = None,
        *,
        k: int = 3,
        filter: FilterSpec | None = None,
    ) -> FaqAnswer:
        """Answer a question, offer a short list to choose from, or abstain.

        Args:
            question: As the user asks it.
            previous: The user's last question: where this one is short and gets no answer by
                itself ("and on Sundays?"), both are looked up together. None takes it by itself.
            budget_ms: Milliseconds; the cross-encoder looks at as many entries as fit. Needs one.
            k: How many candidates at most.
            filter: On "tags" and "language": {"language": "en"}; or a models.Filter.

        Raises:
            InputError: k is below 1, or the filter cannot be used, or the budget is below 0, or
                there is one and no reranker.
            InputTypeError: The question is no string.

        Warns:
            FallbackWarning: The FAQ was calibrated with other settings than it is open with; or no
                thresholds are known for the model; or the reranker failed.
        """
        return self._conversation.ask(question, previous, budget_ms, k=k, filter=filter)

    async def aask(
        self,
        question: str,
        previous: str | None = None,
        budget_ms: float | None = None,
        *,
        k: int = 3,
        filter: FilterSpec | None = None,
    ) -> FaqAnswer:
        """`ask` for an event loop."""
        return await asyncio.to_thread(self.ask, question, previous, budget_ms, k=k, filter=filter)

    def warm_up(self) -> None:
        """Read the models' weights, so that no question has to wait for it."""
        self._conversation.warm_up()

    # Entries ----------------------------------------------------------------------------

    def add(self, entries: FaqEntry | Iterable[FaqEntry], *, replace: bool = False) -> int:
        """Write entries; they are found at once. How many were written.

        Args:
            entries: One or several.
            replace: Whether entries whose ids are there take the place of those.

        Raises:
            InputError: An id comes twice, or is there and may not be replaced.
            InputTypeError: One is no `FaqEntry`.
        """
        given = [entries] if isinstance(entries, FaqEntry) else list(entries)
        self._shelf.add(given, replacing=replace)
        return len(given)

    async def aadd(self, entries: FaqEntry | Iterable[FaqEntry], *, replace: bool = False) -> int:
        """`add` for an event loop."""
        return await asyncio.to_thread(self.add, entries, replace=replace)

    def edit(
        self,
        id: str,
        *,
        answer: str | None = None,
        phrasings: Iterable[str] | None = None,
        tags: Iterable[str] | None = None,
        language: str | None = None,
        links: Iterable[str] | None = None,
    ) -> FaqEntry:
        """Change what is given of an entry; phrasings that stay are not encoded again.

        Args:
            id: Of an entry that is there.
            answer: The new one.
            phrasings: All of them.
            tags: All of them.
            language: The new one; "" is none.
            links: All of them.

        Returns:
            The entry as it is now.

        Raises:
            InputError: There is no such entry, or it would have no answer or no phrasing.
        """
        return self._shelf.edit(
            id, answer=answer, phrasings=phrasings, tags=tags, language=language, links=links
        )

    async def aedit(
        self,
        id: str,
        *,
        answer: str | None = None,
        phrasings: Iterable[str] | None = None,
        tags: Iterable[str] | None = None,
        language: str | None = None,
        links: Iterable[str] | None = None,
    ) -> FaqEntry:
        """`edit` for an event loop."""
        return await asyncio.to_thread(
            self.edit,
            id,
            answer=answer,
            phrasings=phrasings,
            tags=tags,
            language=language,
            links=links,
        )

    def delete(self, id: str) -> bool:
        """Delete an entry with all its phrasings; whether it was there."""
        expect(id, str, "id")
        return self._shelf.delete([id]) > 0

    async def adelete(self, id: str) -> bool:
        """`delete` for an event loop."""
        return await asyncio.to_thread(self.delete, id)

    def get(self, id: str) -> FaqEntry | None:
        """An entry by its id; None where there is none."""
        expect(id, str, "id")
        return self._shelf.get([id]).get(id)

    async def aget(self, id: str) -> FaqEntry | None:
        """`get` for an event loop."""
        return await asyncio.to_thread(self.get, id)

    def sharing(self, phrasing: str) -> list[FaqEntry]:
        """The entries that have a phrasing, but for case, width and punctuation, by their ids."""
        expect(phrasing, str, "phrasing")
        hits = self._conversation.lookup.exact(phrasing, None)
        found = self._shelf.get(list(dict.fromkeys(map(entry_id_of, hits))))
        return [found[entry] for entry in sorted(found)]

    async def asharing(self, phrasing: str) -> list[FaqEntry]:
        """`sharing` for an event loop."""
        return await asyncio.to_thread(self.sharing, phrasing)

    def entries(self) -> list[FaqEntry]:
        """Every entry, in the order of their ids."""
        return sorted(self._shelf.all(), key=lambda entry: entry.id)

    async def aentries(self) -> list[FaqEntry]:
        """`entries` for an event loop."""
        return await asyncio.to_thread(self.entries)

    def count(self) -> int:
        """How many entries there are."""
        return self._shelf.count()

    async def acount(self) -> int:
        """`count` for an event loop."""
        return await asyncio.to_thread(self.count)

    def load(self, *paths: str | PathLike[str], prune: bool = False) -> ImportReport:
        """Write the entries of files: .csv, .jsonl, .yaml, .md, or a saved web page (.html).

        Entries whose ids are there are replaced by what the files say: phrasings that were added
        otherwise go. docs/faq.md says how each kind is written.

        Args:
            paths: Files.
            prune: Delete entries that are in none of them.

        Raises:
            ReadError: A file cannot be read, with its line, or holds no entry; or two entries have
                one id; nothing was written.
            InputError: All that is in no file is to be deleted, and no file was named.
        """
        from sbert_retriever.faq.reading import ImportReport, read_all

        if prune and not paths:
            raise InputError(
                "prune without a file would delete every entry: name the files whose entries stay"
            )
        given = read_all(paths)
        stale: set[str] = set()
        if prune:
            stale = self._shelf.ids() - {entry.id for entry in given}
        dropped = self._shelf.without(given)
        report = self._shelf.add(given, replacing=True)
        deleted = self._shelf.delete(sorted(stale))
        return ImportReport(entries=len(given), deleted=deleted, passages=report, dropped=dropped)

    async def aload(self, *paths: str | PathLike[str], prune: bool = False) -> ImportReport:
        """`load` for an event loop."""
        return await asyncio.to_thread(self.load, *paths, prune=prune)

    # Life -------------------------------------------------------------------------------

    @property
    def retriever(self) -> Retriever:
        """The retriever over the phrasings, for what the FAQ has no method for."""
        return self._retriever

    def close(self) -> None:
        """Flush and let go of the location; a client that was handed in stays open."""
        self._retriever.close()

    async def aclose(self) -> None:
        """`close` for an event loop."""
        await self._retriever.aclose()
