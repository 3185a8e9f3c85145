"""What there is to encode, as a Ray dataset of windows."""

from __future__ import annotations

import json
import os
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import ray
from ray.data import Dataset, TaskPoolStrategy

from sbert_ray._parquet_files import parquet_records
from sbert_ray._windows import COLUMN, Window, windows
from sbert_retriever.errors import InputError, InputTypeError, ReadError, SbertError
from sbert_retriever.ingest.discover import RECORD_SUFFIXES, SkipReason, find_files
from sbert_retriever.ingest.read import check_name
from sbert_retriever.ingest.readers import source_of
from sbert_retriever.ingest.record_fields import Fields
from sbert_retriever.ingest.records import read_records, record_passages
from sbert_retriever.types import Failure, Passage

PARQUET = ".parquet"
SUFFIXES = RECORD_SUFFIXES | {PARQUET}
Source: TypeAlias = "Dataset | str | os.PathLike[str] | Iterable[str | os.PathLike[str]]"
Group: TypeAlias = list[tuple[str, str]]
"""Files that one task reads: (absolute path, source) each."""
Listed: TypeAlias = "Dataset | list[Group]"

_FILES = "files"
_MOST_GROUPS = 256
_PASSAGE_COLUMNS = {"id", "text", "metadata", "source"}


@dataclass(frozen=True, kw_only=True)
class Reading:
    """How records become passages, sent to the tasks that read.

    Args:
        fields: Which fields become what.
        size: The most passages of a window.
        known: A reference to the keys of passages to leave out, in a list, so that Ray hands it
            over as it is; an empty list is none.
        kinds: Of csv, the columns that are numbers, bools or times; as for `read_records`.
    """

    fields: Fields
    size: int
    known: list[Any]
    kinds: Mapping[str, str] = field(default_factory=dict)

    def cut(self, passages: Iterable[Passage], failures: list[Failure]) -> Iterator[Window]:
        """Windows of passages."""
        known: Container[bytes] = ray.get(self.known[0]) if self.known else frozenset()
        return windows(passages, size=self.size, failures=failures, known=known)


def listed(source: Source) -> Listed:
    """What there is to read, looked at before anything is started or made.

    Args:
        source: Files, folders and globs, or a dataset of rows.

    Raises:
        InputError: A path does not exist, or names no file that is read.
        InputTypeError: It is nothing of these.
    """
    return source if isinstance(source, Dataset) else _groups(source)


def windows_of(source: Listed, how: Reading, *, readers: int) -> Dataset:
    """A dataset of windows, read when it is run.

    Args:
        source: What there is to read.
        how: How records become passages.
        readers: How many tasks read at once.
    """
    if isinstance(source, Dataset):
        return source.map_batches(
            _OF_ROWS,
            batch_size=how.size,
            batch_format="pyarrow",
            fn_kwargs={"how": how},
        )
    rows = [{_FILES: json.dumps(group)} for group in source]
    return ray.data.from_items(rows, override_num_blocks=len(rows)).map_batches(
        _OF_FILES,
        batch_size=1,
        batch_format="numpy",
        fn_kwargs={"how": how},
        # Reading is light beside encoding, and must not wait for a core that encodes.
        num_cpus=0,
        compute=TaskPoolStrategy(size=min(readers, len(rows))),
    )


def _groups(paths: Any) -> list[Group]:
    """Files in their order, in not too many groups."""
    given: Sequence[Any] = [paths] if isinstance(paths, str | os.PathLike) else _all(paths)
    skipped: list[str] = []

    def skip(path: Path, reason: SkipReason) -> None:
        if reason == "unreadable":
            skipped.append(path.as_posix())

    files = [
        (str(path.absolute()), source_of(path))
        for path in find_files(given, suffixes=SUFFIXES, on_skip=skip)
    ]
    if skipped:
        raise InputError(f"cannot be opened: {', '.join(skipped[:10])}")
    if not files:
        raise InputError(
            f"no files with the suffixes {' '.join(sorted(SUFFIXES))} in "
            f"{', '.join(map(str, given))[:200] or 'an empty list'}"
        )
    each = -(-len(files) // _MOST_GROUPS)
    return [files[n : n + each] for n in range(0, len(files), each)]


def _all(paths: Any) -> list[Any]:
    if isinstance(paths, bytes | Mapping) or not isinstance(paths, Iterable):
        raise InputTypeError(
            f"source is {type(paths).__name__}, expected a path, a list of paths or a ray.data "
            "Dataset"
        )
    return list(paths)


# In the tasks that read -------------------------------------------------------------------


def _files_to_windows(
    batch: Mapping[str, Any], *, how: Reading
) -> Iterator[dict[str, list[bytes]]]:
    for group in batch[_FILES]:
        failures: list[Failure] = []
        passages = (p for path, name in json.loads(group) for p in _read(path, name, how, failures))
        for window in how.cut(passages, failures):
            yield {COLUMN: [window.to_bytes()]}


def _read(path: str, source: str, how: Reading, failures: list[Failure]) -> Iterator[Passage]:
    """The passages of one file; what cannot be read is a failure, and the rest goes on."""
    file, fields = Path(path), how.fields
    try:
        check_name(source)
        if file.suffix.lower() == PARQUET:
            records = parquet_records(file, source)
            yield from record_passages(records, source, fields, failures.append)
            return
        yield from read_records(
            file,
            text_field=fields.text,
            id_field=fields.id,
            metadata_fields=fields.metadata,
            source=source,
            on_failure=failures.append,
            kinds=how.kinds,
        )
    except ReadError as error:
        failures.append(Failure(source, str(error)))


def _rows_to_windows(table: pa.Table, *, how: Reading) -> dict[str, list[bytes]]:
    failures: list[Failure] = []
    records = list(enumerate(table.to_pylist(), 1))
    try:
        passages = _of_rows(records, how.fields, failures)
        return {COLUMN: [w.to_bytes() for w in how.cut(passages, failures)]}
    except SbertError as error:
        return {COLUMN: [Window.of_error(error).to_bytes()]}


def _of_rows(
    records: list[tuple[int, dict[str, Any]]], fields: Fields, failures: list[Failure]
) -> Iterator[Passage]:
    if fields.id is None:
        for _, values in records:
            yield from _passage(values, failures)
        return
    for passage in record_passages(records, "dataset", fields, failures.append):
        yield replace(passage, source=None)


def _passage(values: Mapping[str, Any], failures: list[Failure]) -> Iterator[Passage]:
    """A row that has the shape of a passage; nothing where it is no passage."""
    if not {"id", "text"} <= values.keys() <= _PASSAGE_COLUMNS:
        raise ReadError(
            f"the dataset has the columns {', '.join(sorted(values))[:200]}, expected id and text, "
            "with metadata and source or without: give id_field= (and text_field=, "
            "metadata_fields=), or take columns away with drop_columns"
        )
    metadata = values.get("metadata")
    try:
        # Text is what `encode_to_parquet` writes; Arrow has no type for mappings of any shape.
        known = json.loads(metadata) if isinstance(metadata, str) else metadata
        known = {} if known is None else known
        yield Passage(values["id"], values["text"], known, values.get("source"))
    except (InputError, InputTypeError, ValueError) as error:
        failures.append(Failure(str(values["id"]), str(error)))


# As Ray takes them: its annotation knows no keyword arguments.
_OF_FILES: Any = _files_to_windows
_OF_ROWS: Any = _rows_to_windows
