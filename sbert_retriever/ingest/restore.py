"""The passages of an export into a collection, with the vectors they came with."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from time import monotonic
from typing import Any

import numpy as np
import numpy.typing as npt

from sbert_retriever.errors import InputError
from sbert_retriever.index.points import Draft, draft
from sbert_retriever.index.steps import Steps
from sbert_retriever.index.store import PassageStore
from sbert_retriever.index.vectors import faulty_rows
from sbert_retriever.ingest.exchange import Entry, ExportFile
from sbert_retriever.types import Failure, IndexReport

_WINDOW = 512

OnProgress = Callable[[IndexReport], None]


def import_entries(
    store: PassageStore, file: ExportFile, *, on_progress: OnProgress | None = None
) -> Steps[IndexReport]:
    """Write the passages of an export with the vectors they came with.

    What is there already, unchanged, is left alone, so a run that was killed can be run again.

    Args:
        store: A collection of the same model.
        file: The export.
        on_progress: Called with the report so far, after each window.
    """
    counts: dict[str, Any] = dict.fromkeys(("added", "updated", "unchanged"), 0)
    started = monotonic()

    def report() -> IndexReport:
        return IndexReport(
            **counts,
            failed=len(file.failures),
            failures=tuple(file.failures),
            seconds=monotonic() - started,
        )

    entries = file.entries()
    while window := list(islice(entries, _WINDOW)):
        good = _drafts(store, window, file.failures)
        known = yield from store.fingerprints([made.id for made, _ in good])
        changed = [(d, v) for d, v in good if known.get(d.id) != d.fingerprint]
        counts["unchanged"] += len(good) - len(changed)
        if changed:
            vectors = np.stack([vector for _, vector in changed])
            too_big = yield from store.write([made for made, _ in changed], vectors)
            file.failures.extend(too_big)
            refused = {failure.id for failure in too_big}
            added = sum(d.id not in known and d.id not in refused for d, _ in changed)
            counts["added"] += added
            counts["updated"] += len(changed) - len(too_big) - added
        if on_progress is not None:
            on_progress(report())
    yield from store.settle(bulk=True)
    return report()


def _drafts(
    store: PassageStore, window: list[Entry], failures: list[Failure]
) -> list[tuple[Draft, npt.NDArray[np.float32]]]:
    """What of a window may be written; the last of those with one id."""
    bad = faulty_rows(np.stack([entry.vector for entry in window]), score_kind=store.score_kind)
    made: dict[str, tuple[Draft, npt.NDArray[np.float32]]] = {}
    for row, entry in enumerate(window):
        try:
            if row in bad:
                raise InputError(f"its vector is {bad[row]}")
            made[entry.passage.id] = (draft(entry.passage, store.layout), entry.vector)
        except InputError as error:
            failures.append(Failure(entry.passage.id, f"line {entry.line}: {error}"))
    return list(made.values())
