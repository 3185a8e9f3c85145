"""One Qdrant Edge shard: held by one process, shared inside it, used by one thread at a time."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TypeVar

import portalocker
import qdrant_edge as edge

from sbert_retriever.errors import (
    CollectionNotFoundError,
    SbertError,
    StoreClosedError,
    StoreError,
    StoreLockedError,
    StoreRequestError,
)
from sbert_retriever.forks import Lock
from sbert_retriever.index.edge.description import (
    DESCRIPTION_FILE,
    SAVED_AFTER,
    read_description,
    write_description,
)

T = TypeVar("T")

_LOCK_FILE = "lock"
_SHARD_FOLDER = "shard"
# What the engine locks, of a shard's folder.
_LOG_FOLDER = "wal"
_ORPHAN_WAIT_S = 30.0
# The engine writes through memory maps of files with holes: where the disk has no room for one,
# the system ends the process (SIGBUS). A request has 30 MiB at most, and is written twice.
ROOM_TO_WRITE = 100 * 2**20
_ROOM_TO_OPEN = 16 * 2**20

_open: dict[Path, Shard] = {}
# Taken anew by whoever holds it: a client that nobody closed gives its shards back wherever the
# garbage collector happens to run.
_open_guard = Lock(reentrant=True)
_CLOSING_POLL_S = 0.01


class Shard:
    """An open shard. Get one with `acquire`, give it back with `release`.

    Attributes:
        writes: How many updates it has taken since it was opened.
        written: Points of those updates that the description has not counted yet.
        doomed: Whether the folder is deleted with the last release.
    """

    def __init__(self, folder: Path, lock: IO[str], engine: edge.EdgeShard) -> None:
        self.folder = folder
        self._lock = lock
        # None after closing, and where loading again failed after the index was built.
        self._engine: edge.EdgeShard | None = engine
        self._closed = False
        self._guard = Lock(reentrant=True)
        self._pid = os.getpid()
        self._references = 1
        self.writes = 0
        self.written = 0
        self.doomed = False

    @contextmanager
    def held(self) -> Iterator[None]:
        """Let nobody else read or write meanwhile."""
        with self._guard:
            yield

    def use(self, action: Callable[[edge.EdgeShard], T]) -> T:
        """Run an action on the engine; its errors come out as ours.

        Raises:
            StoreClosedError: After release, or in a forked child.
            StoreRequestError: The engine refused the action.
        """
        if os.getpid() != self._pid:
            # The engine hangs on a shard that came through a fork.
            raise StoreClosedError(
                f"{self.folder} was opened before this process was forked: open the retriever "
                "after the fork, or start processes with the 'spawn' method"
            )
        with self._guard:
            engine = self._loaded()
            with engine_errors():
                return action(engine)

    def optimize(self) -> None:
        """Build the index of what is not indexed, in a process of its own.

        Raises:
            StoreError: That process failed; the shard is open again and nothing is lost. Or the
                shard could not be loaded afterwards: the next `use` tries again.
        """
        with self._guard:
            self.use(lambda engine: engine.flush())
            engine, self._engine = self._loaded(), None
            with engine_errors():
                engine.close()
            try:
                _optimize_apart(self.folder / _SHARD_FOLDER)
            finally:
                self._loaded()

    def note_written(self, points: int) -> None:
        """Count points that were written, for whoever asks what of them the graph holds."""
        with self._guard:
            self.written += points
            if self.written >= SAVED_AFTER:
                self._save_written()

    def note_built(self, in_graph: int) -> None:
        """Keep that the graph holds everything, and of how many points it was built."""
        description = read_description(self.folder)
        description.in_graph, description.written, self.written = in_graph, 0, 0
        write_description(self.folder, description)

    def _save_written(self) -> None:
        description = read_description(self.folder)
        description.written += self.written
        write_description(self.folder, description)
        self.written = 0

    def _loaded(self) -> edge.EdgeShard:
        if self._closed:
            raise StoreClosedError(f"{self.folder} is closed: open the retriever again")
        if self._engine is None:
            self._engine = _load(self.folder / _SHARD_FOLDER)
        return self._engine

    def _close(self) -> None:
        with self._guard:
            self._closed = True
            engine, self._engine = self._engine, None
            try:
                if engine is not None and os.getpid() == self._pid:
                    with engine_errors():
                        engine.close()
                    if self.written and not self.doomed:
                        self._save_written()
            finally:
                self._lock.close()


def acquire(folder: Path, *, config: edge.EdgeConfig | None = None) -> Shard:
    """Open the shard in a folder, or share it where this process has it open.

    Args:
        folder: Of one collection; holds the lock file and the shard's own folder.
        config: To create the shard with; None loads one that exists.

    Raises:
        CollectionNotFoundError: There is no folder to load.
        StoreLockedError: Another process holds the folder.
        StoreError: The folder cannot be read or written, or its disk is full.
    """
    key = folder.resolve()
    while True:
        with _open_guard:
            shard = _open.get(key)
            if shard is None or shard._pid != os.getpid():
                return _opened(key, config)
            if shard._references:
                shard._references += 1
                return shard
        # Its last user is closing it, and may wait for an index to be built.
        time.sleep(_CLOSING_POLL_S)


def _opened(key: Path, config: edge.EdgeConfig | None) -> Shard:
    with _open_guard:
        if config is None and not key.is_dir():
            raise CollectionNotFoundError(f"{key} was deleted just now: open another collection")
        lock = _lock(key)
        try:
            check_room(key, ROOM_TO_WRITE if config is not None else _ROOM_TO_OPEN)
            engine = _create(key, config) if config is not None else _load(key / _SHARD_FOLDER)
        except BaseException:
            lock.close()
            raise
        shard = _open[key] = Shard(key, lock, engine)
        return shard


def release(shard: Shard) -> None:
    """Give a shard back; the last one who does closes it.

    Closing waits for who uses it, and nobody waits for that but those who open the same folder.
    """
    with _open_guard:
        shard._references -= 1
        if shard._references:
            return
    try:
        shard._close()
    finally:
        with _open_guard:
            if _open.get(shard.folder) is shard:  # a forked child may have one of its own there
                del _open[shard.folder]
            if shard.doomed and os.getpid() == shard._pid:
                _remove(shard.folder)


@contextmanager
def unheld(folder: Path) -> Iterator[None]:
    """Hold a folder without opening what is in it, which may be damaged.

    Raises:
        StoreLockedError: Another process holds it.
    """
    key = folder.resolve()
    with _open_guard:
        shard = _open.get(key)
        lock = None if shard is not None and shard._pid == os.getpid() else _lock(key)
    try:
        yield
    finally:
        if lock is not None:
            lock.close()


def discard(folder: Path) -> bool:
    """Delete a collection's folder, or have it deleted when this process lets go of it.

    Returns:
        Whether it is gone already.
    """
    key = folder.resolve()
    with _open_guard:
        shard = _open.get(key)
        if shard is not None and shard._pid == os.getpid():
            shard.doomed = True
            return False
        if not key.is_dir():
            return True
        try:
            _lock(key).close()
        except StoreError:
            return False
        _remove(key)
    return not key.exists()


def _remove(folder: Path) -> None:
    """Delete a collection's folder, the description first: without it, it is no collection."""
    with suppress(OSError):
        (folder / DESCRIPTION_FILE).unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def engine_errors() -> Iterator[None]:
    """Turn the engine's plain exceptions, and its panics, into StoreRequestError."""
    try:
        yield
    except SbertError:
        raise
    except Exception as error:
        raise StoreRequestError(f"the embedded engine refused the request: {error}") from error
    except BaseException as error:
        # A panic of the engine's Rust code is no Exception.
        if type(error).__name__ != "PanicException":
            raise
        raise StoreRequestError(f"the embedded engine panicked: {error}") from error


def check_room(folder: Path, least: int) -> None:
    """Refuse to go on where the disk of a folder is about to be full.

    Args:
        folder: That exists.
        least: Bytes that must be free.

    Raises:
        StoreError: Fewer are.
    """
    free = shutil.disk_usage(folder).free
    if free < least:
        raise StoreError(
            f"the disk of {folder} has {free // 2**20} MiB free, and this needs "
            f"{least // 2**20}: make room and run it again; what was written is kept"
        )


def _lock(folder: Path) -> IO[str]:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / _LOCK_FILE).open("a+", encoding="utf-8")
    except OSError as error:
        raise StoreError(
            f"{folder} cannot be opened ({error.strerror}): give a folder that can be written to"
        ) from error
    try:
        portalocker.lock(lock, portalocker.LOCK_EX | portalocker.LOCK_NB)
    except portalocker.LockException:
        lock.seek(0)
        holder = lock.read().strip()
        lock.close()
        raise StoreLockedError(
            f"{folder} is held by another process ({holder or 'unknown'}): one process at a time "
            "can open it. Close that one first (a killed process holds nothing), or keep the "
            "collection on a Qdrant server"
        ) from None
    with suppress(OSError):  # on a full disk, the holder stays without a name
        os.ftruncate(lock.fileno(), 0)
        os.write(lock.fileno(), f"process {os.getpid()}".encode())
    return lock


def _create(folder: Path, config: edge.EdgeConfig) -> edge.EdgeShard:
    if (folder / DESCRIPTION_FILE).exists():
        raise StoreError(f"{folder} was created by another process just now: try again")
    # Without a description it is what a run killed while creating it left behind.
    shutil.rmtree(folder / _SHARD_FOLDER, ignore_errors=True)
    with engine_errors():
        return edge.EdgeShard.create(str(folder / _SHARD_FOLDER), config)


def _load(shard_folder: Path) -> edge.EdgeShard:
    deadline = time.monotonic() + _ORPHAN_WAIT_S
    while True:
        try:
            with engine_errors():
                return edge.EdgeShard.load(str(shard_folder))
        except StoreRequestError as error:
            # We hold the folder's lock, so only an orphaned index build can hold the shard's.
            if "WouldBlock" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def _optimize_apart(shard_folder: Path) -> None:
    # -P: the folder in which somebody works may hold a `signal.py` of its own.
    command = [sys.executable, "-P", "-m", "sbert_retriever.index.edge.optimize", str(shard_folder)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(_places())}
    finished = subprocess.run(
        command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, check=False
    )
    if finished.returncode:
        tail = finished.stderr.decode("utf-8", "replace").strip().splitlines()[-1:]
        raise StoreError(
            f"building the index of {shard_folder.parent} failed (exit status "
            f"{finished.returncode}: {' '.join(tail)}). Nothing is lost; searches stay exact and "
            "slower until it is built"
        )


def _places() -> Iterator[str]:
    """Where this process looks for modules; the working folder by its name, if it has one still."""
    for place in sys.path:
        with suppress(FileNotFoundError):  # deleted since
            yield place or str(Path.cwd())


def _give_up_copies() -> None:
    """Close, in a forked child, its copies of what locks the folders of its parent.

    A lock lasts until the last copy of its descriptor is closed: the parent could neither build an
    index nor open a folder again while the child lives.
    """
    locked = set()
    for folder in _open:
        for path in (folder / _LOCK_FILE, folder / _SHARD_FOLDER / _LOG_FOLDER):
            with suppress(OSError):  # deleted since
                locked.add(_identity(path.stat()))
    descriptors = Path("/dev/fd")
    if not locked or not descriptors.is_dir():
        return
    nothing = os.open(os.devnull, os.O_RDWR)
    for path in descriptors.iterdir():
        number = int(path.name)
        with suppress(OSError):  # what listed the folder is closed by now
            if _identity(os.fstat(number)) in locked:
                # The number stays taken: the engine's copy here would close what got it next.
                os.dup2(nothing, number, inheritable=False)
    os.close(nothing)


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_give_up_copies)
