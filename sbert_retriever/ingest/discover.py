"""Paths, folders and globs to files, each once."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import Literal, TypeAlias

from sbert_retriever.errors import InputError, InputTypeError

TEXT_SUFFIXES = frozenset({".txt", ".md", ".rst", ".html", ".htm", ".pdf", ".docx", ".py"})
RECORD_SUFFIXES = frozenset({".jsonl", ".csv"})
SUFFIXES = TEXT_SUFFIXES | RECORD_SUFFIXES

SkipReason: TypeAlias = Literal["suffix", "unreadable"]
"""Why a file in a folder was passed over: not a suffix we read, or not to be opened at all."""
OnSkip: TypeAlias = Callable[[Path, SkipReason], None]


def find_files(
    paths: Iterable[str | os.PathLike[str]],
    *,
    suffixes: Collection[str] = SUFFIXES,
    on_skip: OnSkip | None = None,
) -> Iterator[Path]:
    """Files named by paths, folders (with what lies below them) and globs.

    Folders are walked in sorted order; hidden files and folders in them are passed over without
    a word, files with other suffixes are handed to `on_skip`. Symbolic links are followed, and
    a file reached twice comes once, under the first name.

    Args:
        paths: Files, folders, and globs with *, ? and [...] ("**" for any depth).
        suffixes: Those of the files that are wanted, in lower case.
        on_skip: Told of each file passed over and the reason.

    Returns:
        An iterator; the paths themselves are checked before it is returned.

    Raises:
        InputError: Some paths do not exist (all are named), or a file that was named itself has
            a suffix that is not read.
        InputTypeError: `paths` is one string, or holds something that is not a path.
    """
    roots = _roots(paths, suffixes)
    return _walk(roots, suffixes, on_skip or _say_nothing)


def _say_nothing(path: Path, reason: SkipReason) -> None:
    pass


def _roots(
    paths: Iterable[str | os.PathLike[str]], suffixes: Collection[str]
) -> list[tuple[Path, bool]]:
    """(path, whether it was named itself) of each argument, globs expanded."""
    if isinstance(paths, (str, bytes, os.PathLike)):
        raise InputTypeError(f"paths is a single {type(paths).__name__}: give a list of paths")
    roots: list[tuple[Path, bool]] = []
    missing: list[str] = []
    for given in paths:
        name = _as_str(given)
        path = Path(name)
        if name and os.path.lexists(path):
            roots.append((path, True))
        elif found := list(_expand(name)):
            roots.extend((path, False) for path in found)
        else:
            missing.append(name)
    if missing:
        raise InputError(f"no such file or folder: {', '.join(map(repr, missing))}")
    _refuse_unknown((path for path, named in roots if named and not _known(path.is_dir)), suffixes)
    return roots


def _as_str(given: object) -> str:
    if isinstance(given, (str, os.PathLike)):
        name = os.fspath(given)
        if isinstance(name, str):
            return name
    raise InputTypeError(f"a path is {type(given).__name__}, expected str or Path")


def _refuse_unknown(files: Iterable[Path], suffixes: Collection[str]) -> None:
    unknown = [path.as_posix() for path in files if path.suffix.lower() not in suffixes]
    if unknown:
        raise InputError(
            f"cannot read {', '.join(unknown)}: the suffixes read are {' '.join(sorted(suffixes))}"
        )


def _expand(pattern: str) -> Iterator[Path]:
    """What a glob matches, sorted; hidden names only where the glob asks for them."""
    parts = Path(pattern).parts
    magic = next((n for n, part in enumerate(parts) if any(c in part for c in "*?[")), None)
    if magic is None:
        return
    base = Path(*parts[:magic])
    hidden = any(part.startswith(".") for part in parts[magic:])
    for path in sorted(base.glob(str(Path(*parts[magic:])))):
        below = path.relative_to(base).parts
        if hidden or not any(part.startswith(".") for part in below):
            yield path


def _walk(
    roots: list[tuple[Path, bool]], suffixes: Collection[str], on_skip: OnSkip
) -> Iterator[Path]:
    files: set[str] = set()
    folders: set[str] = set()
    for root, _ in roots:
        for path in _below(root, folders, on_skip):
            real = os.path.realpath(path)
            if real not in files:
                files.add(real)
                if _wanted(path, suffixes, on_skip):
                    yield path


def _wanted(path: Path, suffixes: Collection[str], on_skip: OnSkip) -> bool:
    if path.suffix.lower() not in suffixes:
        on_skip(path, "suffix")
        return False
    if not _known(path.is_file):  # a broken link, a pipe: reading it would fail or hang
        on_skip(path, "unreadable")
        return False
    return True


def _below(root: Path, seen: set[str], on_skip: OnSkip) -> Iterator[Path]:
    """The files at or below a path; `seen` holds the real folders, so that loops end."""
    stack = [root]
    while stack:
        path = stack.pop()
        if not _known(path.is_dir):
            yield path
            continue
        real = os.path.realpath(path)
        if real in seen:
            continue
        seen.add(real)
        stack.extend(reversed(_visible(path, on_skip)))


def _known(is_it: Callable[[], bool]) -> bool:
    """Whether a path is of a kind; what stands in a folder that may not be entered is of none."""
    try:
        return is_it()
    except OSError:
        return False


def _visible(folder: Path, on_skip: OnSkip) -> list[Path]:
    try:
        # One that may be listed and not entered has nothing to read either.
        paths = sorted(folder.iterdir()) if os.access(folder, os.X_OK) else None
    except OSError:
        paths = None
    if paths is None:
        on_skip(folder, "unreadable")
        return []
    return [path for path in paths if not path.name.startswith(".")]
