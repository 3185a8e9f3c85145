"""What the engine does not keep of a collection: `collection.json`, beside the shard."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from sbert_retriever.errors import StoreError

DESCRIPTION_FILE = "collection.json"
SAVED_AFTER = 1000
NOTES_FILE = "faq-log.jsonl"
"""What users said of an FAQ: it lies in the collection's folder, and is none of the engine's."""


@dataclass
class Description:
    """What `collection.json` holds.

    Args:
        vectors: {name: parameters} of the dense vectors.
        sparse_vectors: The same of the sparse ones.
        metadata: Of the collection.
        payload_schema: {key: kind} of the payload indexes.
        in_graph: Points that the graph was last built of; the engine's own number counts sparse
            vectors too.
        written: Points written since then, or given another payload: those that were in the graph
            left it, and the engine's number counts what they were before. A process that is
            killed may leave out `SAVED_AFTER` of them.
    """

    vectors: dict[str, Any]
    sparse_vectors: dict[str, Any] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)
    payload_schema: dict[str, str] = field(default_factory=dict)
    in_graph: int = 0
    written: int = 0


def dumped(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters of vectors as plain JSON."""
    return {
        name: value.model_dump(mode="json", exclude_none=True) for name, value in parameters.items()
    }


def read_description(place: Path) -> Description:
    """The description of the collection in a folder.

    Raises:
        StoreError: It is damaged, or may not be read.
    """
    file = place / DESCRIPTION_FILE
    try:
        return Description(**json.loads(file.read_text(encoding="utf-8")))
    except OSError as error:
        raise unreadable(file, error) from error
    except (ValueError, TypeError) as error:
        raise StoreError(f"{file} is damaged ({error}): restore it") from error


def unreadable(file: Path, error: OSError) -> StoreError:
    """What to raise where the system does not let a file be read, or has it no more."""
    denied = isinstance(error, PermissionError)
    advice = "open the collection as a user who may read and write its folder"
    return StoreError(
        f"{file} cannot be read ({error.strerror}): {advice if denied else 'restore it'}"
    )


def write_description(place: Path, description: Description) -> None:
    """Write whole or not at all."""
    write_json(place / DESCRIPTION_FILE, asdict(description))


def write_json(target: Path, value: Mapping[str, Any]) -> None:
    """Write whole or not at all: a new file, synced, takes the old one's name."""
    draft = target.with_suffix(".new")
    with draft.open("w", encoding="utf-8") as file:
        json.dump(value, file, indent=2)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(target)
    sync_folder(target.parent)


def sync_folder(folder: Path) -> None:
    """Put the names in a folder on the disk, where the system can."""
    if os.name != "posix":
        return
    directory = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
