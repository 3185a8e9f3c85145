"""Counters of a service, in Prometheus' text format (version 0.0.4)."""

from __future__ import annotations

import os
import threading
import time
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TypeAlias

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_PREFIX = "sbert_retriever_"

Labels: TypeAlias = tuple[tuple[str, str], ...]


class Histogram:
    """How many values lie below each of some bounds, for each set of labels."""

    def __init__(self, bounds: tuple[float, ...] = _BOUNDS) -> None:
        self.bounds = bounds
        self.counts: dict[Labels, list[int]] = defaultdict(lambda: [0] * (len(bounds) + 1))
        self.sums: dict[Labels, float] = defaultdict(float)

    def observe(self, labels: Labels, value: float) -> None:
        """Count a value."""
        self.counts[labels][bisect_left(self.bounds, value)] += 1
        self.sums[labels] += value


class Metrics:
    """What a service counts. Safe to use from many threads."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._requests: dict[Labels, int] = defaultdict(int)
        self._outcomes: dict[Labels, int] = defaultdict(int)
        self._seconds = Histogram()
        self._stages = Histogram()
        self._gauges: dict[str, tuple[str, str, Callable[[], float]]] = {}
        self._started = time.time()

    def request(self, route: str, method: str, status: int, seconds: float) -> None:
        """Count a request that was answered."""
        with self._guard:
            labels = (("route", route), ("method", method), ("status", str(status)))
            self._requests[labels] += 1
            self._seconds.observe((("route", route),), seconds)

    def stages(self, timings_ms: Mapping[str, float]) -> None:
        """Count what each stage of a search took."""
        with self._guard:
            for stage, ms in timings_ms.items():
                self._stages.observe((("stage", stage),), ms / 1e3)

    def faq_outcome(self, outcome: str) -> None:
        """Count what a question to the FAQ came to."""
        with self._guard:
            self._outcomes[(("outcome", outcome),)] += 1

    def watch(self, name: str, kind: str, text: str, read: Callable[[], float]) -> None:
        """Have a number read at each scrape.

        Args:
            name: Without the prefix.
            kind: "gauge" or "counter".
            text: What it is.
            read: Gives it.
        """
        self._gauges[name] = (kind, text, read)

    def rendered(self) -> str:
        """All of it, as Prometheus reads it."""
        with self._guard:
            return "\n".join(self._lines()) + "\n"

    def _lines(self) -> Iterator[str]:
        yield from _head("requests_total", "counter", "Requests by route, method and status.")
        yield from _samples("requests_total", self._requests)
        yield from _head("faq_questions_total", "counter", "Questions to the FAQ by outcome.")
        yield from _samples("faq_questions_total", self._outcomes)
        yield from _histogram("request_seconds", "Time to answer, by route.", self._seconds)
        yield from _histogram("stage_seconds", "Stages of searches.", self._stages)
        for name, (kind, text, read) in self._gauges.items():
            yield from _head(name, kind, text)
            yield f"{_PREFIX}{name} {read():.10g}"
        yield "# TYPE process_start_time_seconds gauge"
        yield f"process_start_time_seconds {self._started:.3f}"
        yield "# TYPE process_cpu_seconds_total counter"
        yield f"process_cpu_seconds_total {time.process_time():.3f}"
        if (resident := resident_bytes()) is not None:
            yield "# TYPE process_resident_memory_bytes gauge"
            yield f"process_resident_memory_bytes {resident}"


def resident_bytes() -> int | None:
    """Memory of this process; None where the system does not tell."""
    try:
        pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    except (OSError, IndexError):
        return None
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def _head(name: str, kind: str, text: str) -> Iterator[str]:
    yield f"# HELP {_PREFIX}{name} {text}"
    yield f"# TYPE {_PREFIX}{name} {kind}"


def _samples(name: str, values: Mapping[Labels, float]) -> Iterator[str]:
    for labels, value in sorted(values.items()):
        yield f"{_PREFIX}{name}{_shown(labels)} {value}"


def _histogram(name: str, text: str, histogram: Histogram) -> Iterator[str]:
    yield from _head(name, "histogram", text)
    for labels, counts in sorted(histogram.counts.items()):
        total = 0
        for bound, count in zip((*histogram.bounds, None), counts, strict=True):
            total += count
            edge = "+Inf" if bound is None else f"{bound:g}"
            yield f"{_PREFIX}{name}_bucket{_shown((*labels, ('le', edge)))} {total}"
        yield f"{_PREFIX}{name}_sum{_shown(labels)} {histogram.sums[labels]:.9g}"
        yield f"{_PREFIX}{name}_count{_shown(labels)} {total}"


def _shown(labels: Labels) -> str:
    pairs = (f'{key}="{_escaped(value)}"' for key, value in labels)
    return "{" + ",".join(pairs) + "}" if labels else ""


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
