"""How an embedded collection grows: 10,000, 100,000 and a million passages.

    SBERT_RETRIEVER_DATA=... python tests/benchmarks/grow.py -o grow.jsonl [--sizes 10000,100000]

Vectors of 384 dimensions: `testing.mixed_vectors` over MiniLM's of SciFact. They go through
`Retriever.index` with short texts and metadata, all of it but the model: the encoder looks them
up. Every size has a process of its own; sizes that the output has are not measured again. Prints a
table: passages a second into the index (comparing with what is there, laying out and writing),
seconds to build the graph, memory of the process that asks afterwards (in parentheses what is its
own and not a mapped file) and the most that building took, disk, time to open, times of a search
through the client (median and 95th percentile of 200, the first pass and the second), recall@10.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import numpy.typing as npt
from compare_quantisation import encoded

from sbert_retriever import Passage, Retriever
from sbert_retriever.testing import mixed_vectors
from sbert_retriever.types import ModelIdentity

Matrix = npt.NDArray[np.float32]
K = 10
SIZES = (10_000, 100_000, 1_000_000)
COLUMNS = {
    "passages": "passages",
    "per_second": "indexed, per s",
    "graph_s": "graph, s",
    "peak_mb": "building, MB at most",
    "rss": "asking, MB",
    "disk_mb": "disk, MB",
    "open_ms": "open, ms",
    "first": "first pass, ms",
    "warm": "again, ms",
    "recall": "recall@10",
}


class LookedUp:
    """An encoder whose vectors are there: the text "passage 17" has row 17."""

    def __init__(self, rows: Matrix) -> None:
        self._rows = rows
        self.dim = rows.shape[1]
        self.identity = ModelIdentity(name="looked-up", dim=self.dim, normalize=True, weights="0")

    def encode_passages(self, texts: list[str]) -> Matrix:
        return np.asarray(self._rows[[int(text.split()[1]) for text in texts]])

    encode_queries = encode_passages


def fill(folder: Path, vectors: Path) -> dict[str, Any]:
    """Index all rows; what it took."""
    rows = np.load(vectors, mmap_mode="r")
    topics = ("pumps", "valves", "seals", "pipes")
    passages = (
        Passage(f"p{n}", f"passage {n}", {"topic": topics[n % 4], "n": n}) for n in range(len(rows))
    )
    with Retriever.open(folder, model=LookedUp(rows)) as retriever:
        client = retriever.store.connection.client
        built, build = [], client.optimize

        def timed_build(collection_name: str, **options: Any) -> Any:
            started = perf_counter()
            done = build(collection_name, **options)
            built.append(perf_counter() - started)
            return done

        client.optimize = timed_build
        started = perf_counter()
        retriever.index(passages)
        seconds = perf_counter() - started - sum(built)
    peak = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, -1))
    return {
        "passages": len(rows),
        "per_second": round(len(rows) / seconds),
        "graph_s": round(sum(built), 1),
        "peak_mb": round(peak / 1024),
        "disk_mb": round(disk_bytes(folder) / 1e6),
    }


def disk_bytes(folder: Path) -> int:
    """What the files take, holes in them left out."""
    return sum(p.stat().st_blocks * 512 for p in folder.rglob("*") if p.is_file())


def ask(folder: Path, questions: Path) -> dict[str, Any]:
    """Open and search; memory, times and recall."""
    with np.load(questions) as file:
        asked, truth = file["queries"], file["truth"]
    started = perf_counter()
    with Retriever.open(folder, model=LookedUp(asked)) as retriever:
        opened = perf_counter() - started
        passes: list[list[float]] = []
        hits = 0
        for _ in range(2):
            taken = []
            for query, nearest in zip(asked, truth, strict=True):
                began = perf_counter()
                found = retriever.search_by_vector(query, K)
                taken.append((perf_counter() - began) * 1e3)
                hits += len({hit.id for hit in found} & {f"p{n}" for n in nearest})
            passes.append(taken)
        memory = status_mb()
    return {
        "rss": f"{memory['VmRSS']:,} ({memory['RssAnon']:,})",
        "open_ms": round(opened * 1e3),
        "first": percentiles(passes[0]),
        "warm": percentiles(passes[1]),
        "recall": round(hits / (2 * K * len(asked)), 4),
    }


def percentiles(milliseconds: list[float]) -> str:
    median, high = np.percentile(milliseconds, [50, 95])
    return f"{median:.2f} / {high:.2f}"


def status_mb() -> dict[str, int]:
    """Memory of this process, in MB."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    fields = dict(line.split(":", 1) for line in lines if "kB" in line)
    return {name: int(value.split()[0]) // 1024 for name, value in fields.items()}


def measured(size: int, base: Matrix) -> dict[str, Any]:
    """All figures of one size, each half in a fresh process."""
    made = mixed_vectors(base, size)
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch)
        np.save(place / "rows.npy", made.vectors)
        np.savez(
            place / "asked.npz", queries=made.queries, truth=nearest(made.vectors, made.queries)
        )
        del made
        row: dict[str, Any] = {}
        for half, file in (("fill", "rows.npy"), ("ask", "asked.npz")):
            command = [
                sys.executable,
                __file__,
                f"--{half}",
                str(place / "index"),
                str(place / file),
            ]
            row |= json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    return row


def nearest(rows: Matrix, queries: Matrix) -> npt.NDArray[np.int64]:
    """The ten nearest rows of each query, by blocks."""
    scores = np.empty((len(queries), 0), dtype=np.float32)
    ids = np.empty((len(queries), 0), dtype=np.int64)
    for start in range(0, len(rows), 50_000):
        block = queries @ rows[start : start + 50_000].T
        scores = np.concatenate([scores, block], axis=1)
        new = np.broadcast_to(np.arange(start, start + block.shape[1]), block.shape)
        ids = np.concatenate([ids, new], axis=1)
        order = np.argsort(-scores, axis=1, kind="stable")[:, :K]
        scores = np.take_along_axis(scores, order, axis=1)
        ids = np.take_along_axis(ids, order, axis=1)
    return ids


def table(rows: list[dict[str, Any]]) -> str:
    """As documentation has it."""
    lines = [f"| {' | '.join(COLUMNS.values())} |", "|---" * len(COLUMNS) + "|"]
    for row in sorted(rows, key=lambda row: row["passages"]):
        cells = [f"{row[c]:,}" if isinstance(row[c], int) else str(row[c]) for c in COLUMNS]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)))
    parser.add_argument("-o", "--output", type=Path, default=Path("grow.jsonl"))
    parser.add_argument("--vectors", type=Path, help="keep the encoded texts here (.npz)")
    parser.add_argument("--fill", nargs=2, type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--ask", nargs=2, type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.fill or options.ask:
        print(json.dumps(fill(*options.fill) if options.fill else ask(*options.ask)))
        return
    done = []
    if options.output.exists():
        done = [json.loads(line) for line in options.output.read_text().splitlines()]
    for size in map(int, options.sizes.split(",")):
        if size not in {row["passages"] for row in done}:
            done.append(measured(size, encoded(options.vectors)[0]))
            with options.output.open("a") as file:
                file.write(json.dumps(done[-1]) + "\n")
    print(table(done))


if __name__ == "__main__":
    main()
