"""Search 50,000 passages embedded and in qdrant-client's local mode, in one run.

    SBERT_RETRIEVER_DATA=... python tests/benchmarks/compare_engines.py [-n 50000]

Vectors: `testing.mixed_vectors` over MiniLM vectors of SciFact's abstracts, and plain Gaussian
ones beside them. Prints the median search time of each engine (ms, the two in turn), recall@10 of
the embedded engine against exact search, and the ef it was asked with.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import warnings
from pathlib import Path
from time import perf_counter

import numpy as np
import numpy.typing as npt
from qdrant_client import QdrantClient, models
from scifact import corpus

from sbert_retriever import BiEncoder
from sbert_retriever.index.embedded import EmbeddedClient
from sbert_retriever.testing import mixed_vectors

Matrix = npt.NDArray[np.float32]
K = 10


def filled(client: QdrantClient | EmbeddedClient, rows: Matrix) -> None:
    """Put all rows into a collection named "c"."""
    params = models.VectorParams(size=rows.shape[1], distance=models.Distance.COSINE)
    client.create_collection("c", vectors_config={"dense": params})
    for start in range(0, len(rows), 1000):
        points = [
            models.PointStruct.model_construct(
                id=start + i, vector={"dense": row}, payload={"text": f"passage {start + i}"}
            )
            for i, row in enumerate(rows[start : start + 1000].tolist())
        ]
        client.upsert("c", points=points)


def measured(rows: Matrix, queries: Matrix, efs: list[int | None]) -> dict[str, object]:
    """Times and recalls over one set of vectors (n, dim) and queries (m, dim)."""
    with tempfile.TemporaryDirectory() as folder:
        embedded, local = EmbeddedClient(Path(folder)), QdrantClient(":memory:")
        filled(local, rows)
        filled(embedded, rows)
        started = perf_counter()
        embedded.optimize("c")
        built = perf_counter() - started
        times: dict[str, list[float]] = {"local": [], "embedded": []}
        recalls: dict[str, float] = {}
        truth = np.argsort(-(queries @ rows.T), axis=1)[:, :K]
        for ef in efs:
            params = None if ef is None else models.SearchParams(hnsw_ef=ef)
            found = []
            for row in queries.tolist():
                started = perf_counter()
                answer = embedded.query_points(
                    "c", query=row, using="dense", limit=K, search_params=params
                )
                if ef is None:
                    times["embedded"].append((perf_counter() - started) * 1e3)
                    started = perf_counter()
                    local.query_points("c", query=row, using="dense", limit=K)
                    times["local"].append((perf_counter() - started) * 1e3)
                found.append({point.id for point in answer.points})
            shared = [len(f & set(t.tolist())) for f, t in zip(found, truth, strict=True)]
            recalls["default" if ef is None else str(ef)] = float(np.mean(shared)) / K
        embedded.close()
    medians = {name: statistics.median(values) for name, values in times.items()}
    return {
        "build_s": built,
        "search_ms_p50": medians,
        "ratio": medians["embedded"] / medians["local"],
        "recall_at_10_by_ef": recalls,
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-n", type=int, default=50_000)
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--noise", type=float, default=0.1)
    options = parser.parse_args()
    warnings.filterwarnings("ignore", module="qdrant_client")
    documents = corpus(Path(os.environ["SBERT_RETRIEVER_DATA"]))
    titles = [text[:300] for _, text in documents]
    base = BiEncoder.load("all-MiniLM-L6-v2", on_truncate="ignore").encode_passages(titles)
    rows, queries = mixed_vectors(
        base, options.n, queries=options.queries, noise=options.noise, seed=0
    )
    generator = np.random.default_rng(0)
    gaussian = generator.normal(size=(options.n + options.queries, base.shape[1]))
    gaussian = (gaussian / np.linalg.norm(gaussian, axis=1, keepdims=True)).astype(np.float32)
    efs: list[int | None] = [None, 64, 128, 256]
    print(
        json.dumps(
            {
                "n": options.n,
                "noise": options.noise,
                "mixed": measured(rows, queries, efs),
                "gaussian": measured(gaussian[: options.n], gaussian[options.n :], efs),
            },
            indent=2,
        )
    )


if __name__ == "__main__":
    main()
