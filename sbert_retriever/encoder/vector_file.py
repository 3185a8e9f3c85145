"""Vectors to a .npy file as they come, so that they never lie in memory together."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING
from uuid import uuid4

import numpy as np
import numpy.typing as npt

from sbert_retriever.errors import InputError

if TYPE_CHECKING:
    from sbert_retriever.types import Vectors

_HEADER_BYTES = 128
"""Room for the header of any number of rows: it is written again at the end."""


class VectorFile:
    """Writes float32 rows to a .npy file, which is put in place whole when it is closed.

    Of two that write to one path at a time, the file of the later to end stays. One that is killed
    leaves a `.partial` file beside it.

    Args:
        path: Where it is put; a file of that name is replaced.
        dim: Width of a row.

    Raises:
        InputError: The folder is not there, or cannot be written, or the path is a folder itself.
    """

    def __init__(self, path: str | os.PathLike[str], dim: int) -> None:
        self.path = Path(path)
        self._dim, self._rows = dim, 0
        try:
            if self.path.is_dir():
                raise InputError(f"{self.path} is a folder, expected a file: name one in it")
            self._partial = self.path.with_name(f"{self.path.name}.{uuid4().hex[:12]}.partial")
            self._file = self._partial.open("xb")
        except OSError as error:
            raise InputError(
                f"{self.path} cannot be written ({error.strerror}): name a file in a folder that "
                "is there and yours to write"
            ) from error
        self._file.write(_header(0, dim))

    def append(self, vectors: Vectors) -> None:
        """Write rows (n, dim) after those before.

        Raises:
            InputError: The disk takes no more.
        """
        with self._told():
            self._file.write(np.ascontiguousarray(vectors, dtype="<f4").tobytes())
        self._rows += len(vectors)

    def __enter__(self) -> VectorFile:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            with self._told():
                if kind is None:
                    self._finish()
        finally:
            # Closing writes what is left, which a full disk refuses again.
            with suppress(OSError):
                self._file.close()
            self._partial.unlink(missing_ok=True)

    def _finish(self) -> None:
        self._file.seek(0)
        self._file.write(_header(self._rows, self._dim))
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        self._partial.replace(self.path)

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise InputError(
                f"{self.path} cannot be written to its end ({error.strerror}): what was written is "
                "removed; make room, or name a file on another disk"
            ) from error

    def read(self) -> npt.NDArray[np.float32]:
        """The rows (n, dim), read from the disk as they are looked at."""
        if self._rows == 0:
            return np.empty((0, self._dim), dtype=np.float32)
        rows: npt.NDArray[np.float32] = np.load(self.path, mmap_mode="r")
        return rows


def _header(rows: int, dim: int) -> bytes:
    """The .npy header, version 1.0, of a matrix: always 128 bytes."""
    written = io.BytesIO()
    shape = {"descr": "<f4", "fortran_order": False, "shape": (rows, dim)}
    np.lib.format.write_array_header_1_0(written, shape)
    header = written.getvalue()
    if len(header) != _HEADER_BYTES:
        raise InputError(f"{rows} x {dim} vectors do not fit a .npy header")
    return header
