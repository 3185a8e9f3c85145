"""Bring a collection in line with passages: encode and write only what changed.

Each passage carries a hash of its text and one of the rest. Compared with what the store holds,
a new text is encoded, a change of metadata or source alone is written without encoding, and what
is the same is left. A run that was killed can be run again: what was acknowledged is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

from sbert_retriever.errors import (
    InputError,
    InputTypeError,
    SbertError,
    StoreUnavailableError,
    TextTooLongError,
)
from sbert_retriever.index.points import Draft, Fingerprint, draft
from sbert_retriever.index.steps import Steps, work
from sbert_retriever.index.store import PassageStore
from sbert_retriever.index.vectors import check_vectors, faulty_rows
from sbert_retriever.ingest.encoding import DraftEncoder, Encode, Encoded, Thread
from sbert_retriever.types import Failure, IndexReport, Passage

# A window is what one round compares, encodes and writes: long enough for batches of like length,
# short enough that a kill costs seconds, on a slow machine too.
WINDOW_PASSAGES = 1024
WINDOW_CHARACTERS = 400_000
_FIRST_WINDOW = 256
_LEAST_WINDOW = 64
_SECONDS = (4.0, 10.0)


@dataclass
class _Tally:
    """A report in the making, and what the run has seen.

    `pending` holds the ids seen that may not be in the collection yet, in order, `refused` those
    whose vector or size kept them out, `unusable` those of passages that are not well-formed.
    """

    started: float = field(default_factory=monotonic)
    counts: dict[str, int] = field(
        default_factory=lambda: dict.fromkeys(
            ("added", "updated", "unchanged", "deleted", "encoded", "truncated", "longest"), 0
        )
    )
    failures: list[Failure] = field(default_factory=list)
    seen: dict[str, int] = field(default_factory=dict)
    sources: set[str] = field(default_factory=set)
    pending: dict[str, None] = field(default_factory=dict)
    refused: set[str] = field(default_factory=set)
    unusable: set[str] = field(default_factory=set)
    pruned: list[str] = field(default_factory=list)

    def add(self, name: str, number: int = 1) -> None:
        self.counts[name] += number

    def settle(self, ids: Iterable[str]) -> None:
        """These are in the collection, or refused."""
        for passage_id in ids:
            self.pending.pop(passage_id, None)

    def report(self, *, dry_run: bool) -> IndexReport:
        return IndexReport(
            **self.counts,
            failed=len(self.failures),
            failures=tuple(self.failures),
            dry_run=dry_run,
            seconds=monotonic() - self.started,
            pruned=tuple(self.pruned),
        )


@dataclass(frozen=True)
class _Window:
    """A window compared with the collection, whose new texts are being encoded.

    Args:
        known: What the collection holds, by id.
        new_text: To be written with their vectors.
        new_rest: To be written without: the text is the same.
        vectors: What will be the vectors of `new_text`; None where there is nothing to encode.
    """

    known: Mapping[str, Fingerprint | None]
    new_text: list[Draft]
    new_rest: list[Draft]
    vectors: Future[Encoded] | None


class Sync:
    """One run of `sync`.

    Three things go on at a time: a window is encoded, in a thread of its own, while the one after
    it is drawn and compared, and the one before it written. Both of these stay in the caller's
    thread, which an iterator over a database may depend on.

    Args:
        store: The collection.
        encode: Texts to vectors; called with the new texts only.
        dry_run: Compare and count; encode and write nothing.
        strict: Raise at the first passage that cannot go in, before its window is written,
            instead of reporting it.
        refuse_long: Raise at the first window with a text longer than the encoder reads.
        on_progress: Called after each window with the report so far.
        failures: Failures that came before this run (files that could not be read); the caller
            may append to it while the passages are drawn.
    """

    def __init__(
        self,
        store: PassageStore,
        encode: Encode,
        *,
        dry_run: bool = False,
        strict: bool = False,
        refuse_long: bool = False,
        on_progress: Callable[[IndexReport], None] | None = None,
        failures: list[Failure] | None = None,
    ) -> None:
        self._store = store
        self._vectors_of = DraftEncoder(encode, dim=store.dim)
        self._dry_run = dry_run
        self._strict = strict
        self._refuse_long = refuse_long
        self._on_progress = on_progress
        self._tally = _Tally(failures=failures if failures is not None else [])

    def run(
        self,
        passages: Iterable[Passage],
        *,
        prune: bool = False,
        sources: Iterable[str] = (),
        spared: Iterable[str] = (),
    ) -> Steps[IndexReport]:
        """Bring the collection in line.

        Args:
            passages: Any iterable; drawn window by window.
            prune: Delete passages of the sources seen whose ids were not seen.
            sources: More sources that count as seen, read after the last passage was drawn.
            spared: Sources that `prune` leaves alone, read after the last passage was drawn.

        Raises:
            InputTypeError: An item is no Passage.
            StoreUnavailableError: With the ids of this run that are in and those that are not.
        """
        try:
            written = yield from self._windows(_checked(passages))
            if prune:
                self._tally.sources.update(sources)
                self._tally.sources.difference_update(spared)
                yield from self._prune()
            if not self._dry_run and (written or prune):
                yield from self._store.settle(bulk=True)
        except StoreUnavailableError as error:
            raise self._with_ids(error) from error
        return self._tally.report(dry_run=self._dry_run)

    def _windows(self, draws: Iterator[Passage]) -> Steps[bool]:
        """Bring in one window after the other; whether there was anything to bring in."""
        with Thread() as thread:
            return (yield from self._overlapped(draws, thread))

    def _overlapped(self, draws: Iterator[Passage], thread: Thread) -> Steps[bool]:
        written, size = False, min(_FIRST_WINDOW, WINDOW_PASSAGES)
        ahead: _Window | None = None
        while True:
            drawn: Drawn = yield work(take_window, draws, size)
            try:
                window = (yield from self._begin(drawn.items, thread)) if drawn.items else None
            except SbertError as error:
                # What came before is brought in all the same.
                if ahead is not None and not isinstance(error, StoreUnavailableError):
                    yield from self._finish(ahead)
                raise
            if ahead is not None:
                size = next_size(size, (yield from self._finish(ahead)))
            if drawn.error is not None:
                if window is not None:
                    yield from self._finish(window)
                raise drawn.error
            if window is None:
                return written
            if not written:
                # How fast it goes is learnt from the first, before there are two at a time.
                size = next_size(size, (yield from self._finish(window)))
                window = None
            ahead, written = window, True

    def _drafts(self, window: Sequence[Passage]) -> list[Draft]:
        """What of a window is well-formed and not seen before in this run."""
        drafts: list[Draft] = []
        for passage in window:
            try:
                made = draft(passage, self._store.layout)
                if self._is_new(made):
                    drafts.append(made)
                    if passage.source is not None:
                        self._tally.sources.add(passage.source)
            except InputError as error:
                self._fail(passage.id, error)
        return drafts

    def _is_new(self, made: Draft) -> bool:
        """Whether this id has not come before in this run; a different twin is an error."""
        content = hash(made.fingerprint)
        earlier = self._tally.seen.get(made.id)
        if earlier is None:
            self._tally.seen[made.id] = content
            return True
        if earlier != content:
            raise InputError(
                f"the id {made.id[:80]!r} occurs twice in one run with different content, and the "
                "first was kept: give each passage its own id"
            )
        self._tally.add("unchanged")
        return False

    def _fail(self, passage_id: str, error: Exception) -> None:
        if self._strict:
            raise error
        self._tally.unusable.add(passage_id)
        self._tally.failures.append(Failure(passage_id, str(error)))

    def _begin(self, drawn: Sequence[Passage], thread: Thread) -> Steps[_Window]:
        """Compare with the collection, and have what is new encoded."""
        drafts = self._drafts(drawn)
        self._tally.pending.update(dict.fromkeys(d.id for d in drafts))
        known = yield from self._store.fingerprints([d.id for d in drafts])
        new_text = [d for d in drafts if not _same_text(known.get(d.id), d)]
        new_rest = [
            d for d in drafts if _same_text(known.get(d.id), d) and known[d.id] != d.fingerprint
        ]
        changed = {d.id for d in (*new_text, *new_rest)}
        self._tally.settle(d.id for d in drafts if d.id not in changed)
        self._tally.add("unchanged", len(drafts) - len(changed))
        encoding = new_text and not self._dry_run
        vectors = thread.submit(self._vectors_of, new_text) if encoding else None
        return _Window(known, new_text, new_rest, vectors)

    def _finish(self, window: _Window) -> Steps[float]:
        """Write what is new, and count it; how many seconds encoding it took."""
        seconds = 0.0
        new_text, new_rest = window.new_text, window.new_rest
        if not self._dry_run:
            if window.vectors is not None:
                made: Encoded = yield work(window.vectors.result)
                seconds = made.seconds
                new_text = yield from self._write(new_text, made)
            self._refuse((yield from self._store.rewrite(new_rest)))
            new_rest = [d for d in new_rest if d.id not in self._tally.refused]
        self._tally.settle(d.id for d in (*window.new_text, *window.new_rest))
        added = sum(d.id not in window.known for d in new_text)
        self._tally.add("added", added)
        self._tally.add("updated", len(new_text) - added + len(new_rest))
        if self._on_progress is not None:
            self._on_progress(self._tally.report(dry_run=self._dry_run))
        return seconds

    def _write(self, drafts: list[Draft], made: Encoded) -> Steps[list[Draft]]:
        """Write what was encoded; returns what went in."""
        self._account(made)
        vectors = made.vectors
        kind, half = self._store.score_kind, self._store.half
        if self._strict:
            check_vectors(vectors, [d.id for d in drafts], score_kind=kind, half=half)
        bad = faulty_rows(vectors, score_kind=kind, half=half)
        self._refuse(Failure(drafts[row].id, f"its vector is {why}") for row, why in bad.items())
        good = [n for n in range(len(drafts)) if n not in bad]
        self._refuse((yield from self._store.write([drafts[n] for n in good], vectors[good])))
        went_in = [d for d in drafts if d.id not in self._tally.refused]
        self._tally.settle(d.id for d in drafts)
        return went_in

    def _refuse(self, failures: Iterable[Failure]) -> None:
        for failure in failures:
            self._tally.failures.append(failure)
            self._tally.refused.add(failure.id)

    def _with_ids(self, error: StoreUnavailableError) -> StoreUnavailableError:
        """The error with the ids of the whole run that are in and those that may not be."""
        if self._dry_run:
            return error
        stored = set(error.stored)
        missing = [i for i in self._tally.pending if i not in stored]
        absent = self._tally.refused.union(missing)
        present = [i for i in self._tally.seen if i not in absent]
        return StoreUnavailableError(
            f"{error}. {len(present)} passages of this run are in the collection, {len(missing)} "
            "of its last are not; run it again to finish",
            stored=present,
            missing=missing,
        )

    def _account(self, encoded: Encoded) -> None:
        self._tally.add("encoded", encoded.encoded or 0)
        if encoded.truncated and self._refuse_long:
            raise TextTooLongError(
                f"{encoded.truncated} of {len(encoded.vectors)} texts are longer than the model "
                f"reads (the longest: {encoded.longest} tokens): split them, or pass "
                "on_truncate='warn'. Nothing of this window was written"
            )
        self._tally.add("truncated", encoded.truncated)
        self._tally.counts["longest"] = max(self._tally.counts["longest"], encoded.longest)

    def _prune(self) -> Steps[None]:
        # What cannot be used now is not gone: its last good version stays.
        spared = self._tally.unusable
        for source in sorted(self._tally.sources):
            stored = yield from self._store.ids_of_source(source)
            gone = [i for i in stored if i not in self._tally.seen and i not in spared]
            if not self._dry_run and gone:
                yield from self._store.delete_ids(gone)
            self._tally.add("deleted", len(gone))
            if gone:
                self._tally.pruned.append(source)


@dataclass(frozen=True)
class Drawn:
    """What an iterator gave: some passages, none at its end, and the error it ended with."""

    items: list[Any]
    error: Exception | None = None


def take_window(draws: Iterator[Any], size: int) -> Drawn:
    """The next passages, `size` at most and as many characters as go with it."""
    window: list[Any] = []
    characters = 0
    try:
        for item in draws:
            window.append(item)
            characters += len(getattr(item, "text", ""))
            if len(window) >= size or characters >= WINDOW_CHARACTERS * size // WINDOW_PASSAGES:
                break
    except Exception as error:
        # Raised again, once what came before it is in.
        return Drawn(window, error)
    return Drawn(window)


def _checked(passages: Iterable[Passage]) -> Iterator[Passage]:
    """The passages; what is none ends them, as an error of their iterator does.

    Raises:
        InputTypeError: An item is no Passage.
    """
    for position, passage in enumerate(passages, 1):
        if not isinstance(passage, Passage):
            raise InputTypeError(f"item {position} is {type(passage).__name__}, expected Passage")
        yield passage


def next_size(size: int, seconds: float) -> int:
    """How many passages the next window has, when one of `size` took so long.

    Examples:
        >>> next_size(256, 1.0), next_size(256, 5.0), next_size(256, 20.0), next_size(1024, 1.0)
        (512, 256, 128, 1024)
    """
    fast, slow = _SECONDS
    if seconds < fast:
        return min(2 * size, WINDOW_PASSAGES)
    return max(size // 2, min(_LEAST_WINDOW, size)) if seconds > slow else size


def as_passages(passages: Iterable[Passage]) -> Iterator[Passage]:
    """An iterator over passages, refusing what only looks like many.

    Raises:
        InputTypeError: A string, a mapping or a single Passage, or nothing iterable.
    """
    if isinstance(passages, str | bytes | dict | Passage) or not isinstance(passages, Iterable):
        raise InputTypeError(
            f"passages is {type(passages).__name__}, expected an iterable of Passage"
        )
    return iter(passages)


def _same_text(stored: Fingerprint | None, made: Draft) -> bool:
    return stored is not None and stored.text == made.fingerprint.text
