"""The whole way from paths to passages, one file at a time."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Literal

from sbert_retriever.counting import counted
from sbert_retriever.errors import InputError, InputTypeError, MissingExtraError, ReadError
from sbert_retriever.ingest.chunking import checked_overlap, chunk
from sbert_retriever.ingest.discover import RECORD_SUFFIXES, SkipReason, find_files
from sbert_retriever.ingest.readers import OnNote, read_file, reading, source_of
from sbert_retriever.ingest.readers.plain import read_text
from sbert_retriever.ingest.record_fields import Fields
from sbert_retriever.ingest.records import OnFailure, read_json_stream, read_records
from sbert_retriever.ingest.source_text import SourceText
from sbert_retriever.ingest.tokens import TokenOffsets
from sbert_retriever.types import Failure, Passage

STDIN = "-"
STDIN_SOURCE = "stdin"


def read_passages(
    paths: Iterable[str | os.PathLike[str]],
    *,
    token_offsets: TokenOffsets,
    max_tokens: int,
    overlap_tokens: int | None = None,
    text_field: str | Sequence[str] = "text",
    id_field: str | None = None,
    metadata_fields: Sequence[str] | None = None,
    kinds: Mapping[str, str] | None = None,
    chunk_records: bool = False,
    stdin: BinaryIO | None = None,
    stdin_format: Literal["text", "jsonl"] = "text",
    on_failure: OnFailure | None = None,
    on_note: OnNote | None = None,
    on_source: Callable[[str], None] | None = None,
) -> Iterator[Passage]:
    """Passages of files, folders, globs and the standard input ("-"), streamed.

    Text files are chunked; a record of a jsonl or csv file is one passage. One file at a time
    is in memory, and of jsonl and csv one record.

    Args:
        paths: As for `find_files`, and "-" for the standard input, whose source is "stdin".
        token_offsets: As for `chunk`.
        max_tokens: As for `chunk`.
        overlap_tokens: As for `chunk`.
        text_field: As for `read_records`.
        id_field: As for `read_records`.
        metadata_fields: As for `read_records`.
        kinds: As for `read_records`.
        chunk_records: Whether the texts of records are chunked too.
        stdin: What "-" reads; `sys.stdin.buffer` if None.
        stdin_format: Whether "-" is one text, or a record a line.
        on_failure: Told of each file or record that cannot be read, and the rest go in. Where
            it is None, the first one raises.
        on_note: Told, in one sentence, of what was passed over or read in another way.
        on_source: Told of each source that was read to its end without a failure, an empty
            one too.

    Returns:
        An iterator; everything that can be checked beforehand is, before it is returned.

    Raises:
        InputError: A path does not exist, or the sizes or fields do not go together.
        InputTypeError: A path has the wrong type.
        ReadError: Without `on_failure`, a file or a record cannot be read.
        MissingExtraError: Without `on_failure`, a format needs an extra.
    """
    run = _Run(
        token_offsets=token_offsets,
        max_tokens=max_tokens,
        overlap=checked_overlap(max_tokens, overlap_tokens),
        fields=Fields.of(text_field, id_field, metadata_fields),
        kinds=dict(kinds or {}),
        chunk_records=chunk_records,
        stdin_format=stdin_format,
        on_failure=on_failure,
        on_note=on_note or _say_nothing,
        on_source=on_source or _say_nothing,
    )
    given = _given(paths)
    files = find_files([path for path in given if path != STDIN], on_skip=run.skip)
    return run.passages(files, (stdin or sys.stdin.buffer) if STDIN in given else None)


def _given(paths: Iterable[str | os.PathLike[str]]) -> list[str | os.PathLike[str]]:
    if isinstance(paths, (str, bytes, os.PathLike)):
        raise InputTypeError(f"paths is a single {type(paths).__name__}: give a list of paths")
    given = list(paths)
    if given.count(STDIN) > 1:
        raise InputError('"-" is given twice: the standard input can be read only once')
    return given


def _say_nothing(_: str) -> None:
    pass


@dataclass
class _Run:
    token_offsets: TokenOffsets
    max_tokens: int
    overlap: int
    fields: Fields
    kinds: dict[str, str]
    chunk_records: bool
    stdin_format: Literal["text", "jsonl"]
    on_failure: OnFailure | None
    on_note: OnNote
    on_source: Callable[[str], None]
    skipped: Counter[str] = field(default_factory=Counter)
    failures: int = 0

    def passages(self, files: Iterable[Path], stdin: BinaryIO | None) -> Iterator[Passage]:
        if stdin is not None:
            yield from self._source(STDIN_SOURCE, self._stdin(stdin))
        for path in files:
            source = source_of(path)
            yield from self._source(source, self._file(path))
        if self.skipped:
            self.on_note(_skip_note(self.skipped))

    def skip(self, path: Path, reason: SkipReason) -> None:
        if reason == "suffix":
            self.skipped[path.suffix.lower() or "no suffix"] += 1
        else:
            self._fail(source_of(path), ReadError(f"{source_of(path)} cannot be opened"))

    def _source(self, source: str, passages: Iterator[Passage]) -> Iterator[Passage]:
        """One source, its failure reported; what came before the failure stays."""
        failures, n = self.failures, 0
        try:
            for passage in passages:
                yield passage
                n += 1
        except (ReadError, MissingExtraError) as error:
            self._fail(source, error)
        if self.failures == failures:
            if n == 0:
                self.on_note(f"{source} is empty")
            self.on_source(source)

    def _fail(self, source: str, error: Exception) -> None:
        if self.on_failure is None:
            raise error
        self._report(Failure(source, str(error)))

    def _report(self, failure: Failure) -> None:
        self.failures += 1
        if self.on_failure is not None:
            self.on_failure(failure)

    def _file(self, path: Path) -> Iterator[Passage]:
        check_name(source_of(path))
        if path.suffix.lower() not in RECORD_SUFFIXES:
            yield from self._chunks(read_file(path, on_note=self.on_note))
            return
        records = read_records(
            path,
            text_field=self.fields.text,
            id_field=self.fields.id,
            metadata_fields=self.fields.metadata,
            kinds=self.kinds,
            on_failure=None if self.on_failure is None else self._report,
            on_note=self.on_note,
        )
        yield from self._records(records)

    def _stdin(self, stdin: BinaryIO) -> Iterator[Passage]:
        if self.stdin_format == "jsonl":
            report = None if self.on_failure is None else self._report
            yield from self._records(
                read_json_stream(stdin, STDIN_SOURCE, fields=self.fields, on_failure=report)
            )
            return
        with reading(STDIN_SOURCE):
            text = read_text(stdin.read(), STDIN_SOURCE, self.on_note)
        yield from self._chunks(text)

    def _records(self, records: Iterator[Passage]) -> Iterator[Passage]:
        for record in records:
            if self.chunk_records:
                text = SourceText(record.source or record.id, record.text, None, record.metadata)
                yield from self._chunks(text, id_prefix=record.id)
            else:
                yield record

    def _chunks(self, text: SourceText, id_prefix: str | None = None) -> list[Passage]:
        return chunk(
            text,
            token_offsets=self.token_offsets,
            max_tokens=self.max_tokens,
            overlap_tokens=self.overlap,
            id_prefix=id_prefix,
        )


def check_name(source: str) -> None:
    """Refuse the name of a file that no id can be made of.

    Raises:
        ReadError: It is not UTF-8.
    """
    try:
        source.encode()
    except UnicodeEncodeError as error:
        shown = source.encode(errors="backslashreplace").decode()
        raise ReadError(f"the name of {shown} is not UTF-8: rename the file") from error


def _skip_note(skipped: Counter[str]) -> str:
    kinds = ", ".join(f"{n} {suffix}" for suffix, n in sorted(skipped.items()))
    return f"skipped {counted(skipped.total(), 'file')} of other types: {kinds}"
