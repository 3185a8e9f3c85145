"""Passages into a collection with the vectors they came with, from an export or another one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from time import monotonic
from typing import Any

import numpy as np
import numpy.typing as npt

from sbert_retriever.errors import InputError
from sbert_retriever.index.points import Draft, draft
from sbert_retriever.index.steps import Steps, work
from sbert_retriever.index.store import PassageStore
from sbert_retriever.index.vectors import faulty_rows
from sbert_retriever.ingest.exchange import Entry
from sbert_retriever.types import Failure, IndexReport

_WINDOW = 512

OnProgress = Callable[[IndexReport], None]


def import_entries(
    store: PassageStore,
    entries: Iterable[Entry],
    *,
    failures: list[Failure],
    on_progress: OnProgress | None = None,
) -> Steps[IndexReport]:
    """Write passages with the vectors they came with.

    What is there already, unchanged, is left alone, so a run that was killed can be run again.

    Args:
        store: A collection of the same model.
        entries: The passages and their vectors, drawn window by window.
        failures: Those that came before; the caller may append to it while entries are drawn.
        on_progress: Called with the report so far, after each window.
    """
    counts: dict[str, Any] = dict.fromkeys(("added", "updated", "unchanged"), 0)
    started = monotonic()

    def report() -> IndexReport:
        return IndexReport(
            **counts,
            failed=len(failures),
            failures=tuple(failures),
            seconds=monotonic() - started,
        )

    drawn = iter(entries)
    while window := (yield work(_drawn, drawn)):
        good = _drafts(store, window, failures)
        known = yield from store.fingerprints([made.id for made, _ in good])
        changed = [(d, v) for d, v in good if known.get(d.id) != d.fingerprint]
        counts["unchanged"] += len(good) - len(changed)
        if changed:
            vectors = np.stack([vector for _, vector in changed])
            too_big = yield from store.write([made for made, _ in changed], vectors)
            failures.extend(too_big)
            refused = {failure.id for failure in too_big}
            added = sum(d.id not in known and d.id not in refused for d, _ in changed)
            counts["added"] += added
            counts["updated"] += len(changed) - len(too_big) - added
        if on_progress is not None:
            on_progress(report())
    yield from store.settle(bulk=True)
    return report()


def _drawn(entries: Iterator[Entry]) -> list[Entry]:
    return list(islice(entries, _WINDOW))


def _drafts(
    store: PassageStore, window: list[Entry], failures: list[Failure]
) -> list[tuple[Draft, npt.NDArray[np.float32]]]:
    """What of a window may be written; the last of those with one id."""
    rows = np.stack([entry.vector for entry in window])
    bad = faulty_rows(rows, score_kind=store.score_kind, half=store.half)
    made: dict[str, tuple[Draft, npt.NDArray[np.float32]]] = {}
    for row, entry in enumerate(window):
        try:
            if row in bad:
                raise InputError(f"its vector is {bad[row]}")
            made[entry.passage.id] = (draft(entry.passage, store.layout), entry.vector)
        except InputError as error:
            place = "" if entry.line is None else f"line {entry.line}: "
            failures.append(Failure(entry.passage.id, f"{place}{error}"))
    return list(made.values())
