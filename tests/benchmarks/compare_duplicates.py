"""Find duplicates by comparing every pair and through the index, side by side.

    SBERT_RETRIEVER_DATA=... python tests/benchmarks/compare_duplicates.py [-n 10000 50000 100000]

Vectors: `testing.mixed_vectors` over MiniLM vectors of SciFact's titles and first words, 384-d,
with short texts, embedded in a folder. Prints for each size the seconds of the matrix products
alone, of `find_duplicates` in both ways, and the share of the pairs that the index found.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import warnings
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np
from scifact import corpus

from sbert_retriever import BiEncoder, Passage, Retriever
from sbert_retriever.index.points import draft
from sbert_retriever.mining import find_duplicates, pairs_at_least
from sbert_retriever.testing import HashEncoder, mixed_vectors

if TYPE_CHECKING:
    from sbert_retriever.types import Vectors


def fill(retriever: Retriever, rows: Vectors) -> float:
    """Write vectors (n, dim) with short texts; seconds that building the index took."""
    store = retriever.store
    for start in range(0, len(rows), 1000):
        part = rows[start : start + 1000]
        passages = [
            Passage(f"p{n}", f"a short text with the number {n}", {"n": n})
            for n in range(start, start + len(part))
        ]
        drafts = [draft(passage, store.layout) for passage in passages]
        store.connection.run(store.write(drafts, part))
    started = perf_counter()
    store.connection.run(store.settle(bulk=True))
    return perf_counter() - started


def measured(base: Vectors, n: int, threshold: float) -> dict[str, object]:
    """Times and recall at one size."""
    rows = mixed_vectors(base, n).vectors
    started = perf_counter()
    truth = pairs_at_least(rows, threshold)
    products = perf_counter() - started
    with (
        tempfile.TemporaryDirectory() as folder,
        Retriever.open(folder, model=HashEncoder(dim=rows.shape[1])) as retriever,
    ):
        built = fill(retriever, rows)
        times = {}
        for exact in (True, False):
            started = perf_counter()
            found = find_duplicates(retriever, threshold, exact=exact)
            times[exact] = perf_counter() - started
    return {
        "n": n,
        "threshold": threshold,
        "pairs": truth.found,
        "products_s": round(products, 2),
        "exact_s": round(times[True], 2),
        "index_s": round(times[False], 2),
        "recall_of_index": round(found.found / max(truth.found, 1), 5),
        "index_built_in_s": round(built, 2),
    }


def main() -> None:
    """Measure and print, a line a size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-n", type=int, nargs="+", default=[10_000, 50_000, 100_000])
    parser.add_argument("--threshold", type=float, default=0.9)
    parser.add_argument("--base", type=Path, help="Vectors as .npy, in the place of SciFact's.")
    options = parser.parse_args()
    warnings.filterwarnings("ignore", module="qdrant_client")
    if options.base:
        base = np.load(options.base)
    else:
        documents = corpus(Path(os.environ["SBERT_RETRIEVER_DATA"]))
        titles = [text[:300] for _, text in documents]
        base = BiEncoder.load("all-MiniLM-L6-v2", on_truncate="ignore").encode_passages(titles)
    for n in options.n:
        print(json.dumps(measured(base, n, options.threshold)), flush=True)


if __name__ == "__main__":
    main()
