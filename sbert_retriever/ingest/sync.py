"""Bring a collection in line with passages: encode and write only what changed.

Each passage carries a hash of its text and one of the rest. Compared with what the store holds,
a new text is encoded, a change of metadata or source alone is written without encoding, and what
is the same is left. A run that was killed can be run again: what was acknowledged is kept.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

import numpy as np
import numpy.typing as npt

from sbert_retriever.errors import (
    InputError,
    InputTypeError,
    StoreUnavailableError,
    TextTooLongError,
)
from sbert_retriever.index.points import Draft, Fingerprint, draft
from sbert_retriever.index.steps import Steps, work
from sbert_retriever.index.store import PassageStore
from sbert_retriever.index.vectors import check_vectors, faulty_rows
from sbert_retriever.types import Failure, IndexReport, Passage

# A window is what one round compares, encodes and writes: long enough for batches of like length,
# short enough that a kill costs seconds, on a slow machine too.
WINDOW_PASSAGES = 1024
WINDOW_CHARACTERS = 400_000
_FIRST_WINDOW = 256
_LEAST_WINDOW = 64
_SECONDS = (4.0, 10.0)
_REMEMBERED_TEXTS = 4096


@dataclass(frozen=True)
class Encoded:
    """Vectors (n, dim) of n texts, and what was cut to fit the encoder.

    Args:
        vectors: float32 (n, dim).
        truncated: How many of the texts were cut.
        longest: Tokens of the longest of those.
    """

    vectors: npt.NDArray[np.float32]
    truncated: int = 0
    longest: int = 0


Encode = Callable[[list[str]], Encoded]


@dataclass
class _Tally:
    """A report in the making, and what the run has seen.

    `pending` holds the ids of the window at hand that may not be in the collection yet, `refused`
    those whose vector or size kept them out.
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
    pending: list[str] = field(default_factory=list)
    refused: set[str] = field(default_factory=set)
    position: int = 0

    def add(self, name: str, number: int = 1) -> None:
        self.counts[name] += number

    def report(self, *, dry_run: bool) -> IndexReport:
        return IndexReport(
            **self.counts,
            failed=len(self.failures),
            failures=tuple(self.failures),
            dry_run=dry_run,
            seconds=monotonic() - self.started,
        )


class Sync:
    """One run of `sync`.

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
        self._encode = encode
        self._dry_run = dry_run
        self._strict = strict
        self._refuse_long = refuse_long
        self._on_progress = on_progress
        self._tally = _Tally(failures=failures if failures is not None else [])
        self._recent: OrderedDict[str, npt.NDArray[np.float32]] = OrderedDict()

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
            written = yield from self._windows(iter(passages))
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
        written, size = False, min(_FIRST_WINDOW, WINDOW_PASSAGES)
        while window := (yield work(take_window, draws, size)):
            started = monotonic()
            drafts = self._drafts(window)
            yield from self._bring(drafts)
            size = next_size(size, monotonic() - started)
            written = written or bool(drafts)
            if self._on_progress is not None:
                self._on_progress(self._tally.report(dry_run=self._dry_run))
        return written

    def _drafts(self, window: Sequence[Passage]) -> list[Draft]:
        """What of a window is well-formed and not seen before in this run."""
        drafts: list[Draft] = []
        for passage in window:
            self._tally.position += 1
            if not isinstance(passage, Passage):
                raise InputTypeError(
                    f"item {self._tally.position} is {type(passage).__name__}, expected Passage"
                )
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
        self._tally.failures.append(Failure(passage_id, str(error)))

    def _bring(self, drafts: list[Draft]) -> Steps[None]:
        self._tally.pending = [d.id for d in drafts]
        known = yield from self._store.fingerprints(self._tally.pending)
        new_text = [d for d in drafts if not _same_text(known.get(d.id), d)]
        new_rest = [
            d for d in drafts if _same_text(known.get(d.id), d) and known[d.id] != d.fingerprint
        ]
        self._tally.pending = [d.id for d in (*new_text, *new_rest)]
        self._tally.add("unchanged", len(drafts) - len(new_text) - len(new_rest))
        if not self._dry_run:
            new_text = yield from self._write(new_text)
            self._tally.pending = [d.id for d in new_rest]
            self._refuse((yield from self._store.rewrite(new_rest)))
            new_rest = [d for d in new_rest if d.id not in self._tally.refused]
        self._tally.pending = []
        added = sum(d.id not in known for d in new_text)
        self._tally.add("added", added)
        self._tally.add("updated", len(new_text) - added + len(new_rest))

    def _write(self, drafts: list[Draft]) -> Steps[list[Draft]]:
        """Encode and write; returns what went in."""
        if not drafts:
            return []
        vectors = yield from self._vectors(drafts)
        kind, half = self._store.score_kind, self._store.half
        if self._strict:
            check_vectors(vectors, [d.id for d in drafts], score_kind=kind, half=half)
        bad = faulty_rows(vectors, score_kind=kind, half=half)
        self._refuse(Failure(drafts[row].id, f"its vector is {why}") for row, why in bad.items())
        good = [n for n in range(len(drafts)) if n not in bad]
        self._refuse((yield from self._store.write([drafts[n] for n in good], vectors[good])))
        return [d for d in drafts if d.id not in self._tally.refused]

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
            "of its last window are not; run it again to finish",
            stored=present,
            missing=missing,
        )

    def _vectors(self, drafts: list[Draft]) -> Steps[npt.NDArray[np.float32]]:
        """Vectors (n, dim) of n drafts; each distinct text goes through the encoder once."""
        texts = {d.fingerprint.text: d.text for d in drafts}
        rows = {h: self._recent[h] for h in texts if h in self._recent}
        fresh = [h for h in texts if h not in rows]
        if fresh:
            encoded: Encoded = yield work(self._encode, [texts[h] for h in fresh])
            self._check_shape(encoded.vectors, len(fresh))
            self._tally.add("encoded", len(fresh))
            self._account(encoded)
            rows.update(zip(fresh, encoded.vectors, strict=True))
            self._remember({h: rows[h] for h in fresh})
        return np.stack([rows[d.fingerprint.text] for d in drafts]).astype(np.float32, copy=False)

    def _account(self, encoded: Encoded) -> None:
        if encoded.truncated and self._refuse_long:
            raise TextTooLongError(
                f"{encoded.truncated} of {len(encoded.vectors)} texts are longer than the model "
                f"reads (the longest: {encoded.longest} tokens): split them, or pass "
                "on_truncate='warn'. Nothing of this window was written"
            )
        self._tally.add("truncated", encoded.truncated)
        self._tally.counts["longest"] = max(self._tally.counts["longest"], encoded.longest)

    def _check_shape(self, vectors: npt.NDArray[np.float32], texts: int) -> None:
        shape = np.shape(vectors)
        if shape != (texts, self._store.dim):
            raise InputError(
                f"the encoder gave {shape[0] if shape else 0} vectors of shape {shape[1:]} for "
                f"{texts} texts, expected shape ({texts}, {self._store.dim}): nothing of this "
                "window was written"
            )

    def _remember(self, rows: dict[str, npt.NDArray[np.float32]]) -> None:
        self._recent.update((h, row.copy()) for h, row in rows.items())
        while len(self._recent) > _REMEMBERED_TEXTS:
            self._recent.popitem(last=False)

    def _prune(self) -> Steps[None]:
        for source in sorted(self._tally.sources):
            stored = yield from self._store.ids_of_source(source)
            gone = [i for i in stored if i not in self._tally.seen]
            if not self._dry_run and gone:
                yield from self._store.delete_ids(gone)
            self._tally.add("deleted", len(gone))


def take_window(draws: Iterator[Any], size: int) -> list[Any]:
    """The next passages, `size` at most and as many characters as go with it; [] at the end."""
    window: list[Any] = []
    characters = 0
    for item in draws:
        window.append(item)
        characters += len(getattr(item, "text", ""))
        if len(window) >= size or characters >= WINDOW_CHARACTERS * size // WINDOW_PASSAGES:
            break
    return window


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
