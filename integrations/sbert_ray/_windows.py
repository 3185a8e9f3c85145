"""Windows: passages that one worker takes at once, as they travel between processes.

A window is one row of one bytes column, so that neither Ray nor Arrow guesses at the types of
metadata, and each is a task of its own that another worker can take over.
"""

from __future__ import annotations

import json
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, replace
from hashlib import blake2b

from sbert_retriever.errors import InputError, SbertError
from sbert_retriever.index.points import Draft, Layout, draft
from sbert_retriever.types import Failure, Passage

COLUMN = "window"
KEY_BYTES = 32
ID_BYTES = 16
_MOST_CHARACTERS = 8_000_000


@dataclass(frozen=True, kw_only=True)
class Window:
    """Passages, and what became of others since the window before.

    Args:
        passages: Well-formed, with metadata as JSON carries it.
        failures: What could not be read.
        unchanged: How many were left out, because they are written already.
        error: Class and message of an error of ours that ends the run.
    """

    passages: tuple[Passage, ...] = ()
    failures: tuple[Failure, ...] = ()
    unchanged: int = 0
    error: tuple[str, str] | None = None

    @classmethod
    def of_error(cls, error: SbertError) -> Window:
        """A window that carries an error to whoever counts."""
        return cls(error=(type(error).__name__, str(error)))

    def to_bytes(self) -> bytes:
        """As JSON."""
        rows = [[p.id, p.text, p.metadata, p.source] for p in self.passages]
        failures = [[f.id, f.reason] for f in self.failures]
        values = [rows, failures, self.unchanged, self.error]
        # Escaped, since the name of a file that is not UTF-8 may be among the failures.
        return json.dumps(values).encode()

    @classmethod
    def from_bytes(cls, raw: bytes) -> Window:
        """Read it back."""
        rows, failures, unchanged, error = json.loads(raw)
        return cls(
            passages=tuple(Passage(*row) for row in rows),
            failures=tuple(Failure(*failure) for failure in failures),
            unchanged=unchanged,
            error=None if error is None else (error[0], error[1]),
        )


def windows(
    passages: Iterable[Passage],
    *,
    size: int,
    failures: list[Failure],
    known: Container[bytes] = frozenset(),
) -> Iterator[Window]:
    """Cut a stream of passages into windows.

    Args:
        passages: Drawn as they are needed.
        size: The most passages of one.
        failures: Filled by whoever reads while passages are drawn; emptied here.
        known: Keys of passages to leave out.

    Yields:
        Windows, the last one perhaps without passages, and none where there was nothing.
    """
    kept: list[Passage] = []
    characters = unchanged = 0
    for passage in passages:
        made = _draft(passage, failures)
        if made is None:
            continue
        if key_of(made) in known:
            unchanged += 1
            continue
        kept.append(replace(passage, metadata=made.payload[Layout().metadata_key]))
        characters += len(passage.text)
        if len(kept) >= size or characters >= _MOST_CHARACTERS:
            yield _closed(kept, failures, unchanged)
            characters = unchanged = 0
    if kept or failures or unchanged:
        yield _closed(kept, failures, unchanged)


def key_of(made: Draft) -> bytes:
    """What tells a passage from another, and from itself with other content: 32 bytes.

    The first 16 stand for its id, the others for its text, metadata and source.
    """
    content = f"{made.fingerprint.text}{made.fingerprint.rest}"
    return _digest(made.id) + _digest(content)


def _digest(text: str) -> bytes:
    return blake2b(text.encode(), digest_size=ID_BYTES).digest()


def _draft(passage: Passage, failures: list[Failure]) -> Draft | None:
    try:
        return draft(passage, Layout())
    except InputError as error:
        failures.append(Failure(passage.id, str(error)))
        return None


def _closed(kept: list[Passage], failures: list[Failure], unchanged: int) -> Window:
    made = Window(passages=tuple(kept), failures=tuple(failures), unchanged=unchanged)
    kept.clear()
    failures.clear()
    return made
