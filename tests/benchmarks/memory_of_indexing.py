"""Resident memory while 50,000 short passages are indexed from a generator.

    python tests/benchmarks/memory_of_indexing.py [-n 50000]

Prints the peak growth (MB) over the loaded, warmed-up model, with the index built at the end.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import tempfile
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter

from sbert_retriever import IndexReport, Passage, Retriever

WORDS = [
    "time",
    "year",
    "people",
    "way",
    "day",
    "man",
    "thing",
    "woman",
    "life",
    "child",
    "world",
    "school",
    "state",
    "family",
    "student",
    "group",
    "country",
    "problem",
    "hand",
    "part",
    "place",
    "case",
    "week",
    "company",
    "system",
    "program",
    "question",
    "work",
    "government",
    "number",
    "night",
    "point",
    "home",
    "water",
    "room",
    "mother",
    "area",
    "money",
    "story",
    "fact",
    "month",
    "lot",
    "right",
    "study",
    "book",
]


def passages(n: int) -> Iterator[Passage]:
    """N short passages of six to fourteen words."""
    generator = random.Random(0)
    for i in range(n):
        words = generator.choices(WORDS, k=generator.randint(6, 14))
        yield Passage(f"p{i}", " ".join(words), {"i": i})


def resident_mb() -> float:
    """Resident memory of this process without its mapped files, in MB."""
    fields = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(fields["RssAnon"].split()[0]) / 1024


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-n", type=int, default=50_000)
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as folder,
        Retriever.open(folder, model="all-MiniLM-L6-v2") as retriever,
    ):
        retriever.encoder.encode_passages([p.text for p in passages(256)])
        before = peak = resident_mb()

        def watch(report: IndexReport) -> None:
            nonlocal peak
            peak = max(peak, resident_mb())

        started = perf_counter()
        report = retriever.index(passages(options.n), on_progress=watch)
        seconds = perf_counter() - started
        peak = max(peak, resident_mb())
        print(
            json.dumps(
                {
                    "passages": report.added,
                    "loaded_mb": before,
                    "peak_growth_mb": peak - before,
                    "seconds": seconds,
                    "indexed": retriever.info().indexed,
                    "pid": os.getpid(),
                },
                indent=2,
            )
        )


if __name__ == "__main__":
    main()
