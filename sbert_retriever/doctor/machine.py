"""Versions, disk and memory."""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from sbert_retriever.doctor.visit import Status, Visit

_PACKAGES = ("sbert-retriever", "qdrant-edge-py", "qdrant-client", "torch", "transformers")
_FREE_BYTES_WARNING = 1 << 30


def look_at_versions(visit: Visit) -> None:
    """The versions of what matters."""
    found = [f"Python {platform.python_version()}"]
    for package in _PACKAGES:
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            found.append(f"{package} (not installed as a package)")
    visit.add("versions", "ok", ", ".join(found))


def look_at_machine(visit: Visit) -> None:
    """Room on the disk and in memory."""
    folder = Path(visit.location)
    memory = _available_memory()
    said = [f"{_size(memory)} of memory free"] if memory is not None else []
    status: Status = "ok"
    if "://" not in visit.location and folder.is_dir():
        used, free = _disk_usage(folder), shutil.disk_usage(folder).free
        said += [f"{_size(used)} used in {folder}", f"{_size(free)} free on its disk"]
        if free < _FREE_BYTES_WARNING:
            status = "warning"
    way_out = "make room: building the index needs about as much again as the collection takes"
    visit.add("disk and memory", status, ", ".join(said) or "not known on this system", way_out)


def _disk_usage(folder: Path) -> int:
    """Bytes on the disk: the engine's files are sparse, and look larger than they are."""
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            total += _blocks(Path(parent, name))
    return total


def _blocks(path: Path) -> int:
    try:
        facts = path.lstat()
    except OSError:
        return 0
    return int(getattr(facts, "st_blocks", -(-facts.st_size // 512)) * 512)


def _available_memory() -> int | None:
    """Bytes that programs may still take; None where the system does not say."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        kib = next(line.split()[1] for line in lines if line.startswith("MemAvailable:"))
        return int(kib) * 1024
    except (OSError, StopIteration, ValueError):
        return _sysconf_memory()


def _sysconf_memory() -> int | None:
    sysconf: Callable[[str], int] | None = getattr(os, "sysconf", None)
    try:
        return None if sysconf is None else sysconf("SC_AVPHYS_PAGES") * sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return None


def _size(count: int) -> str:
    """Bytes, readable.

    Examples:
        >>> _size(1536), _size(3 * 2**30)
        ('1.5 KiB', '3.0 GiB')
    """
    value, units = float(count), ["B", "KiB", "MiB", "GiB", "TiB"]
    while value >= 1024 and len(units) > 1:
        value, units = value / 1024, units[1:]
    return f"{value:.1f} {units[0]}"
