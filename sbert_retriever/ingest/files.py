"""Files into a collection: readers, chunking and `Retriever.index` in one call."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Literal, Protocol

from sbert_retriever.errors import InputError, InputTypeError
from sbert_retriever.index.store import PassageStore
from sbert_retriever.ingest.discover import RECORD_SUFFIXES, SUFFIXES, find_files
from sbert_retriever.ingest.read import STDIN, read_passages
from sbert_retriever.ingest.readers import source_of
from sbert_retriever.types import Encoder, Failure, IndexReport, Passage

Path_ = str | os.PathLike[str]
_NO_LIMIT_TOKENS = 512
"""Chunks for a model that reads texts of any length."""


class Indexes(Protocol):
    """What of a `Retriever` is used here."""

    @property
    def encoder(self) -> Encoder:
        """The encoder; loads it."""

    @property
    def store(self) -> PassageStore:
        """The collection."""

    def index(
        self,
        passages: Iterable[Passage],
        *,
        prune: bool = False,
        dry_run: bool = False,
        on_progress: Callable[[IndexReport], None] | None = None,
        sources: Iterable[str] = (),
        spared: Iterable[str] = (),
        failures: list[Failure] | None = None,
    ) -> IndexReport:
        """Bring the collection in line with passages."""


@dataclass(frozen=True, kw_only=True)
class Reading:
    """How files become passages.

    Args:
        text_field: Of jsonl and csv; of several, those present are joined by a space.
        id_field: Of jsonl and csv; None makes "<source>#<line>".
        metadata_fields: Of jsonl and csv; None keeps all others, () none.
        kinds: Of csv, the columns that are numbers, bools or times, as {"price": "float"}; beside
            those that the collection was told of as filterable. All others are text.
        chunk_tokens: The most tokens of a passage; None is what the model reads. Records are cut
            only where it is given.
        chunk_overlap: Tokens that neighbours share; None is 12 %.
        stdin_format: Whether "-" is one text or a record a line.
    """

    text_field: str | Sequence[str] = "text"
    id_field: str | None = None
    metadata_fields: Sequence[str] | None = None
    kinds: Mapping[str, str] = field(default_factory=dict)
    chunk_tokens: int | None = None
    chunk_overlap: int | None = None
    stdin_format: Literal["text", "jsonl"] = "text"


def index_files(
    retriever: Indexes,
    paths: Iterable[Path_],
    *,
    reading: Reading | None = None,
    prune: bool = False,
    dry_run: bool = False,
    stdin: BinaryIO | None = None,
    on_progress: Callable[[IndexReport], None] | None = None,
    on_note: Callable[[str], None] | None = None,
) -> IndexReport:
    """Bring a collection in line with files; only what changed is encoded and written.

    A file that cannot be read is in the report's failures, and the rest go in. The weights are
    loaded when the first new text is met; text files need the tokenizer, records nothing.

    Args:
        retriever: An open `Retriever`.
        paths: Files, folders, globs, and "-" for the standard input.
        reading: How files become passages.
        prune: Delete passages whose text is gone: from files read to their end in this call, and
            of files below a folder in `paths` that no longer exist.
        dry_run: Count what would be done; encode and write nothing.
        stdin: What "-" reads; `sys.stdin.buffer` if None.
        on_progress: Called with the report so far, after each window.
        on_note: Told, in one sentence, what the user should know of what was read.

    Raises:
        InputError: A path does not exist, or the sizes or fields do not go together.
    """
    how = reading or Reading()
    given = _listed(paths)
    size = _chunk_size(retriever, how, given)
    run = _Run(given, prune=prune)
    passages = read_passages(
        given,
        token_offsets=lambda texts: _tokenizing(retriever).token_offsets(texts),
        max_tokens=size,
        overlap_tokens=how.chunk_overlap,
        text_field=how.text_field,
        id_field=how.id_field,
        metadata_fields=how.metadata_fields,
        kinds={**declared_kinds(retriever.store), **how.kinds},
        chunk_records=how.chunk_tokens is not None,
        stdin=stdin,
        stdin_format=how.stdin_format,
        on_failure=run.failures.append,
        on_note=on_note,
        on_source=run.finish,
    )
    if prune:
        run.finished.update(_gone(retriever.store, given))
    return retriever.index(
        run.noted(passages),
        prune=prune,
        dry_run=dry_run,
        on_progress=on_progress,
        sources=run.finished,
        spared=run.unfinished,
        failures=run.failures,
    )


def expected_passages(paths: Iterable[Path_], *, chunked: bool = False) -> int | None:
    """How many passages files will give, where it can be known without reading them as texts.

    That is the case where all are jsonl or csv, a record a line.

    Args:
        paths: As for `index_files`.
        chunked: Whether records are cut.

    Raises:
        InputError: A path does not exist.
    """
    given = _listed(paths)
    files = find_files([path for path in given if path != STDIN])
    if chunked or STDIN in given:
        return None
    total = 0
    for path in files:
        if path.suffix.lower() not in RECORD_SUFFIXES:
            return None
        total += _lines(path)
    return total


def _listed(paths: Iterable[Path_]) -> list[Path_]:
    if isinstance(paths, str | bytes | os.PathLike):
        raise InputTypeError(f"paths is a single {type(paths).__name__}: give a list of paths")
    return list(paths)


def _lines(path: Path) -> int:
    try:
        with path.open("rb") as file:
            blocks = iter(lambda: file.read(1 << 20), b"")
            count = sum(block.count(b"\n") for block in blocks)
    except OSError:
        return 0
    return max(count - (path.suffix.lower() == ".csv"), 0)


@dataclass
class _Run:
    """What one call has met, for pruning and for the report."""

    paths: list[Path_]
    prune: bool
    failures: list[Failure] = field(default_factory=list)
    finished: set[str] = field(default_factory=set)
    unfinished: set[str] = field(default_factory=set)

    def finish(self, source: str) -> None:
        self.finished.add(source)
        self.unfinished.discard(source)

    def noted(self, passages: Iterator[Passage]) -> Iterator[Passage]:
        for passage in passages:
            if passage.source is not None and passage.source not in self.finished:
                self.unfinished.add(passage.source)
            yield passage


def _chunk_size(retriever: Indexes, how: Reading, paths: list[Path_]) -> int:
    """Tokens of a passage; the encoder is asked only where something is to be cut."""
    files = find_files([path for path in paths if path != STDIN])
    texts = (STDIN in paths and how.stdin_format == "text") or any(
        path.suffix.lower() not in RECORD_SUFFIXES for path in files
    )
    if not texts and how.chunk_tokens is None:
        return _NO_LIMIT_TOKENS
    room = room_for_text(_tokenizing(retriever))
    if how.chunk_tokens is None:
        return room or _NO_LIMIT_TOKENS
    if room is not None and how.chunk_tokens > room:
        raise InputError(
            f"chunk_tokens is {how.chunk_tokens}, and the model reads {room} beside its special "
            f"tokens and its prompt: give at most {room}"
        )
    return how.chunk_tokens


class Tokenizing(Protocol):
    """What of a `BiEncoder` chunking needs."""

    @property
    def max_length(self) -> int | None:
        """Tokens a text may have."""

    def token_offsets(self, texts: Iterable[str]) -> list[list[tuple[int, int]]]:
        """Character spans of each text's tokens."""

    def token_counts(self, texts: Iterable[str], *, role: Literal["passage"]) -> Any:
        """Tokens of each text, special ones and the prompt's included."""


def room_for_text(encoder: Tokenizing) -> int | None:
    """Tokens of a passage that the model reads, special ones and the prompt's left out.

    Args:
        encoder: A `BiEncoder`.

    Returns:
        None where it reads texts of any length.

    Raises:
        InputError: The prompt leaves no room.
    """
    if encoder.max_length is None:
        return None
    room = encoder.max_length - int(encoder.token_counts([""], role="passage")[0])
    if room < 1:
        raise InputError(
            f"the model reads {encoder.max_length} tokens and its prompt takes them all: load it "
            "with a shorter passage_prompt"
        )
    return room


def _tokenizing(retriever: Indexes) -> Tokenizing:
    encoder: Any = retriever.encoder
    if not hasattr(encoder, "token_offsets") or not hasattr(encoder, "token_counts"):
        raise InputTypeError(
            f"{type(encoder).__name__} has no token_offsets and token_counts, which cutting texts "
            "needs: make the passages with read_passages, and call index()"
        )
    tokenizing: Tokenizing = encoder
    return tokenizing


def declared_kinds(store: PassageStore) -> Mapping[str, str]:
    """Metadata fields that the collection was told of as filterable, and their kinds."""
    contract = store.connection.run(store.facts()).contract
    return contract.filterable if contract is not None else {}


def _gone(store: PassageStore, paths: list[Path_]) -> set[str]:
    """Stored sources below the folders among `paths` whose file is no longer there."""
    folders = [source_of(Path(path)) for path in paths if path != STDIN and Path(path).is_dir()]
    if not folders:
        return set()
    sources = store.connection.run(store.sources())
    return {s for s in sources if _was_file(s) and any(_is_below(s, f) for f in folders)}


def _is_below(source: str, folder: str) -> bool:
    """Whether a source names something below a folder, both absolute or both relative."""
    if Path(source).is_absolute() != Path(folder).is_absolute():
        return False
    return Path(os.path.relpath(source, folder)).parts[0] != ".."


def _was_file(source: str) -> bool:
    """Whether a source can only have been a file, and is none now."""
    if Path(source).suffix.lower() not in SUFFIXES or "://" in source:
        return False
    try:
        os.lstat(source)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except (OSError, ValueError):
        # A folder that may not be entered hides its files, and does not remove them.
        return False
    return False
