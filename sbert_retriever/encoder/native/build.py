"""Compile a kernel once and keep it: a few seconds at the first use, nothing later."""

from __future__ import annotations

import ctypes
import hashlib
import logging
import os
import shutil
import subprocess
import tempfile
from functools import lru_cache
from pathlib import Path
from time import monotonic

from sbert_retriever.encoder.precision import cpu_flags
from sbert_retriever.forks import Lock

LOGGER = logging.getLogger("sbert_retriever.encoder")
"""Says, at INFO, that a kernel is compiled."""

SOURCE = Path(__file__).with_name("bert_int8.cpp")
NEEDED = ("avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512_vnni", "fma")
"""What the CPU must have, as Linux names it."""

_FLAGS = (
    "-O3",
    "-std=c++17",
    "-shared",
    "-fPIC",
    "-pthread",
    "-w",  # gcc 12 warns of its own headers
    "-fno-math-errno",
    *(f"-m{name.replace('_', '')}" for name in NEEDED),
)
_COMPILERS = ("c++", "g++", "clang++")
_PATIENCE_S = 120
_MAKING = Lock()


class NoKernelError(Exception):
    """Why there is no kernel here, as the end of a sentence."""


def kernel() -> ctypes.CDLL:
    """The compiled kernel; that there is none is found out once, too.

    Raises:
        NoKernelError: The CPU cannot run it, or it cannot be compiled.
    """
    with _MAKING:
        found = _kernel_or_reason()
    if isinstance(found, str):
        raise NoKernelError(found)
    return found


def forget_kernel() -> None:
    """Look for a kernel, or a compiler, again when one is next asked for."""
    _kernel_or_reason.cache_clear()


@lru_cache(maxsize=1)
def _kernel_or_reason() -> ctypes.CDLL | str:
    try:
        return _kernel()
    except NoKernelError as error:
        return str(error)


def _kernel() -> ctypes.CDLL:
    if missing := [name for name in NEEDED if name not in cpu_flags()]:
        raise NoKernelError(f"this CPU has no {missing[0]}")
    source = SOURCE.read_bytes()
    key = hashlib.sha256(source + " ".join(_FLAGS).encode()).hexdigest()[:16]
    path = _folder() / f"bert_int8-{key}.so"
    if not path.is_file():
        try:
            _compile(path)
        except OSError as error:  # a full disk, or a quota
            raise NoKernelError(f"{path} cannot be written ({error.strerror})") from error
    try:
        return ctypes.CDLL(str(path))
    except OSError:
        # Cut short by a power failure, perhaps: once more, from the source.
        return _compiled_again(path)


def _compiled_again(path: Path) -> ctypes.CDLL:
    try:
        path.unlink()
        _compile(path)
        return ctypes.CDLL(str(path))
    except OSError as error:
        raise NoKernelError(f"{path} cannot be loaded ({error})") from error


def _compile(path: Path) -> None:
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        made = Path(folder) / path.name
        command = [*_compiler(), *_FLAGS, str(SOURCE), "-o", str(made)]
        LOGGER.info("compiling the int8 kernel, once on this machine: it takes some seconds")
        started = monotonic()
        try:
            done = subprocess.run(
                command,
                capture_output=True,
                encoding="utf-8",
                errors="replace",
                timeout=_PATIENCE_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise NoKernelError(f"the C++ compiler did not run ({error})") from error
        if done.returncode:
            why = next((line for line in done.stderr.split("\n") if "error" in line), "no reason")
            raise NoKernelError(f"the C++ compiler refused it ({why})")
        # Several processes may compile at once: each puts a whole file in place.
        made.replace(path)
    LOGGER.info("compiled the int8 kernel in %.1f s, kept as %s", monotonic() - started, path)


def _compiler() -> list[str]:
    """The C++ compiler: $CXX with what stands behind it, else the first of the usual names.

    Raises:
        NoKernelError: There is none.
    """
    wanted = os.environ.get("CXX", "")
    choices = [[wanted], wanted.split()] if wanted.strip() else [[name] for name in _COMPILERS]
    for name, *more in choices:
        if found := shutil.which(name):
            return [found, *more]
    raise NoKernelError(f"there is no C++ compiler ({wanted.strip() or ', '.join(_COMPILERS)})")


def _folder() -> Path:
    """Where compiled kernels are kept, for this user alone.

    Raises:
        NoKernelError: It cannot be written, or belongs to somebody else.
    """
    try:
        home = os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
    except RuntimeError as error:
        raise NoKernelError(
            "this user has no home folder to keep it in: set XDG_CACHE_HOME"
        ) from error
    folder = Path(home) / "sbert_retriever"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise NoKernelError(f"{folder} cannot be made ({error.strerror})") from error
    if not os.access(folder, os.W_OK):
        raise NoKernelError(f"{folder} cannot be written")
    owner = folder.stat()
    if owner.st_uid != os.getuid() or owner.st_mode & 0o022:
        raise NoKernelError(
            f"{folder} can be written by others, and it must be yours alone: chmod go-w it, or "
            "delete it"
        )
    return folder
