"""A collection as lines of JSON, vectors included, and back.

The first line is a header (format, model contract), then comes one line a passage, and a closing
line with their number, so that a file that was cut is noticed. Numbers come back exactly.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from sbert_retriever.errors import ContractError, InputError, ReadError, StoreRequestError
from sbert_retriever.index.contract import Contract
from sbert_retriever.index.steps import Steps
from sbert_retriever.index.store import PassageStore
from sbert_retriever.part_files import written_whole
from sbert_retriever.types import Failure, IndexReport, Passage

FORMAT = "sbert-retriever export"
FORMAT_VERSION = 1
_PAGE = 256
_TAIL_BYTES = 4096

OnProgress = Callable[[IndexReport], None]


@dataclass(frozen=True, kw_only=True)
class ExportHeader:
    """The first line of an export.

    Args:
        collection_name: Where the passages came from.
        dim: Width of the vectors.
        contract: What made them; None where another program did.
    """

    collection_name: str
    dim: int
    contract: Contract | None


@dataclass(frozen=True)
class Entry:
    """A passage and its vector.

    Args:
        line: Its number in an export, from 1; None where it comes from elsewhere.
        passage: The passage.
        vector: float32 (dim,).
    """

    line: int | None
    passage: Passage
    vector: npt.NDArray[np.float32]


# Writing --------------------------------------------------------------------------------


def export_passages(
    store: PassageStore, target: Path | IO[str], *, on_progress: OnProgress | None = None
) -> int:
    """Write every passage with its vector; needs no model.

    Args:
        store: The collection, e.g. `retriever.store`.
        target: A file, written under another name until it is whole; a device, a pipe or an open
            text stream, written as it comes.
        on_progress: Called after each page; `unchanged` is the number written so far.

    Returns:
        How many passages.

    Raises:
        StoreRequestError: A vector holds NaN or infinity, which JSON cannot carry.
    """
    steps = _export(store, on_progress)
    if not isinstance(target, Path):
        return _run(store, steps(target))
    if target.exists() and not target.is_file():
        # A device or a pipe must not be replaced by a file; a folder says that it is one.
        with target.open("w", encoding="utf-8", newline="\n") as stream:
            return _run(store, steps(stream))
    target = target.resolve()  # what a link leads to is replaced, and not the link
    with written_whole(target) as raw:
        file = io.TextIOWrapper(raw, encoding="utf-8", newline="\n")
        count = _run(store, steps(file))
        file.flush()
        file.detach()
    return count


def _run(store: PassageStore, steps: Steps[int]) -> int:
    return store.connection.run(steps)


def _export(store: PassageStore, on_progress: OnProgress | None) -> Callable[[IO[str]], Steps[int]]:
    def steps(file: IO[str]) -> Steps[int]:
        facts = yield from store.facts()
        yield from store.refuse_tenants("an export")
        header = {
            "format": FORMAT,
            "version": FORMAT_VERSION,
            "collection": store.collection_name,
            "dim": facts.dim,
            "score_kind": facts.score_kind,
            "contract": facts.contract.to_metadata() if facts.contract is not None else None,
        }
        file.write(json.dumps(header, ensure_ascii=False) + "\n")
        count, started, offset = 0, monotonic(), None
        while True:
            page, offset = yield from store.scroll(
                condition=None, limit=_PAGE, offset=offset, vectors=True
            )
            file.writelines(_line(passage, vector) for passage, vector in page)
            count += len(page)
            if on_progress is not None:
                on_progress(IndexReport(unchanged=count, seconds=monotonic() - started))
            if offset is None:
                break
        file.write(json.dumps({"end": FORMAT, "count": count}) + "\n")
        return count

    return steps


def _line(passage: Passage, vector: npt.NDArray[np.float32] | None) -> str:
    if vector is None or not np.isfinite(vector).all():
        what = "no vector" if vector is None else "NaN or infinity in its vector"
        raise StoreRequestError(
            f"passage {passage.id[:80]!r} has {what} and cannot be exported: delete it "
            f"(`sbert-retriever delete LOCATION --id ...`) or index it again"
        )
    values = {
        "id": passage.id,
        "text": passage.text,
        "metadata": dict(passage.metadata),
        "source": passage.source,
    }
    # Nine digits bring every float32 back, and are half as long as what json writes.
    numbers = ",".join(map("{:.9g}".format, vector.tolist()))
    return f'{json.dumps(values, ensure_ascii=False)[:-1]}, "vector": [{numbers}]}}\n'


# Reading --------------------------------------------------------------------------------


class ExportFile:
    """An export, read line by line.

    Args:
        lines: The lines of the file.
        name: What to call it in messages.

    Attributes:
        header: The first line.
        failures: What is wrong with lines read so far, the closing line included.

    Raises:
        ReadError: The first line is not the header of an export, or of a newer version's.
    """

    def __init__(self, lines: Iterable[str], name: str) -> None:
        self._lines = enumerate(iter(lines), 1)
        self._name = name
        self.failures: list[Failure] = []
        self.header = self._header()

    def entries(self) -> Iterator[Entry]:
        """The passages; what cannot be used is added to `failures`, and the rest goes on."""
        count, closed = 0, False
        number = 1
        for number, line in self._lines:
            if not line.strip():
                continue
            try:
                values = _object(line)
                if "end" in values:
                    closed = True
                    self._check_count(number, count, values.get("count"))
                    continue
                count += 1
                yield Entry(number, _passage(values), _vector(values, self.header.dim))
            except (InputError, TypeError) as error:
                self._fail(number, str(error))
        if not closed:
            self._fail(
                number,
                "the file ends here without its closing line, so it was truncated: export again",
            )

    def _header(self) -> ExportHeader:
        number, line = next(self._lines, (1, ""))
        try:
            values = _object(line)
        except InputError as error:
            raise ReadError(f"{self._name}, line {number}: {error}") from error
        if values.get("format") != FORMAT:
            raise ReadError(
                f"{self._name}, line {number}: not the header of an export. For records of your "
                "own use `sbert-retriever index`"
            )
        if values.get("version") != FORMAT_VERSION:
            raise ReadError(
                f"{self._name} has export format {values.get('version')!r}, and this version reads "
                f"{FORMAT_VERSION}: upgrade sbert-retriever"
            )
        try:
            contract = Contract.from_metadata(values.get("contract"))
            return ExportHeader(
                collection_name=str(values["collection"]),
                dim=int(values["dim"]),
                contract=contract,
            )
        except (ContractError, KeyError, TypeError, ValueError) as error:
            raise ReadError(
                f"{self._name}, line {number}: the header is damaged ({error})"
            ) from error

    def _check_count(self, number: int, count: int, written: object) -> None:
        if count != written:
            self._fail(
                number, f"{count} passages came before the closing line, which says {written}"
            )

    def _fail(self, number: int, reason: str) -> None:
        place = f"{self._name}, line {number}"
        self.failures.append(Failure(f"{self._name}#{number}", f"{place}: {reason}"))


def check_closed(file: Path) -> None:
    """Look at a file's end before anything is read.

    Raises:
        ReadError: It does not end with the closing line of an export.
    """
    with file.open("rb") as stream:
        size = stream.seek(0, os.SEEK_END)
        stream.seek(max(0, size - _TAIL_BYTES))
        last = stream.read().rstrip().rpartition(b"\n")[2]
    try:
        closed = "end" in json.loads(last)
    except (ValueError, TypeError):
        closed = False
    if not closed:
        raise ReadError(
            f"{file} does not end with the closing line of an export: it was truncated, or is not "
            "an export. Export again; to save what is left of it, pipe it in"
        )


def _object(line: str) -> dict[str, Any]:
    try:
        values = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InputError(f"not JSON: {error}") from error
    if not isinstance(values, dict):
        raise InputError(f"{type(values).__name__}, expected an object")
    return values


def _passage(values: dict[str, Any]) -> Passage:
    missing = [name for name in ("id", "text") if name not in values]
    if missing:
        raise InputError(f"no {' and no '.join(map(repr, missing))}")
    metadata = values.get("metadata")
    return Passage(
        values["id"], values["text"], {} if metadata is None else metadata, values.get("source")
    )


def _vector(values: dict[str, Any], dim: int) -> npt.NDArray[np.float32]:
    try:
        with np.errstate(over="ignore"):  # what is beyond float32 becomes infinity, refused later
            vector = np.asarray(values.get("vector"), dtype=np.float32)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"its vector is not a list of numbers: {error}") from error
    if vector.shape != (dim,):
        raise InputError(f"its vector has the shape {vector.shape}, expected ({dim},)")
    return vector
