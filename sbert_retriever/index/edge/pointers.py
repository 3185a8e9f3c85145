"""Which folder a collection's name means: `collections.json`, written whole or not at all.

Without an entry, a collection lies in the folder of its own name. Entries come from switching: one
write of this file gives several collections other names in one instant, while their folders, which
somebody may have open, stay where they are.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from itertools import count
from pathlib import Path

import portalocker

from sbert_retriever.errors import StoreError
from sbert_retriever.index.edge.description import unreadable, write_json

POINTERS_FILE = "collections.json"
_LOCK_FILE = "collections.lock"
_PATIENCE_S = 10.0


@dataclass
class Pointers:
    """What the file holds. Names are quoted, so that each could be a folder's.

    Args:
        folders: {name: folder}, where the two differ.
        dropped: Folders that are to be deleted when nobody holds them any more.
    """

    folders: dict[str, str] = field(default_factory=dict)
    dropped: list[str] = field(default_factory=list)

    def folder(self, name: str) -> str:
        """Where a collection of that name lies, or would lie."""
        if name in self.folders:
            return self.folders[name]
        taken = {*self.folders.values(), *self.dropped}
        # No name gives a "+".
        others = (f"{name}+{n}" for n in count(1))
        return name if name not in taken else next(other for other in others if other not in taken)

    def names(self, folders: Iterable[str]) -> list[str]:
        """The names of the collections in these folders."""
        named = {folder: name for name, folder in self.folders.items()}
        hidden = {*self.dropped, *self.folders}
        own = (f for f in folders if f in named or ("+" not in f and f not in hidden))
        return sorted(named.get(folder, folder) for folder in own)

    def point(self, names: Mapping[str, str]) -> None:
        """Give folders other names: {name: folder}; the names they had before are given up."""
        moved = set(names.values())
        kept = {name: folder for name, folder in self.folders.items() if folder not in moved}
        self.folders = {**kept, **names}

    def drop(self, name: str) -> None:
        """Take a name from its folder, which is to be deleted."""
        self.dropped.append(self.folder(name))
        self.folders.pop(name, None)

    def tidy(self) -> None:
        """Leave out entries that say what goes without saying."""
        self.folders = {name: folder for name, folder in self.folders.items() if name != folder}


def read(location: Path) -> Pointers:
    """The pointers of a location.

    Raises:
        StoreError: The file is damaged, or may not be read.
    """
    file = location / POINTERS_FILE
    try:
        return Pointers(**json.loads(file.read_text(encoding="utf-8")))
    except (FileNotFoundError, NotADirectoryError):
        return Pointers()
    except OSError as error:
        raise unreadable(file, error) from error
    except (ValueError, TypeError) as error:
        raise StoreError(f"{file} is damaged ({error}): restore it") from error


@contextmanager
def changing(location: Path) -> Iterator[Pointers]:
    """The pointers of a location, to be changed and written at the end of the block.

    Raises:
        StoreError: Another process has been changing them for seconds.
    """
    location.mkdir(parents=True, exist_ok=True)
    with _locked(location):
        pointers = read(location)
        before = asdict(pointers)
        yield pointers
        pointers.tidy()
        if asdict(pointers) != before:
            _write(location, pointers)


@contextmanager
def _locked(location: Path) -> Iterator[None]:
    lock = portalocker.Lock(location / _LOCK_FILE, mode="a+", timeout=_PATIENCE_S)
    try:
        lock.acquire()
    except portalocker.LockException as error:
        raise StoreError(
            f"another process is switching collections in {location}: run this again"
        ) from error
    try:
        yield
    finally:
        lock.release()


def _write(location: Path, pointers: Pointers) -> None:
    target = location / POINTERS_FILE
    if pointers == Pointers():
        target.unlink(missing_ok=True)
    else:
        write_json(target, asdict(pointers))
