"""What was measured, query by query, and the file that keeps it.

Every figure of a report is computed from these records alone, so that anybody can compute them
again: `read_records`, then `report.summarise`. The file is JSON lines: a header, then the queries
with their grades, then for each point its answers and its times.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from os import PathLike
from pathlib import Path
from typing import Any, Literal, TextIO

from sbert_retriever.errors import ReadError
from sbert_retriever.evaluation.read_ranking import Qrels
from sbert_retriever.tradeoff.points import BASELINE, OperatingPoint
from sbert_retriever.types import Profile

FORMAT = 1
STAGES = ("encode", "search", "rerank", "total")
Truth = Literal["qrels", "rerank", "exact"]


@dataclass(frozen=True)
class Timing:
    """Milliseconds of one query at one point, asked alone.

    Args:
        query: Its id.
        encode: The query through the bi-encoder.
        search: The first stage.
        rerank: Late interaction and cross-encoder.
        pairs: How many passages the cross-encoder scored.
    """

    query: str
    encode: float
    search: float
    rerank: float = 0.0
    pairs: int = 0

    @property
    def total(self) -> float:
        """All stages."""
        return self.encode + self.search + self.rerank


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What was measured on, and how.

    Args:
        location: Of the collection.
        collection_name: Its name.
        passages: How many it holds.
        dim: Width of its vectors.
        indexed: How many of them are in the graph.
        engine: "embedded", "local" or "server".
        encoder: In words.
        scorer: In words; None where there was none.
        machine: In words.
        k: How many passages a query gets.
        truth: What answers are compared with: judgements, the deepest rerank, or exact search.
        seed: Of the samples and the bootstrap.
        created: When, ISO 8601.
        notes: What was left out, and why.
    """

    location: str
    collection_name: str
    passages: int
    dim: int
    indexed: int
    engine: str
    encoder: str
    scorer: str | None
    machine: str
    k: int
    truth: Truth
    seed: int
    created: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Records:
    """Everything that a report is made of.

    Args:
        setting: What was measured on.
        points: What was measured, the baseline first.
        grades: {query id: {passage id: grade}} of the truth.
        answers: {point: {query id: passage ids, best first}}; none for what was extrapolated.
        timings: {point: one entry for each query that was timed}.
        memory_mb: {point: memory of the process while it was timed}.
        sampled_pairs: Pairs a query that the cross-encoder over everything was timed on.
    """

    setting: Setting
    points: tuple[OperatingPoint, ...]
    grades: Qrels
    answers: Mapping[str, Mapping[str, list[str]]]
    timings: Mapping[str, list[Timing]]
    memory_mb: Mapping[str, float] = field(default_factory=dict)
    sampled_pairs: int = 0


def write_records(path: str | PathLike[str], records: Records) -> None:
    """Write the per-query file."""
    with Path(path).open("w", encoding="utf-8", newline="\n") as file:
        for line in _lines(records):
            file.write(json.dumps(line, ensure_ascii=False) + "\n")


def _lines(records: Records) -> Iterator[dict[str, Any]]:
    yield {
        "kind": "setting",
        "format": FORMAT,
        **asdict(records.setting),
        "sampled_pairs": records.sampled_pairs,
    }
    for point in records.points:
        memory = records.memory_mb.get(point.name)
        yield {"kind": "point", **asdict(point), "memory_mb": memory}
    for query, grades in records.grades.items():
        yield {"kind": "truth", "query": query, "grades": grades}
    for point in records.points:
        for query, ids in records.answers.get(point.name, {}).items():
            yield {"kind": "answer", "point": point.name, "query": query, "ids": ids}
        for timing in records.timings.get(point.name, []):
            yield {"kind": "timing", "point": point.name, **asdict(timing)}


def read_records(path: str | PathLike[str]) -> Records:
    """Read a per-query file, which may be compressed (.gz).

    Raises:
        ReadError: It cannot be read, is no such file (with the line), or is not whole.
    """
    place = Path(path)
    gathered = _Gathered()
    try:
        with _opened(place) as file:
            for number, line in enumerate(file, 1):
                _take(gathered, line, f"{place}, line {number}")
    except (OSError, EOFError, UnicodeDecodeError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or error
        raise ReadError(f"{place} cannot be read: {reason}") from error
    if gathered.setting is None:
        raise ReadError(f"{place} holds no setting: it is no per-query file of a trade-off")
    records = gathered.records(gathered.setting)
    _check_whole(records, place)
    return records


def _check_whole(records: Records, place: Path) -> None:
    """Refuse what a run that was killed while it wrote the file left."""
    answered = [point.name for point in records.points if not point.everything]
    absent = [
        *([] if BASELINE in answered else [f"point {BASELINE!r}"]),
        *(f"answers of {name!r}" for name in answered if not records.answers.get(name)),
        *(f"times of {p.name!r}" for p in records.points if not records.timings.get(p.name)),
    ]
    if absent:
        more = f" and {len(absent) - 1} more" if len(absent) > 1 else ""
        raise ReadError(
            f"{place} is not whole: it has no {absent[0]}{more}. The run that wrote it was "
            "stopped, perhaps: measure again"
        )


def _opened(place: Path) -> TextIO:
    if place.suffix == ".gz":
        return gzip.open(place, "rt", encoding="utf-8")
    return place.open(encoding="utf-8")


def _take(gathered: _Gathered, line: str, where: str) -> None:
    try:
        entry = json.loads(line)
        gathered.take(entry.pop("kind"), entry)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ReadError(
            f"{where}: no line of a per-query file ({type(error).__name__}: {error})"
        ) from error


class _Gathered:
    """Lines, put together again."""

    def __init__(self) -> None:
        self.setting: Setting | None = None
        self._sampled = 0
        self._points: list[OperatingPoint] = []
        self._memory: dict[str, float] = {}
        self._grades: Qrels = {}
        self._answers: dict[str, dict[str, list[str]]] = {}
        self._timings: dict[str, list[Timing]] = {}

    def take(self, kind: str, entry: dict[str, Any]) -> None:
        """One line."""
        {
            "setting": self._take_setting,
            "point": self._take_point,
            "truth": self._take_truth,
            "answer": self._take_answer,
            "timing": self._take_timing,
        }[kind](entry)

    def records(self, setting: Setting) -> Records:
        """All of them."""
        return Records(
            setting=setting,
            points=tuple(self._points),
            grades=self._grades,
            answers=self._answers,
            timings=self._timings,
            memory_mb=self._memory,
            sampled_pairs=self._sampled,
        )

    def _take_setting(self, entry: dict[str, Any]) -> None:
        if entry["format"] != FORMAT:
            raise ValueError(f"format {entry['format']!r}, expected {FORMAT}")
        self._sampled = entry["sampled_pairs"]
        known = {each.name: entry[each.name] for each in fields(Setting)}
        self.setting = Setting(**{**known, "notes": tuple(known["notes"])})

    def _take_point(self, entry: dict[str, Any]) -> None:
        memory = entry.pop("memory_mb")
        profile = Profile(**entry.pop("profile"))
        point = OperatingPoint(profile=profile, **entry)
        self._points.append(point)
        if memory is not None:
            self._memory[point.name] = memory

    def _take_truth(self, entry: dict[str, Any]) -> None:
        self._grades[entry["query"]] = entry["grades"]

    def _take_answer(self, entry: dict[str, Any]) -> None:
        self._answers.setdefault(entry["point"], {})[entry["query"]] = entry["ids"]

    def _take_timing(self, entry: dict[str, Any]) -> None:
        point = entry.pop("point")
        self._timings.setdefault(point, []).append(Timing(**entry))
