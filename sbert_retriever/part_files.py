"""Files that are written under another name until they are whole."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from glob import escape
from pathlib import Path
from typing import IO
from uuid import uuid4

import portalocker

_SUFFIX = ".part"
_TRIES = 3


@contextmanager
def written_whole(target: Path) -> Iterator[IO[bytes]]:
    """A file that takes the target's name when the block ends well, and else is gone.

    What killed runs left beside the target is removed first; a part that lives is locked.

    Args:
        target: Not a link: what one leads to is replaced, if the caller resolves it.
    """
    for left in target.parent.glob(f"{escape(target.name)}.*{_SUFFIX}"):
        _remove_unheld(left)
    part, file = _begun(target)
    try:
        with file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        part.replace(target)
    finally:
        with suppress(OSError):  # in a folder that may not be entered
            part.unlink(missing_ok=True)


def _begun(target: Path) -> tuple[Path, IO[bytes]]:
    """A new part, locked; another one where somebody took it for a left one before it was."""
    for _ in range(_TRIES):
        part = target.with_name(f"{target.name}.{uuid4().hex[:12]}{_SUFFIX}")
        file = part.open("xb")
        with suppress(OSError, portalocker.LockException):
            portalocker.lock(file, portalocker.LOCK_EX | portalocker.LOCK_NB)
            if os.path.samestat(part.stat(), os.fstat(file.fileno())):
                return part, file
        file.close()
        with suppress(OSError):
            part.unlink(missing_ok=True)
    # No lock is to be had on this disk, by those who clean up neither.
    part = target.with_name(f"{target.name}.{uuid4().hex[:12]}{_SUFFIX}")
    return part, part.open("xb")


def _remove_unheld(part: Path) -> None:
    with suppress(OSError, portalocker.LockException):
        with part.open("r+b") as file:
            portalocker.lock(file, portalocker.LOCK_EX | portalocker.LOCK_NB)
        part.unlink()
