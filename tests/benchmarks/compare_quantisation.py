"""What small copies of vectors lose and take, by exact scan and through the graph.

    SBERT_RETRIEVER_DATA=... python tests/benchmarks/compare_quantisation.py [-n 50000]

Vectors: MiniLM's of SciFact's abstracts with its 300 questions, and `n` of `testing.mixed_vectors`
over them with 200. For each way to keep vectors, recall@10 against exact float32 search: by the
copies alone, and with the best 10, 20 and 40 by the copies compared again by the vectors. "scan"
looks at every copy, in a collection without a graph; "graph" walks as wide as the engine does by
itself, "wide" with ef=256. Of fewer than 10 MB of vectors the engine builds neither a graph nor
copies by int8 and product, and so none of SciFact's; here it is told to. Bytes are those of the
copies' files on disk, for each vector; the vectors stay beside them. Prints a JSON line for each
figure and tables in the end.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import qdrant_edge as edge
from qdrant_client import models
from scifact import corpus, queries

from sbert_retriever import BiEncoder
from sbert_retriever.index.edge import convert
from sbert_retriever.index.embedded import EmbeddedClient
from sbert_retriever.index.storage import Storage
from sbert_retriever.testing import mixed_vectors

Matrix = npt.NDArray[np.float32]
Ids = npt.NDArray[np.int64]
K = 10
KINDS: dict[str, Storage] = {
    "float32": Storage(),
    "float16": Storage(datatype="float16"),
    "int8": Storage(quantization="int8"),
    "turbo": Storage(quantization="turbo"),
    "product": Storage(quantization="product"),
    "binary": Storage(quantization="binary"),
}
WAYS: dict[str, dict[str, Any]] = {
    "alone": {"rescore": False},
    "best 10 rescored": {"rescore": True, "oversampling": 1.0},
    "best 20": {"rescore": True, "oversampling": 2.0},
    "best 40": {"rescore": True, "oversampling": 4.0},
}
# A graph, and the ways to search it with the width of the walk.
GRAPHS: list[tuple[models.HnswConfigDiff, dict[str, int | None]]] = [
    (models.HnswConfigDiff(m=0), {"scan": None}),
    (models.HnswConfigDiff(full_scan_threshold=10), {"graph": None, "wide": 256}),
]
SEARCHES = ("scan", "graph", "wide")


@dataclass(frozen=True)
class Figure:
    """One recall, and the bytes of a vector that is kept so."""

    vectors: str
    kind: str
    way: str
    search: str
    recall: float
    bytes: float


def filled(folder: Path, rows: Matrix, params: models.VectorParams) -> EmbeddedClient:
    """Put all rows into a collection named "c" with its copies, and its graph, if any."""
    client = EmbeddedClient(folder)
    client.create_collection("c", vectors_config={"dense": params})
    for start in range(0, len(rows), 1000):
        points = [
            models.PointStruct.model_construct(id=start + i, vector={"dense": row}, payload={})
            for i, row in enumerate(rows[start : start + 1000].tolist())
        ]
        client.upsert("c", points=points)
    client.close()
    optimized(folder / "c" / "shard", params)
    return EmbeddedClient(folder)


def optimized(shard_folder: Path, params: models.VectorParams) -> None:
    """Build copies and graph, however few vectors there are."""
    at_once = edge.EdgeOptimizersConfig(indexing_threshold=1)
    same = {"dense": convert.edge_vector_params(params)}
    config = edge.EdgeConfig(vectors=same, optimizers=at_once)
    shard = edge.EdgeShard.load(str(shard_folder), config)
    shard.optimize()
    shard.flush()
    shard.close()


def recall(
    client: EmbeddedClient,
    asked: Matrix,
    truth: Ids,
    *,
    quantization: dict[str, Any],
    ef: int | None,
) -> float:
    """recall@10, the mean over the questions."""
    copies = models.QuantizationSearchParams(**quantization)
    hits = 0
    for query, nearest in zip(asked, truth, strict=True):
        answer = client.query_points(
            "c",
            query=query.tolist(),
            using="dense",
            limit=K,
            search_params=models.SearchParams(hnsw_ef=ef, quantization=copies),
            with_payload=False,
        )
        hits += len({point.id for point in answer.points} & set(nearest.tolist()))
    return hits / (K * len(asked))


def measured(name: str, rows: Matrix, asked: Matrix) -> Iterator[Figure]:
    """Each kind, with and without a graph, asked each way."""
    truth = np.argsort(-(asked @ rows.T), axis=1, kind="stable")[:, :K]
    for kind, storage in KINDS.items():
        plain = storage.vector_params(size=rows.shape[1], distance=models.Distance.COSINE)
        for graph, searches in GRAPHS:
            with tempfile.TemporaryDirectory() as folder:
                graph_too = plain.model_copy(update={"hnsw_config": graph})
                client = filled(Path(folder), rows, graph_too)
                size = bytes_each(Path(folder), len(rows), storage, width=rows.shape[1])
                for way, quantization in WAYS.items() if storage.quantization else [("alone", {})]:
                    for search, ef in searches.items():
                        found = recall(client, asked, truth, quantization=quantization, ef=ef)
                        yield Figure(name, kind, way, search, round(found, 4), size)
                client.close()


def bytes_each(folder: Path, n: int, storage: Storage, *, width: int) -> float:
    """Of a copy where there are copies, else of a vector."""
    if storage.quantization is None:
        return width * (2 if storage.datatype else 4)
    files = [path for path in folder.rglob("*quantized*") if path.is_file()]
    return round(sum(path.stat().st_size for path in files) / n, 1)


def table(figures: list[Figure]) -> str:
    """As documentation has it: recall by scan / through the graph / by a wide walk."""
    found = {(f.kind, f.way, f.search): f for f in figures}
    lines = [f"| kept as | bytes each | {' | '.join(WAYS)} |", "|---" * (2 + len(WAYS)) + "|"]
    for kind in KINDS:
        cells = [
            " / ".join(f"{found[kind, way, search].recall:.3f}" for search in SEARCHES)
            if (kind, way, "scan") in found
            else ""
            for way in WAYS
        ]
        size = found[kind, "alone", "scan"].bytes
        lines.append(f"| {kind} | {size:,.0f} | {' | '.join(cells)} |")
    return "\n".join(lines)


def encoded(kept: Path | None) -> tuple[Matrix, Matrix]:
    """MiniLM's vectors of SciFact's abstracts and questions."""
    if kept is not None and kept.exists():
        with np.load(kept) as file:
            return file["passages"], file["questions"]
    data = Path(os.environ["SBERT_RETRIEVER_DATA"])
    encoder = BiEncoder.load("all-MiniLM-L6-v2", dtype="float32")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that abstracts are longer than the model reads
        passages = encoder.encode_passages([text for _, text in corpus(data)])
    questions = encoder.encode_queries(list(queries(data)[0].values()))
    if kept is not None:
        np.savez(kept, passages=passages, questions=questions)
    return passages, questions


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-n", type=int, default=50_000)
    parser.add_argument("--vectors", type=Path, help="keep the encoded texts here (.npz)")
    options = parser.parse_args()
    passages, questions = encoded(options.vectors)
    mixed = mixed_vectors(passages, options.n)
    tables = []
    for name, rows, asked in [
        (f"SciFact, {len(passages):,}", passages, questions),
        (f"mixed, {options.n:,}", mixed.vectors, mixed.queries),
    ]:
        figures = []
        for figure in measured(name, rows, asked):
            print(json.dumps(asdict(figure)), flush=True)
            figures.append(figure)
        tables.append(f"{name}:\n\n{table(figures)}\n")
    print("\n".join(tables))


if __name__ == "__main__":
    main()
