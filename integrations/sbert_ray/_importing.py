"""Shards as the passages and vectors of an export."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from os import PathLike
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sbert_ray._shards import Keys, Manifest, ShardFolder, latest
from sbert_retriever.errors import InputError, InputTypeError, ReadError
from sbert_retriever.ingest.exchange import Entry, ExportHeader
from sbert_retriever.types import Failure, Passage


def open_shards(folder: str | PathLike[str], *, partial: bool) -> ShardExport:
    """The shards of a folder.

    Args:
        folder: A path or a URI.
        partial: Whether a run may have been stopped before its end.

    Raises:
        InputError: There are none, or some may be missing.
        ReadError: The folder's description is damaged.
    """
    place = ShardFolder(folder)
    manifest = place.manifest()
    if manifest is None:
        raise InputError(f"{place.place} holds no shards: write them with encode_to_parquet")
    if not manifest.finished and not partial:
        raise InputError(
            f"the run that writes {place.place} has not come to its end: run encode_to_parquet "
            "again to finish it, or take what there is with partial=True"
        )
    return ShardExport(place, manifest)


class ShardExport:
    """Passages and vectors of all shards, the later of two with one id.

    Args:
        place: The folder.
        manifest: What made the vectors.

    Attributes:
        failures: What is wrong with shards read so far.
    """

    def __init__(self, place: ShardFolder, manifest: Manifest) -> None:
        self._place = place
        self._contract = manifest.contract
        self.failures: list[Failure] = []

    @property
    def header(self) -> ExportHeader:
        """What made the vectors."""
        dim = self._contract.model.dim
        return ExportHeader(collection_name=self._place.place, dim=dim, contract=self._contract)

    def entries(self) -> Iterator[Entry]:
        """The passages, shard by shard."""
        # Looked up once: a run may be writing more of them meanwhile.
        keys = {
            name: keys for name in self._place.shards() if (keys := self._keys(name)) is not None
        }
        wanted, start = latest(list(keys.values())), 0
        for name, shard in keys.items():
            rows = np.flatnonzero(wanted[start : start + len(shard)])
            start += len(shard)
            if len(rows):
                yield from self._entries(name, rows)

    def _keys(self, name: str) -> Keys | None:
        """Of one shard; None where they cannot be read, which is then a failure."""
        try:
            return self._place.keys([name])[0]
        except (ReadError, KeyError, ValueError, pa.ArrowException) as error:
            # Which ids are in it nobody can tell, and so not which rows of others it replaced.
            reason = f"{error}. What it replaced came in as earlier shards have it"
            self.failures.append(Failure(name, reason))
            return None

    def _entries(self, name: str, rows: npt.NDArray[np.intp]) -> Iterator[Entry]:
        try:
            table = self._place.read(name)
            vectors = _vectors(table, self._contract.model.dim)
            values = table.select(["id", "text", "metadata", "source"]).to_pylist()
        except (ReadError, KeyError, pa.ArrowException) as error:
            self.failures.append(Failure(name, str(error)))
            return
        for row in rows:
            try:
                passage = _passage(values[row])
            except (InputError, InputTypeError) as error:
                number = int(row) + 1
                reason = f"{name}, row {number}: {error}"
                self.failures.append(Failure(f"{name}#{number}", reason))
            else:
                yield Entry(None, passage, vectors[row])


def _passage(values: Mapping[str, Any]) -> Passage:
    """A row as a passage.

    Raises:
        InputError: The id is empty, or the metadata are no JSON.
        InputTypeError: A value is missing, or is no text.
    """
    text = values["metadata"]
    if not isinstance(text, str):
        raise InputTypeError(f"its metadata are {type(text).__name__}, expected JSON as text")
    try:
        metadata = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"its metadata are no JSON ({error}): encode it again") from error
    return Passage(values["id"], values["text"], metadata, values["source"])


def _vectors(table: pa.Table, dim: int) -> npt.NDArray[np.float32]:
    """The vectors (n, dim) of a shard.

    Raises:
        ReadError: They have another width.
    """
    column = table.column("vector").combine_chunks()
    numbers = np.asarray(column.flatten(), dtype=np.float32)
    if len(numbers) != len(table) * dim:
        raise ReadError(f"its vectors have not the width {dim} that the folder's model has")
    return numbers.reshape(len(table), dim)
