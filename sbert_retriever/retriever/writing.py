"""The half of the retriever that changes a collection: its passages, profile and indexes."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import get_args

from qdrant_client import models

from sbert_retriever.errors import InputError, InputTypeError, TruncationWarning
from sbert_retriever.index.collection import WriteOrder
from sbert_retriever.index.declaring import declare
from sbert_retriever.index.steps import Steps
from sbert_retriever.index.store import source_is
from sbert_retriever.ingest.sync import Sync, as_passages
from sbert_retriever.retriever.held import Held
from sbert_retriever.retriever.reading import passage_ids
from sbert_retriever.search.request import FilterSpec
from sbert_retriever.search.unmatchable import warn_of_unmatchable
from sbert_retriever.types import Failure, IndexReport, OnTruncate, Passage, Profile


def said_elsewhere(retriever: Held) -> OnTruncate:
    """`on_truncate` for a caller of `index` who tells of cut texts itself, and cuts none unasked.

    Returns:
        "error" where the retriever's encoder refuses long texts, else "ignore".
    """
    return "error" if retriever._encoder.on_truncate == "error" else "ignore"


class Writing(Held):
    """Indexing and deleting, each synchronous and for an event loop."""

    def index(
        self,
        passages: Iterable[Passage],
        *,
        prune: bool = False,
        dry_run: bool = False,
        strict: bool = False,
        on_truncate: OnTruncate | None = None,
        on_progress: Callable[[IndexReport], None] | None = None,
        sources: Iterable[str] = (),
        spared: Iterable[str] = (),
        failures: list[Failure] | None = None,
        ordering: WriteOrder | None = None,
    ) -> IndexReport:
        """Bring the collection in line with passages; only what changed is encoded and written.

        It can be killed and run again: what the first run wrote is not done twice.

        Args:
            passages: Any iterable, drawn in windows, so that it may be larger than memory.
            prune: Delete passages of the sources seen in this call whose ids were not in it.
            dry_run: Count what would be done; encode and write nothing.
            strict: Raise at the first passage that cannot go in, instead of reporting it.
            on_truncate: For texts longer than the model reads: "warn" once a call, "error" before
                their window is written, or "ignore"; None is the encoder's own.
            on_progress: Called with the report so far, after each window.
            sources: Sources that count as seen though no passage may carry them (emptied files);
                read after the last passage is drawn.
            spared: Sources that `prune` leaves alone (files read in part); read after the last
                passage is drawn.
            failures: A list of failures that the caller goes on filling while passages are drawn.
            ordering: On a cluster, how sure it is that all copies take writes in one order: "weak"
                (quick; also None), "medium", or "strong" (by the leader alone, and not without it).

        Raises:
            InputTypeError: Not an iterable of Passage.
            StoreUnavailableError: The server gave up; with the ids that are in and those that
                are not.
        """
        sync = self._sync(dry_run, strict, on_truncate, on_progress, failures, ordering)
        steps = sync.run(as_passages(passages), prune=prune, sources=sources, spared=spared)
        report = self._run(steps)
        self._warn_of_truncation(report, on_truncate)
        return report

    async def aindex(
        self,
        passages: Iterable[Passage],
        *,
        prune: bool = False,
        dry_run: bool = False,
        strict: bool = False,
        on_truncate: OnTruncate | None = None,
        on_progress: Callable[[IndexReport], None] | None = None,
        sources: Iterable[str] = (),
        spared: Iterable[str] = (),
        failures: list[Failure] | None = None,
        ordering: WriteOrder | None = None,
    ) -> IndexReport:
        """`index` for an event loop."""
        sync = self._sync(dry_run, strict, on_truncate, on_progress, failures, ordering)
        steps = sync.run(as_passages(passages), prune=prune, sources=sources, spared=spared)
        report = await self._arun(steps)
        self._warn_of_truncation(report, on_truncate)
        return report

    def delete(
        self,
        ids: Iterable[str] | None = None,
        *,
        filter: FilterSpec | None = None,
        source: str | None = None,
        ordering: WriteOrder | None = None,
    ) -> int:
        """Delete passages by id, by filter or by source; how many were there.

        Args:
            ids: Any iterable; those that are not there are no error.
            filter: As in `search`.
            source: Of one source, all.
            ordering: As for `index`.

        Raises:
            InputError: None or several of the three are given, or the filter has no condition.

        Warns:
            UnknownFieldWarning: Nothing matched, and the filter can match nothing.
        """
        return self._run(self._deleted(ids, filter, source, ordering))

    async def adelete(
        self,
        ids: Iterable[str] | None = None,
        *,
        filter: FilterSpec | None = None,
        source: str | None = None,
        ordering: WriteOrder | None = None,
    ) -> int:
        """`delete` for an event loop."""
        return await self._arun(self._deleted(ids, filter, source, ordering))

    def delete_all(self, *, ordering: WriteOrder | None = None) -> int:
        """Delete every passage, keeping the collection; how many there were.

        Args:
            ordering: As for `index`.
        """
        return self._run(self._emptied(ordering))

    async def adelete_all(self, *, ordering: WriteOrder | None = None) -> int:
        """`delete_all` for an event loop."""
        return await self._arun(self._emptied(ordering))

    def save_profile(self, profile: Profile) -> None:
        """Keep an operating point with the collection: searches that name none follow it."""
        self._run(self._profile_saved(profile))

    async def asave_profile(self, profile: Profile) -> None:
        """`save_profile` for an event loop."""
        await self._arun(self._profile_saved(profile))

    def make_filterable(self, fields: Mapping[str, str]) -> None:
        """Index more metadata fields for filtering, and remember them with the collection.

        What is there is indexed at once; fields that are indexed already stay as they are.

        Args:
            fields: As `filterable` of `open`: {"lang": "keyword", "year": "integer"}.

        Raises:
            InputError: A field is no path, its kind is unknown or another than the one that it is
                indexed as, or this retriever is bound to a tenant.
            StoreRequestError: The server refuses it, for want of a key perhaps.
        """
        self._run(declare(self._store, fields))

    async def amake_filterable(self, fields: Mapping[str, str]) -> None:
        """`make_filterable` for an event loop."""
        await self._arun(declare(self._store, fields))

    def optimize(self) -> None:
        """Build the graph of vectors that lack it, and tidy up what was deleted, at once.

        `index` does so at its end where it is worth it. Until then, words of passages that were
        deleted or replaced count in BM25's document frequencies. A server does it by itself.
        """
        self._run(self._store.optimize())

    async def aoptimize(self) -> None:
        """`optimize` for an event loop."""
        await self._arun(self._store.optimize())

    # Inside -----------------------------------------------------------------------------

    def _sync(
        self,
        dry_run: bool,
        strict: bool,
        on_truncate: OnTruncate | None,
        on_progress: Callable[[IndexReport], None] | None,
        failures: list[Failure] | None,
        ordering: WriteOrder | None,
    ) -> Sync:
        if on_truncate not in (None, *get_args(OnTruncate)):
            raise InputError(
                f"on_truncate is {on_truncate!r}, expected 'warn', 'error' or 'ignore'"
            )
        return Sync(
            self._store.in_order(ordering),
            partial(self._encoder.encode_passages, on_truncate=on_truncate),
            dry_run=dry_run,
            strict=strict,
            refuse_long=on_truncate == "error",
            on_progress=on_progress,
            failures=failures,
        )

    def _warn_of_truncation(self, report: IndexReport, on_truncate: OnTruncate | None) -> None:
        policy = self._encoder.on_truncate if on_truncate is None else on_truncate
        if report.truncated and policy == "warn":
            warnings.warn(
                f"{report.truncated} of {report.encoded} encoded texts are longer than the model "
                f"reads (the longest: {report.longest} tokens); the rest of each is not searched: "
                "split them first",
                TruncationWarning,
                stacklevel=3,
            )

    def _deleted(
        self,
        ids: Iterable[str] | None,
        spec: FilterSpec | None,
        source: str | None,
        ordering: WriteOrder | None,
    ) -> Steps[int]:
        if sum(value is not None for value in (ids, spec, source)) != 1:
            raise InputError(
                "give one of ids, filter or source (to delete everything: delete_all())"
            )
        if source is not None and not isinstance(source, str):
            raise InputTypeError(f"source is {type(source).__name__}, expected str")
        store = self._store.in_order(ordering)
        if ids is not None:
            deleted = yield from store.delete_ids(passage_ids(ids))
        else:
            condition = source_is(source) if source is not None else self._condition(spec)
            deleted = yield from store.delete_where(condition or models.Filter())
            if not deleted and source is None and condition is not None:
                yield from warn_of_unmatchable(store, condition)
        yield from store.settle()
        return deleted

    def _emptied(self, ordering: WriteOrder | None) -> Steps[int]:
        deleted = yield from self._store.in_order(ordering).delete_all()
        yield from self._store.settle()
        return deleted

    def _profile_saved(self, profile: Profile) -> Steps[None]:
        if not isinstance(profile, Profile):
            raise InputTypeError(f"profile is {type(profile).__name__}, expected a Profile")
        yield from self._store.save_profile(profile)
        self._second.remember(profile)
