"""A tar archive with the checksum of every file, written whole or not at all, believed by none.

The first member is a manifest. Whatever comes after it is put on the disk only where the manifest
names it, as a plain file below the target folder, and is used only when every checksum was right.
"""

from __future__ import annotations

import errno
import gzip
import hashlib
import io
import json
import os
import tarfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, Any

from sbert_retriever.errors import ReadError, StoreError
from sbert_retriever.part_files import written_whole

FORMAT = "sbert-retriever snapshot"
FORMAT_VERSION = 1
_MANIFEST = "manifest.json"
_MANIFEST_BYTES = 64 * 2**20
_BLOCK = 2**20
_GZIP_MAGIC = b"\x1f\x8b"
# Vectors hardly shrink, and the holes in the engine's files vanish at any level.
_LEVEL = 1
_BROKEN = (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile, OSError)


def write_archive(file: Path, facts: Mapping[str, Any], members: Mapping[str, Path]) -> int:
    """Write files into an archive, under another name until it is whole.

    Args:
        file: The archive; compressed unless its name ends in ".tar".
        facts: What the manifest says besides the files.
        members: {path in the archive: file}; they must not change meanwhile.

    Returns:
        Bytes of the archive.

    Raises:
        StoreError: It cannot be written.
    """
    sizes = {name: path.stat().st_size for name, path in members.items()}
    sums = {n: {"size": sizes[n], "sha256": _sum(path)} for n, path in members.items()}
    content = {"format": FORMAT, "version": FORMAT_VERSION, **facts, "files": sums}
    manifest = json.dumps({**content, "checksum": _sum_of(content)}, indent=1).encode()
    file = file.resolve()  # what a link leads to is replaced, and not the link
    try:
        with written_whole(file) as stream:
            with _writer(stream, file) as archive:
                archive.addfile(_plain(_MANIFEST, len(manifest)), io.BytesIO(manifest))
                for name, path in members.items():
                    with path.open("rb") as content_of:
                        archive.addfile(_plain(name, sizes[name]), content_of)
            size = stream.tell()
    except OSError as error:
        raise StoreError(f"{file} cannot be written: {error.strerror or error}") from error
    return size


@contextmanager
def _writer(stream: IO[bytes], file: Path) -> Iterator[tarfile.TarFile]:
    if file.suffix == ".tar":
        with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as archive:
            yield archive
        return
    with (
        gzip.GzipFile(fileobj=stream, mode="wb", compresslevel=_LEVEL, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        yield archive


def _plain(name: str, size: int) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.size, member.mode = size, 0o644
    return member


def _sum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _sum_of(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


# Reading --------------------------------------------------------------------------------


class Archive:
    """An archive that is being read. Get one with `opened`.

    Attributes:
        facts: The manifest.
    """

    def __init__(self, name: str, members: tarfile.TarFile) -> None:
        self._name = name
        self._members = members
        self.facts = self._manifest()

    def unpack(self, folder: Path) -> None:
        """Put every file below a folder, each checked against the manifest.

        Raises:
            ReadError: A file is missing, damaged or not in the manifest, or is no plain file, or
                its path leads out of the folder.
        """
        expected = dict(self.facts["files"])
        for name in expected:
            self._check_path(name)
        with _reading(self._name):
            # Iterating would begin again with the manifest.
            while (member := self._members.next()) is not None:
                self._check_member(member, expected)
                self._place(member, folder / member.name, expected.pop(member.name))
            self._read_on()
        if expected:
            raise ReadError(
                f"{self._name} lacks {len(expected)} of its files (such as {next(iter(expected))}):"
                " it was truncated. Nothing was restored"
            )

    def _read_on(self) -> None:
        """To the end, where a compressed file has a checksum of its own."""
        while self._members.fileobj is not None and self._members.fileobj.read(_BLOCK):
            pass

    def _check_member(self, member: tarfile.TarInfo, expected: Mapping[str, Any]) -> None:
        self._check_path(member.name)
        if not member.isreg() or member.issparse():
            raise ReadError(
                f"{self._name} holds {member.name!r}, which is {_kind(member)}, where only plain "
                "files belong: it was not made by `sbert-retriever snapshot`. Nothing was restored"
            )
        if member.name not in expected:
            raise ReadError(
                f"{self._name} holds {member.name!r}, which its manifest does not name, or twice: "
                "it was damaged or tampered with. Nothing was restored"
            )

    def _check_path(self, name: str) -> None:
        path = PurePosixPath(name)
        harmless = name == str(path) and not path.is_absolute() and ".." not in path.parts
        if not harmless or "\\" in name or ":" in name or "\0" in name or name in ("", "."):
            raise ReadError(
                f"{self._name} holds the path {name!r}, which leads out of the place that it is "
                "restored to: it was tampered with. Nothing was restored"
            )

    def _place(self, member: tarfile.TarInfo, target: Path, expected: Mapping[str, Any]) -> None:
        target.parent.mkdir(parents=True, exist_ok=True)
        source = self._members.extractfile(member)
        digest, size = hashlib.sha256(), 0
        with target.open("xb") as file:
            while block := (source.read(_BLOCK) if source is not None else b""):
                digest.update(block)
                size += len(block)
                if block.count(0) == len(block):
                    file.seek(len(block), os.SEEK_CUR)  # a hole, as it was
                else:
                    file.write(block)
            file.truncate(size)
            file.flush()
            os.fsync(file.fileno())
        if size != expected["size"] or digest.hexdigest() != expected["sha256"]:
            raise ReadError(
                f"{self._name} is damaged: the checksum of {member.name} is wrong. Nothing was "
                "restored; use another snapshot"
            )

    def _manifest(self) -> dict[str, Any]:
        with _reading(self._name):
            first = self._members.next()
            if first is None or first.name != _MANIFEST or not first.isreg():
                raise ReadError(
                    f"{self._name} is no snapshot: it does not begin with a manifest. For an "
                    "export, use `sbert-retriever import`"
                )
            if first.size > _MANIFEST_BYTES:
                raise ReadError(f"{self._name}: the manifest is too large to be one")
            file = self._members.extractfile(first)
            raw = file.read() if file is not None else b""
        return self._checked(raw)

    def _checked(self, raw: bytes) -> dict[str, Any]:
        try:
            facts = json.loads(raw)
            claimed = facts.pop("checksum")
            known = facts["format"] == FORMAT and isinstance(facts["files"], dict)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise ReadError(f"{self._name}: the manifest is damaged ({error})") from error
        if not known or claimed != _sum_of(facts):
            raise ReadError(f"{self._name}: the manifest is damaged: its checksum is wrong")
        if facts["version"] != FORMAT_VERSION:
            raise ReadError(
                f"{self._name} has snapshot format {facts['version']!r}, and this version reads "
                f"{FORMAT_VERSION}: upgrade sbert-retriever"
            )
        return dict(facts)


@contextmanager
def opened(file: Path) -> Iterator[Archive]:
    """Open an archive and read its manifest.

    Raises:
        ReadError: It is none, or was damaged.
    """
    with _reading(str(file)):
        packed = file.open("rb")
    with ExitStack() as held:
        held.enter_context(packed)
        with _reading(str(file)):
            members = held.enter_context(_tar(packed))
        yield Archive(str(file), members)


def _tar(packed: io.BufferedReader) -> tarfile.TarFile:
    if packed.peek(2)[:2] == _GZIP_MAGIC:
        return tarfile.open(fileobj=packed, mode="r:gz")
    return tarfile.open(fileobj=packed, mode="r:")


@contextmanager
def _reading(name: str) -> Iterator[None]:
    """What is wrong with an archive, in one sentence."""
    try:
        yield
    except _BROKEN as error:
        if getattr(error, "errno", None) == errno.ENOSPC:
            raise StoreError(
                f"the disk has no room for what is in {name}: make room. Nothing was restored"
            ) from error
        what = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise ReadError(
            f"{name} cannot be read as a snapshot ({what}): it was truncated, damaged, or is none. "
            "Nothing was restored"
        ) from error


def _kind(member: tarfile.TarInfo) -> str:
    if member.issym() or member.islnk():
        return f"a link to {member.linkname!r}"
    if member.isdir():
        return "a folder"
    return "a device, a pipe or the like"
