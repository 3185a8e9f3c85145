"""How an embedded collection grows: 10,000, 100,000 and a million passages.

    SBERT_RETRIEVER_DATA=... python tests/benchmarks/grow.py -o grow.jsonl [--sizes 10000,100000]

Vectors of 384 dimensions: `testing.mixed_blocks` over MiniLM's of SciFact. They go through
`Retriever.index` with short texts and metadata, all of it but the model: the encoder reads them
from a file. Each size is filled by one fresh process and asked by another; sizes that the output
has are not measured again. Prints a table: passages a second into the index (comparing with what
is there, laying out and writing, all but the graph), seconds to build the graph, the most memory
that filling and building took (sampled ten times a second, with the process that builds), memory
of the process that asks afterwards, disk, time to open, times of a search without the model
(median and 95th percentile of 200 questions, the first pass and the second), recall@10 against
exact search, and both again with `ef=256`. In memory, what is in parentheses is the process's own,
the rest is mapped files, which the system drops when it needs the room.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import numpy.typing as npt
from compare_quantisation import encoded

from sbert_retriever import Passage, Retriever
from sbert_retriever.testing import mixed_blocks
from sbert_retriever.types import ModelIdentity

Matrix = npt.NDArray[np.float32]
K = 10
QUESTIONS = 200
WIDER = 256
SIZES = (10_000, 100_000, 1_000_000)
COLUMNS = {
    "passages": "passages",
    "per_second": "indexed, per s",
    "graph_s": "graph, s",
    "peak": "filling, MB at most",
    "rss": "asking, MB",
    "disk_mb": "disk, MB",
    "open_ms": "open, ms",
    "first": "first pass, ms",
    "warm": "again, ms",
    "recall": "recall@10",
    "wide": f"ef={WIDER}, ms",
    "wide_recall": "recall@10 of it",
}


class LookedUp:
    """An encoder whose vectors are there: the text "passage 17" has row 17 of a file of float32.

    The file is read and not mapped: mapped rows would count as memory of the process.
    """

    def __init__(self, file: Path, dim: int) -> None:
        self._file = file
        self.dim = dim
        self.identity = ModelIdentity(name="looked-up", dim=dim, normalize=True, weights="0")

    def encode_passages(self, texts: list[str]) -> Matrix:
        numbers = np.array([int(text.split()[1]) for text in texts])
        first, rows = numbers.min(), np.ptp(numbers) + 1
        start = first * self.dim * np.dtype(np.float32).itemsize
        block = np.fromfile(self._file, np.float32, rows * self.dim, offset=start)
        return np.asarray(block.reshape(rows, self.dim)[numbers - first])

    encode_queries = encode_passages


def fill(folder: Path, vectors: Path, dim: int) -> dict[str, Any]:
    """Index all rows of a file; what it took."""
    n = vectors.stat().st_size // (4 * dim)
    topics = ("pumps", "valves", "seals", "pipes")
    passages = (
        Passage(f"p{i}", f"passage {i}", {"topic": topics[i % 4], "n": i}) for i in range(n)
    )
    with Retriever.open(folder, model=LookedUp(vectors, dim)) as retriever:
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
    return {
        "passages": n,
        "per_second": round(n / seconds),
        "graph_s": round(sum(built), 1),
        "disk_mb": round(disk_bytes(folder) / 1e6),
    }


def disk_bytes(folder: Path) -> int:
    """What the files take, holes in them left out."""
    return sum(p.stat().st_blocks * 512 for p in folder.rglob("*") if p.is_file())


def ask(folder: Path, questions: Path, dim: int) -> dict[str, Any]:
    """Open and search; memory, times and recall."""
    with np.load(questions) as file:
        asked, truth = file["queries"], file["truth"]
    started = perf_counter()
    with Retriever.open(folder, model=LookedUp(questions, dim)) as retriever:
        opened = perf_counter() - started
        first, _ = asked_once(retriever, asked, truth)
        warm, recall = asked_once(retriever, asked, truth)
        resident, own = memory_kb("self")
        asked_once(retriever, asked, truth, ef=WIDER)
        wide, wide_recall = asked_once(retriever, asked, truth, ef=WIDER)
    return {
        "rss": megabytes(resident, own),
        "open_ms": round(opened * 1e3),
        "first": first,
        "warm": warm,
        "recall": recall,
        "wide": wide,
        "wide_recall": wide_recall,
    }


def asked_once(
    retriever: Retriever, asked: Matrix, truth: npt.NDArray[np.int64], **options: Any
) -> tuple[str, float]:
    """A pass over all questions: its times, and recall@10."""
    taken, hits = [], 0
    for query, nearest_rows in zip(asked, truth, strict=True):
        began = perf_counter()
        found = retriever.search_by_vector(query, K, **options)
        taken.append((perf_counter() - began) * 1e3)
        hits += len({hit.id for hit in found} & {f"p{n}" for n in nearest_rows})
    return percentiles(taken), round(hits / (K * len(asked)), 4)


def percentiles(milliseconds: list[float]) -> str:
    median, high = np.percentile(milliseconds, [50, 95])
    return f"{median:.2f} / {high:.2f}"


def megabytes(resident_kb: int, own_kb: int) -> str:
    return f"{resident_kb // 1024:,} ({own_kb // 1024:,})"


def status(process: int | str) -> dict[str, str]:
    """What Linux says of a process; {} where it has ended."""
    try:
        lines = Path(f"/proc/{process}/status").read_text(encoding="utf-8").splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return {}
    return dict(line.split(":", 1) for line in lines if ":" in line)


def memory_kb(process: int | str) -> tuple[int, int]:
    """Resident memory, and what of it is the process's own."""
    said = status(process)
    resident, own = (int(said.get(name, "0").split()[0]) for name in ("VmRSS", "RssAnon"))
    return resident, own


def family(process: int) -> list[int]:
    """A process and its children."""
    others = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]
    return [process, *(p for p in others if status(p).get("PPid", "").strip() == str(process))]


def run(half: str, *arguments: object) -> tuple[dict[str, Any], str]:
    """Run a half in a fresh process: what it says, and the most memory that it took."""
    command = [sys.executable, __file__, f"--{half}", *map(str, arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        resident, own = 0, 0
        while process.poll() is None:
            taken = [memory_kb(p) for p in family(process.pid)]
            resident = max(resident, sum(all_of_it for all_of_it, _ in taken))
            own = max(own, sum(anonymous for _, anonymous in taken))
            time.sleep(0.1)
        assert process.stdout is not None
        said = process.stdout.read()
    if process.returncode:
        raise SystemExit(f"{half} ended with status {process.returncode}")
    return json.loads(said), megabytes(resident, own)


def measured(size: int, base: Matrix) -> dict[str, Any]:
    """All figures of one size."""
    dim = base.shape[1]
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch)
        rows, asked = place / "rows.f32", place / "asked.npz"
        queries = written(rows, base, size)
        all_rows = np.memmap(rows, np.float32, "r", shape=(size, dim))
        np.savez(asked, queries=queries, truth=nearest(all_rows, queries))
        filled, peak = run("fill", place / "index", rows, dim)
        found, _ = run("ask", place / "index", asked, dim)
    return {**filled, "peak": peak, **found}


def written(file: Path, base: Matrix, size: int) -> Matrix:
    """Write `size` vectors; the questions, which come after them, are returned."""
    left, held_out = size, [base[:0]]
    with file.open("wb") as out:
        for block in mixed_blocks(base, size + QUESTIONS):
            block[:left].tofile(out)
            held_out.append(block[left:])
            left = max(left - len(block), 0)
    return np.concatenate(held_out)


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
    parser.add_argument("--fill", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--ask", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    for half, arguments in ((fill, options.fill), (ask, options.ask)):
        if arguments:
            folder, file, dim = arguments
            print(json.dumps(half(Path(folder), Path(file), int(dim))))
            return
    done = []
    if options.output.exists():
        done = [json.loads(line) for line in options.output.read_text("utf-8").splitlines()]
    for size in map(int, options.sizes.split(",")):
        if size not in {row["passages"] for row in done}:
            done.append(measured(size, encoded(options.vectors)[0]))
            with options.output.open("a", encoding="utf-8") as file:
                file.write(json.dumps(done[-1]) + "\n")
    print(table(done))


if __name__ == "__main__":
    main()
