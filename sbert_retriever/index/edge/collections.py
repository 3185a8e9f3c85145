"""The collections of one folder: under which names they are known, and which this process holds.

One write of the pointers gives several collections other names in one instant (see `pointers`).
"""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import quote, unquote

from qdrant_client import models

from sbert_retriever.errors import (
    CollectionNotFoundError,
    InputError,
    InputTypeError,
    StoreClosedError,
    StoreError,
)
from sbert_retriever.forks import Lock
from sbert_retriever.index.edge import pointers
from sbert_retriever.index.edge.description import DESCRIPTION_FILE, unreadable
from sbert_retriever.index.edge.shard import Shard, acquire, discard, release, unheld


class Collections:
    """Names, places and switching of the collections in one folder, each an Edge shard.

    Args:
        folder: Where the collections lie; None is a private temporary folder that `close`
            removes.

    Raises:
        StoreError: The location is a file, or no path that this system has.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._temporary = tempfile.mkdtemp(prefix="sbert-retriever-") if folder is None else None
        self.folder = _usable(Path(self._temporary or folder or "."))
        self._shards: dict[str, Shard] = {}
        self._guard = Lock(reentrant=True)
        self._closed = False
        self._finalizer = weakref.finalize(
            self, _clean_up, self._shards, self._temporary, os.getpid()
        )

    def close(self) -> None:
        """Flush and let go of the folder; a second call does nothing."""
        with self._guard:
            self._closed = True
            self._finalizer()

    # Names ------------------------------------------------------------------------------

    def collection_exists(self, collection_name: str) -> bool:
        """Whether there is a collection of that name."""
        file = self._place(collection_name) / DESCRIPTION_FILE
        try:
            return file.is_file()
        except OSError as error:
            raise unreadable(file, error) from error

    def get_collections(self) -> models.CollectionsResponse:
        """The names of all collections."""
        folders = [path.parent.name for path in self.folder.glob(f"*/{DESCRIPTION_FILE}")]
        found = pointers.read(self.folder).names(folders)
        return models.CollectionsResponse(
            collections=[models.CollectionDescription(name=unquote(name)) for name in found]
        )

    def delete_collection(self, collection_name: str) -> bool:
        """Delete a collection with all it holds; False where there is none."""
        with self._guard:
            self._check_open()
            if not self.collection_exists(collection_name):
                return False
            self._let_go(collection_name)
            # Refused where another process holds it; not opened, since it may be damaged.
            with (
                unheld(self._existing(collection_name)),
                pointers.changing(self.folder) as changed,
            ):
                changed.drop(self._quoted(collection_name))
            self._sweep()
        return True

    def rename_collections(
        self, names: Mapping[str, str], *, unwritten: Mapping[str, int] | None = None
    ) -> bool:
        """Give collections other names, all in one instant.

        Who has one of them open goes on reading what it opened, and can no longer write to it
        under the name that it opened it by.

        Args:
            names: {new name: the name it has now}. Names that only stand on the right are given up.
            unwritten: {name of now: its `writes`}; where there were more since, nothing is done.

        Returns:
            Whether it was done.

        Raises:
            StoreError: A collection would be left without a name.
            StoreLockedError: Another process holds one of them.
        """
        with self._guard, ExitStack() as held:
            self._check_open()
            self._check_none_lost(names)
            shards = {name: self._shard(name) for name in names.values()}
            _hold(held, shards.values())
            if any(shards[name].writes != writes for name, writes in (unwritten or {}).items()):
                return False
            with pointers.changing(self.folder) as changed:
                changed.point(
                    {self._quoted(new): self._place(now).name for new, now in names.items()}
                )
        for name in {*names, *names.values()}:
            self._let_go(name)
        return True

    @contextmanager
    def frozen(self, collection_names: Sequence[str]) -> Iterator[dict[str, Path]]:
        """The folders of collections, flushed, which nobody reads or writes meanwhile."""
        with self._guard, ExitStack() as held:
            shards = {name: self._shard(name) for name in collection_names}
            _hold(held, shards.values())
            for shard in shards.values():
                shard.use(lambda engine: engine.flush())
            yield {name: shard.folder for name, shard in shards.items()}

    def adopt_collections(self, folders: Mapping[str, Path]) -> None:
        """Take folders on the same disk as collections; those of these names before are dropped.

        Several come in one instant where they replace others.

        Raises:
            StoreLockedError: Another process holds one of those before.
        """
        with self._guard:
            self._check_open()
            replaced = [name for name in folders if self.collection_exists(name)]
            with ExitStack() as held, pointers.changing(self.folder) as changed:
                for name in replaced:
                    held.enter_context(unheld(self._existing(name)))
                for name in replaced:
                    changed.drop(self._quoted(name))
                names = {self._quoted(name): folder for name, folder in folders.items()}
                places = {name: changed.folder(name) for name in names}
                for name, folder in names.items():
                    self._move_in(folder, self.folder / places[name])
                changed.point(places)
            for name in replaced:
                self._let_go(name)
            self._sweep()

    def _move_in(self, folder: Path, place: Path) -> None:
        if not discard(place):
            raise StoreError(f"{place} is in use: close what holds it and run this again")
        folder.rename(place)

    def writes(self, collection_name: str) -> int:
        """How many updates a collection has taken since this process opened it."""
        return self._shard(collection_name).writes

    # Inside -----------------------------------------------------------------------------

    def _shard(self, collection_name: str) -> Shard:
        with self._guard:
            self._check_open()
            shard = self._shards.get(collection_name)
            if shard is None:
                shard = self._shards[collection_name] = self._acquired(collection_name)
            return shard

    def _acquired(self, collection_name: str) -> Shard:
        place = self._existing(collection_name)
        try:
            return acquire(place)
        except StoreError:
            # The name may have been given to another one between the two steps.
            if self._place(collection_name) == place:
                raise
            return self._acquired(collection_name)

    def _check_current(self, collection_name: str, shard: Shard) -> None:
        """Refuse to write where the name means another collection by now."""
        if self._place(collection_name).resolve() != shard.folder:
            raise StoreError(
                f"collection {collection_name!r} in {self.folder} was switched to another one "
                "since it was opened here: open it again to write to that"
            )

    def _let_go(self, collection_name: str) -> None:
        if (shard := self._shards.pop(collection_name, None)) is not None:
            release(shard)

    def _check_none_lost(self, names: Mapping[str, str]) -> None:
        for name in names:
            if self.collection_exists(name) and name not in names.values():
                raise StoreError(
                    f"collection {name!r} would be left without a name: give it one, or drop it "
                    "first"
                )

    def _new_place(self, collection_name: str) -> Path:
        """Where a collection is to be created, known as its place from now on."""
        name = self._quoted(collection_name)
        place = self._place(collection_name)
        if place.name != name:
            with pointers.changing(self.folder) as changed:
                changed.point({name: place.name})
        return place

    def _sweep(self) -> None:
        """Delete the folders of dropped collections that nobody holds any more."""
        with pointers.changing(self.folder) as changed:
            changed.dropped = [f for f in changed.dropped if not discard(self.folder / f)]

    def _check_open(self) -> None:
        if self._closed:
            raise StoreClosedError(f"{self.folder} is closed: open the retriever again")

    def _existing(self, collection_name: str) -> Path:
        if not self.collection_exists(collection_name):
            names = ", ".join(repr(c.name) for c in self.get_collections().collections)
            raise CollectionNotFoundError(
                f"there is no collection {collection_name!r} in {self.folder} "
                f"(it has: {names or 'none'})"
            )
        return self._place(collection_name)

    def _place(self, collection_name: str) -> Path:
        return self.folder / pointers.read(self.folder).folder(self._quoted(collection_name))

    def _quoted(self, collection_name: str) -> str:
        if not isinstance(collection_name, str):
            raise InputTypeError(
                f"a collection name is {type(collection_name).__name__}, expected str"
            )
        try:
            name = quote(collection_name, safe=" ")
        except UnicodeEncodeError:
            name = ""
        if name in ("", ".", "..") or len(name) > 200:
            raise InputError(
                f"{collection_name[:80]!r} is not a collection name: use 1 to 200 letters and "
                "digits (other characters count as several)"
            )
        return name


def _hold(held: ExitStack, shards: Iterable[Shard]) -> None:
    """Hold several shards, always in the same order, so that two who do so never wait in a ring."""
    for shard in sorted(shards, key=lambda shard: shard.folder):
        held.enter_context(shard.held())


def _usable(folder: Path) -> Path:
    try:
        folder = folder.expanduser()
        folder.stat()
    except FileNotFoundError:
        return folder
    except (OSError, RuntimeError, ValueError) as error:
        # A user that is not there, a NUL, a name that is too long.
        reason = getattr(error, "strerror", None) or str(error)
        raise StoreError(
            f"{str(folder)[:200]!r} cannot be a folder here ({reason}): give another"
        ) from error
    if not folder.is_dir():
        raise StoreError(f"{folder} is a file: give a folder, ':memory:' or a URL")
    return folder


def _clean_up(shards: dict[str, Shard], temporary: str | None, owner: int) -> None:
    for name in list(shards):
        release(shards.pop(name))
    # A forked child has a copy of this, and the folder is still the parent's.
    if temporary is not None and os.getpid() == owner:
        shutil.rmtree(temporary, ignore_errors=True)
