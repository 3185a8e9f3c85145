"""A folder of parquet shards: each complete or absent, and known by what is in it.

| column | type | |
|---|---|---|
| id, text, source | string | of the passage |
| metadata | string | as JSON, since Arrow has no type for mappings of any shape |
| key | 32 bytes | 16 for the id, 16 for text, metadata and source |
| vector | float32, a list of fixed length | |

A shard's name has the number of the run that wrote it, so that of two rows with one id the later
is known, and a hash of its keys, so that a task that is done again gives the same file.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from os import PathLike, fspath
from pathlib import Path, PurePosixPath
from typing import Any
from uuid import uuid4

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import fs, parquet

from sbert_ray._windows import ID_BYTES, KEY_BYTES
from sbert_retriever.errors import ContractError, InputError, ReadError
from sbert_retriever.index.contract import Contract

FORMAT = "sbert_ray parquet"
FORMAT_VERSION = 1
MANIFEST = "_sbert_ray.json"
_PART = ".part"
_TEXTS = ["id", "text", "metadata", "source"]
Keys = npt.NDArray[np.bytes_]


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """What made the vectors, and whether all of them are there.

    Args:
        contract: What a collection of these vectors is built with.
        finished: Whether the last run came to its end.
    """

    contract: Contract
    finished: bool = False

    def to_json(self) -> str:
        """As it lies in the folder."""
        values = {
            "format": FORMAT,
            "version": FORMAT_VERSION,
            "finished": self.finished,
            "contract": self.contract.to_metadata(),
        }
        return json.dumps(values, indent=2, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str, place: str) -> Manifest:
        """Read it back.

        Raises:
            ReadError: It is another program's, a newer version's, or damaged.
        """
        try:
            values = json.loads(text)
            if values["format"] != FORMAT or values["version"] != FORMAT_VERSION:
                raise ReadError(
                    f"{place} has format {values['format']!r}, version {values['version']!r}, and "
                    f"{FORMAT!r}, version {FORMAT_VERSION} is read: upgrade sbert-retriever"
                )
            contract = Contract.from_metadata(values["contract"])
            finished = bool(values["finished"])
        except (AttributeError, ContractError, KeyError, TypeError, ValueError) as error:
            raise ReadError(f"{place} is damaged ({error}): encode into a new folder") from error
        if contract is None:
            raise ReadError(f"{place} names no model: encode into a new folder")
        return cls(contract=contract, finished=finished)


class ShardFolder:
    """The folder, on this machine or on any file system that pyarrow knows by its URI.

    Args:
        place: A path, or a URI such as "s3://bucket/vectors". Every worker must reach it.

    Raises:
        InputError: The URI is of no kind that is known.
    """

    def __init__(self, place: str | PathLike[str]) -> None:
        self.place = fspath(place)
        if "://" in self.place:
            try:
                self._fs, path = fs.FileSystem.from_uri(self.place)
            except (pa.ArrowException, OSError) as error:
                raise InputError(f"{self.place!r} cannot be used: {error}") from error
        else:
            path = Path(self.place).absolute().as_posix()
            self._fs, self.place = fs.LocalFileSystem(), path
        self._path = PurePosixPath(path)

    # The manifest ------------------------------------------------------------------------

    def manifest(self) -> Manifest | None:
        """What the folder is; None where nothing was ever written.

        Raises:
            ReadError: It is not one of ours, or damaged.
        """
        if not self.has(MANIFEST):
            return None
        with self._fs.open_input_stream(self._at(MANIFEST)) as file:
            text = file.read().decode("utf-8", errors="replace")
        return Manifest.from_json(text, self._at(MANIFEST))

    def write_manifest(self, manifest: Manifest) -> None:
        """Put it into the folder, which is made where it is absent."""
        self._fs.create_dir(str(self._path), recursive=True)
        part = self._new_part()
        with self._fs.open_output_stream(part) as file:
            file.write(manifest.to_json().encode())
        self._publish(part, MANIFEST)

    # Shards ------------------------------------------------------------------------------

    def shards(self) -> list[str]:
        """Names of the shards, those of earlier runs first."""
        return sorted(name for name in self._names() if name.endswith(".parquet"))

    def has(self, name: str) -> bool:
        """Whether it is there, and so complete."""
        return bool(self._fs.get_file_info(self._at(name)).type == fs.FileType.File)

    def write(self, name: str, table: pa.Table) -> None:
        """Write a shard, under another name until it is whole."""
        part = self._new_part()
        compression: Any = dict.fromkeys(_TEXTS, "zstd")
        with self._fs.open_output_stream(part) as file:
            parquet.write_table(table, file, compression=compression, use_dictionary=["source"])
        self._publish(part, name)

    def read(self, name: str) -> pa.Table:
        """A whole shard.

        Raises:
            ReadError: It is damaged.
        """
        return self._read(name, columns=None)

    def keys(self, names: Sequence[str]) -> list[Keys]:
        """The keys of each of these shards.

        Raises:
            ReadError: A shard is damaged.
        """
        tables = (self._read(name, columns=["key"]) for name in names)
        return [keys_of(table) for table in tables]

    def remove_parts(self) -> None:
        """Remove what killed runs left half written."""
        for name in self._names():
            if name.endswith(_PART):
                self._fs.delete_file(self._at(name))

    # Inside ------------------------------------------------------------------------------

    def _read(self, name: str, *, columns: list[str] | None) -> pa.Table:
        try:
            return parquet.read_table(self._at(name), filesystem=self._fs, columns=columns)
        except (pa.ArrowException, OSError) as error:
            raise ReadError(
                f"{self._at(name)} cannot be read ({error}): delete it, and encode again"
            ) from error

    def _names(self) -> list[str]:
        chosen = fs.FileSelector(str(self._path), allow_not_found=True)
        return [info.base_name for info in self._fs.get_file_info(chosen)]

    def _at(self, name: str) -> str:
        return str(self._path / name)

    def _new_part(self) -> str:
        return self._at(f".{uuid4().hex}{_PART}")

    def _publish(self, part: str, name: str) -> None:
        if isinstance(self._fs, fs.LocalFileSystem):
            with Path(part).open("rb") as file:
                os.fsync(file.fileno())
        self._fs.move(part, self._at(name))


def next_run(shards: Sequence[str]) -> int:
    """The number of a run that comes after those that wrote these shards."""
    return max((int(name.split("-")[1]) for name in shards), default=0) + 1


def shard_name(run: int, keys: Sequence[bytes]) -> str:
    """The name of the shard that a run makes of passages."""
    return f"part-{run:06d}-{blake2b(b''.join(keys), digest_size=16).hexdigest()}.parquet"


def keys_of(table: pa.Table) -> Keys:
    """Its keys, (n,)."""
    chunks = [_key_chunk(chunk) for chunk in table.column("key").chunks]
    return np.concatenate([np.empty(0, f"S{KEY_BYTES}"), *chunks])


def _key_chunk(chunk: pa.Array) -> Keys:
    kind = f"S{KEY_BYTES}"
    return np.frombuffer(chunk.buffers()[1], kind, len(chunk), chunk.offset * KEY_BYTES)


def latest(keys: Sequence[Keys]) -> npt.NDArray[np.bool_]:
    """Which rows no later row with the same id replaces, for all shards end to end, (n,)."""
    joined = np.concatenate([np.empty(0, f"S{KEY_BYTES}"), *keys])
    ids = joined.view(f"S{ID_BYTES}")[:: KEY_BYTES // ID_BYTES]
    _, first_from_end = np.unique(ids[::-1], return_index=True)
    chosen = np.zeros(len(joined), dtype=bool)
    chosen[len(joined) - 1 - first_from_end] = True
    return chosen


class KnownKeys:
    """Keys that can be asked for, without copies where they lie in shared memory.

    Args:
        keys: Any order.

    Examples:
        >>> b"a" * 32 in KnownKeys(np.array([b"b" * 32, b"a" * 32]))
        True
    """

    def __init__(self, keys: Keys) -> None:
        self._sorted = np.sort(keys)

    def __contains__(self, key: object) -> bool:
        place = int(np.searchsorted(self._sorted, np.array(key, dtype=f"S{KEY_BYTES}")))
        # NumPy drops zero bytes at the end of what it hands out.
        asked = bytes(key).rstrip(b"\0") if isinstance(key, bytes) else None
        return place < len(self._sorted) and bytes(self._sorted[place]) == asked
