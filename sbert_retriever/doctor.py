"""Look a collection over: one finding a question, each with the way out."""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from os import PathLike
from pathlib import Path
from time import perf_counter
from typing import Any, Literal

import numpy as np

from sbert_retriever.errors import (
    CollectionNotFoundError,
    InputError,
    SbertError,
    StoreLockedError,
    StoreUnavailableError,
)
from sbert_retriever.index.connection import connect
from sbert_retriever.index.points import RESERVED, stored_fingerprint
from sbert_retriever.index.steps import RetryPolicy, Steps, call
from sbert_retriever.index.store import faulty_rows
from sbert_retriever.retriever import Retriever
from sbert_retriever.types import Passage, RetrieverInfo

Status = Literal["ok", "warning", "problem"]

_PACKAGES = ("sbert-retriever", "qdrant-edge-py", "qdrant-client", "torch", "transformers")
_FEW_UNINDEXED_BYTES = 10_000_000
"""The embedded engine leaves fewer bytes of vectors unindexed: exact search is fast enough."""
_MANY_UNINDEXED = 50_000
"""On a server, whose own threshold is not ours to set."""
_TRUNCATION_WARNING, _TRUNCATION_PROBLEM = 0.02, 0.2
_FREE_BYTES_WARNING = 1 << 30
_LOOKED_AT = 200
_NORM_TOLERANCE = 0.02
_SLOW_MS = 2000.0
_PATIENCE_S = 3.0


@dataclass(frozen=True)
class Check:
    """One question, answered.

    Args:
        name: What was looked at.
        status: "ok", "warning" or "problem".
        finding: What was found.
        way_out: What to do about it; empty where nothing need be done.
    """

    name: str
    status: Status
    finding: str
    way_out: str = ""


@dataclass
class _Visit:
    """What the checks share, and what they found so far."""

    location: str
    collection_name: str
    model: str | PathLike[str] | None
    device: str
    dtype: str
    api_key: str | None
    checks: list[Check] = field(default_factory=list)

    def add(self, name: str, status: Status, finding: str, way_out: str = "") -> None:
        self.checks.append(Check(name, status, finding, way_out if status != "ok" else ""))

    @contextmanager
    def noting(self, name: str, way_out: str = "") -> Iterator[None]:
        """Turn an error of ours into a problem, and go on."""
        try:
            yield
        except SbertError as error:
            self.add(name, "problem", str(error), way_out)


def examine(
    location: str | PathLike[str],
    *,
    model: str | PathLike[str] | None = None,
    collection_name: str = "default",
    device: str = "auto",
    dtype: str = "auto",
    api_key: str | None = None,
) -> list[Check]:
    """Look a collection over, from its files to a timed search. Changes nothing.

    Args:
        location: A folder or a URL.
        model: What it will be used with; None is the collection's own.
        collection_name: Which collection there.
        device: Where the model is to run.
        dtype: In which floating type.
        api_key: For a URL; None reads QDRANT_API_KEY.

    Returns:
        One check a question, in the order of looking. What keeps a collection from being opened
        is a problem among them, and not raised.

    Raises:
        InputError: The location has no known form.
    """
    visit = _Visit(os.fspath(location), collection_name, model, device, dtype, api_key)
    _versions(visit)
    _machine(visit)
    retriever = _opened(visit)
    if retriever is not None:
        with retriever:
            facts = retriever.info()
            _engine(visit, retriever)
            _contract(visit, facts)
            _index(visit, facts)
            sample = _passages(visit, retriever, facts)
            _model(visit, facts, sample)
    return visit.checks


def _versions(visit: _Visit) -> None:
    found = [f"Python {platform.python_version()}"]
    for package in _PACKAGES:
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            found.append(f"{package} (not installed as a package)")
    visit.add("versions", "ok", ", ".join(found))


def _machine(visit: _Visit) -> None:
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


def _opened(visit: _Visit) -> Retriever | None:
    """The collection, opened without a model, so that every other question can be asked."""
    try:
        _knock(visit)
        retriever = Retriever.open(
            visit.location,
            collection_name=visit.collection_name,
            api_key=visit.api_key,
            create=False,
        )
    except InputError:
        raise
    except SbertError as error:
        visit.add("collection", "problem", str(error), _way_in(visit, error))
        return None
    facts = retriever.info()
    visit.add(
        "collection", "ok", f"{facts.count:,} passages in {facts.collection_name!r}, {facts.dim}-d"
    )
    return retriever


def _knock(visit: _Visit) -> None:
    """Ask a server something small, with less patience than a job has."""
    if "://" not in visit.location:
        return
    retry = RetryPolicy(deadline_s=_PATIENCE_S)
    connection = connect(visit.location, api_key=visit.api_key, retry=retry)
    try:
        connection.run(_ask("get_collections"))
    finally:
        connection.close()


def _way_in(visit: _Visit, error: SbertError) -> str:
    """What to do where a collection cannot be opened."""
    if isinstance(error, StoreUnavailableError):
        return f"check that a Qdrant server runs at {visit.location}"
    if isinstance(error, StoreLockedError):
        return "close the other process, or wait for it to end"
    if isinstance(error, CollectionNotFoundError):
        connection = connect(visit.location, api_key=visit.api_key)
        try:
            there = connection.run(_ask("get_collections")).collections
        finally:
            connection.close()
        names = ", ".join(repr(collection.name) for collection in there)
        return f"there are: {names}" if names else "index something there first"
    return "restore the folder from a copy, or index the sources again into another folder"


def _engine(visit: _Visit, retriever: Retriever) -> None:
    connection = retriever.store.connection
    if connection.engine != "server":
        visit.add("engine", "ok", f"{connection.engine}, in this process")
        return
    with visit.noting("engine", "check the server"):
        answer = connection.run(_ask("info"))
        visit.add("engine", "ok", f"Qdrant {answer.version} at {connection.location}")


def _ask(method: str, **arguments: Any) -> Steps[Any]:
    return (yield call(method, **arguments))


def _contract(visit: _Visit, facts: RetrieverInfo) -> None:
    if facts.identity is None:
        visit.add(
            "contract",
            "problem" if visit.model is None else "warning",
            "another program made this collection, and it names no model",
            "say with --model which one made its vectors",
        )
        return
    identity = facts.identity
    if identity.dim != facts.dim:
        visit.add(
            "contract",
            "problem",
            f"it names a model of {identity.dim} dimensions, the vectors have {facts.dim}",
            "restore collection.json from a copy, or index the sources again",
        )
        return
    precision = f", {identity.precision}" if identity.precision else ""
    visit.add("contract", "ok", f"{identity.name} (weights {identity.weights}{precision})")


def _index(visit: _Visit, facts: RetrieverInfo) -> None:
    unindexed = facts.count - facts.indexed
    most = (
        _FEW_UNINDEXED_BYTES // (4 * facts.dim) if facts.engine == "embedded" else _MANY_UNINDEXED
    )
    finding = f"{facts.indexed:,} of {facts.count:,} vectors in the HNSW graph"
    if unindexed < most:
        return visit.add("index", "ok", f"{finding}; the rest is few enough to compare one by one")
    return visit.add(
        "index",
        "problem",
        f"{finding}; the other {unindexed:,} are compared one by one, which is slow",
        "run `sbert-retriever index` on the sources again: it builds the graph at its end"
        if facts.engine == "embedded"
        else "wait for the server's optimiser, or look at its indexing_threshold",
    )


@dataclass(frozen=True)
class _Sample:
    """A look at some passages: texts, vectors (n, dim) where there are, and marks."""

    passages: list[Passage]
    vectors: np.ndarray[Any, np.dtype[np.float32]]


def _passages(visit: _Visit, retriever: Retriever, facts: RetrieverInfo) -> _Sample:
    """Whether the passages looked at are whole."""
    store = retriever.store
    empty = _Sample([], np.empty((0, facts.dim), np.float32))
    if facts.count == 0:
        visit.add("passages", "warning", "there are none", "index something")
        return empty
    with visit.noting("passages", "delete that passage, or index its source again"):
        page, _ = store.connection.run(
            store.scroll(condition=None, limit=_LOOKED_AT, offset=None, vectors=True)
        )
        found = [(passage, vector) for passage, vector in page if vector is not None]
        sample = _Sample([p for p, _ in found], np.array([v for _, v in found], dtype=np.float32))
        _soundness(visit, sample, facts, without=len(page) - len(found))
        _marks(visit, store.connection.run(_unmarked(store.collection_name)), len(page))
        return sample
    return empty


def _soundness(visit: _Visit, sample: _Sample, facts: RetrieverInfo, *, without: int) -> None:
    looked = len(sample.passages) + without
    vectors = sample.vectors.reshape(len(sample.passages), facts.dim)
    bad = faulty_rows(vectors, score_kind=facts.score_kind)
    names = ", ".join(repr(sample.passages[row].id[:60]) for row in list(bad)[:3])
    if bad or without:
        what = [f"{len(bad)} have NaN, infinity or only zeros ({names})"] if bad else []
        what += [f"{without} have none"] if without else []
        visit.add(
            "vectors",
            "problem",
            f"of {looked} looked at, {' and '.join(what)}: no search finds them",
            "delete them with `sbert-retriever delete --id ID`, and index their sources again",
        )
        return
    visit.add("vectors", "ok", f"{looked} looked at, all finite and not zero")


def _unmarked(collection_name: str) -> Steps[int]:
    """How many of the points looked at carry no hash to compare by."""
    records, _ = yield from _scrolled(collection_name)
    return sum(stored_fingerprint(record.payload) is None for record in records)


def _scrolled(collection_name: str) -> Steps[Any]:
    return (
        yield call(
            "scroll",
            collection_name=collection_name,
            limit=_LOOKED_AT,
            with_payload=[RESERVED],
            with_vectors=False,
        )
    )


def _marks(visit: _Visit, unmarked: int, looked: int) -> None:
    if unmarked:
        visit.add(
            "passages",
            "warning",
            f"{unmarked} of {looked} looked at were not written by this program: indexing cannot "
            "tell whether they changed",
            "index their sources again",
        )
    else:
        visit.add("passages", "ok", f"{looked} looked at, all with text, id and hash")


def _model(visit: _Visit, facts: RetrieverInfo, sample: _Sample) -> None:
    """The model asked for: found, the collection's own, right for the texts, and working."""
    with (
        visit.noting("model", "give --model with the model that made the vectors, or rebuild"),
        Retriever.open(
            visit.location,
            model=visit.model,
            collection_name=visit.collection_name,
            device=visit.device,
            dtype=visit.dtype,
            api_key=visit.api_key,
            create=False,
        ) as retriever,
    ):
        encoder: Any = retriever.encoder
        visit.add("model", "ok", f"{encoder.identity.name}, the same as the collection's")
        visit.add("device", "ok", f"{encoder.device}, {encoder.dtype}")
        _truncation(visit, encoder, sample)
        _smoke(visit, retriever, facts, sample)


def _truncation(visit: _Visit, encoder: Any, sample: _Sample) -> None:
    limit = encoder.max_length
    if not sample.passages or limit is None:
        return
    counts = encoder.token_counts([p.text for p in sample.passages], role="passage")
    share = float((counts > limit).mean())
    finding = (
        f"{share:.0%} of {len(counts)} texts looked at are longer than the {limit} tokens the "
        f"model reads (longest: {counts.max()})"
    )
    status: Status = (
        "ok"
        if share < _TRUNCATION_WARNING
        else "warning"
        if share < _TRUNCATION_PROBLEM
        else "problem"
    )
    way_out = (
        f"the ends of those texts are not searched: index again with --chunk-tokens "
        f"{max(1, limit - 2)} or less"
    )
    visit.add("truncation", status, finding, way_out)


def _smoke(visit: _Visit, retriever: Retriever, facts: RetrieverInfo, sample: _Sample) -> None:
    """One search for a text that is there."""
    if not sample.passages:
        return
    asked = next((p.text for p in sample.passages if p.text.strip()), "text")
    encoder: Any = retriever.encoder
    encoder.encode_queries(["the first call loads the weights"], on_truncate="ignore")
    started = perf_counter()
    (vector,) = encoder.encode_queries([asked[:500]], on_truncate="ignore")
    encoded = perf_counter()
    hits = retriever.search_by_vector(vector, 10)
    ended = perf_counter()
    encode, search, elapsed = (
        1e3 * span for span in (encoded - started, ended - encoded, ended - started)
    )
    finding = f"{elapsed:.0f} ms (encoding {encode:.0f}, search {search:.1f})"
    if not hits:
        visit.add(
            "search", "problem", f"{finding}, and nothing was found", "export and import again"
        )
    elif elapsed > _SLOW_MS:
        visit.add("search", "warning", finding, "see index and device above")
    else:
        visit.add("search", "ok", f"{finding}, {len(hits)} of {facts.count:,} passages")


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
