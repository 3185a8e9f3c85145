"""What small copies of vectors lose and take, by exact scan and through the graph.

    SBERT_RETRIEVER_DATA=... python tests/benchmarks/compare_quantisation.py [-n 50000]

Vectors: MiniLM's of SciFact's abstracts with its 300 questions, and `n` of `testing.mixed_vectors`
over them. Prints recall@10 against exact float32 search for each way to keep vectors: the copies
alone, and the best of 1, 2 and 4 times ten by the copies compared again by the vectors. "scan"
looks at every copy (a walk as wide as the collection), "graph" walks as wide as the engine does by
itself. Bytes are those of the copy's files on disk, for each vector; those of the vectors stay.
SciFact is too small for the engine to build a graph of.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from qdrant_client import models
from scifact import corpus, queries

from sbert_retriever import BiEncoder
from sbert_retriever.index.embedded import EmbeddedClient
from sbert_retriever.index.storage import Storage
from sbert_retriever.testing import mixed_vectors

Matrix = npt.NDArray[np.float32]
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
    "copies alone": {"rescore": False},
    "rescored": {"rescore": True, "oversampling": 1.0},
    "rescored, 2 times": {"rescore": True, "oversampling": 2.0},
    "rescored, 4 times": {"rescore": True, "oversampling": 4.0},
}


def filled(client: EmbeddedClient, rows: Matrix, storage: Storage) -> None:
    """Put all rows into a collection named "c", and build its graph and copies."""
    params = storage.vector_params(size=rows.shape[1], distance=models.Distance.COSINE)
    client.create_collection("c", vectors_config={"dense": params})
    for start in range(0, len(rows), 1000):
        points = [
            models.PointStruct.model_construct(id=start + i, vector={"dense": row}, payload={})
            for i, row in enumerate(rows[start : start + 1000].tolist())
        ]
        client.upsert("c", points=points)
    client.optimize("c", force=True)
    client.flush("c")


def recall(
    client: EmbeddedClient, asked: Matrix, truth: npt.NDArray[np.int64], **params: Any
) -> float:
    """recall@10, the mean over the questions."""
    hits = 0
    for query, nearest in zip(asked, truth, strict=True):
        answer = client.query_points(
            "c",
            query=query.tolist(),
            using="dense",
            limit=K,
            search_params=models.SearchParams(**params),
            with_payload=False,
        )
        hits += len({point.id for point in answer.points} & set(nearest.tolist()))
    return hits / (K * len(asked))


def measured(rows: Matrix, asked: Matrix) -> Iterator[dict[str, Any]]:
    """One row for each kind and each way."""
    truth = np.argsort(-(asked @ rows.T), axis=1, kind="stable")[:, :K]
    for kind, storage in KINDS.items():
        with tempfile.TemporaryDirectory() as folder:
            client = EmbeddedClient(Path(folder))
            filled(client, rows, storage)
            quantized = storage.quantization is not None
            copies = sum(p.stat().st_size for p in Path(folder).rglob("*quantized*") if p.is_file())
            graph = client.get_collection("c").indexed_vectors_count or 0
            for way, asked_for in WAYS.items() if quantized else [("vectors", {})]:
                params = {"quantization": models.QuantizationSearchParams(**asked_for)}
                found = {"scan": recall(client, asked, truth, hnsw_ef=len(rows), **params)}
                if graph:
                    found["graph"] = recall(client, asked, truth, **params)
                yield {
                    "kind": kind,
                    "way": way,
                    **{name: round(value, 4) for name, value in found.items()},
                    "copy_bytes": round(copies / len(rows), 1),
                    "vector_bytes": rows.shape[1] * (2 if storage.datatype else 4),
                }
            client.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-n", type=int, default=50_000)
    parser.add_argument("--vectors", type=Path, help="keep the encoded texts here (.npz)")
    options = parser.parse_args()
    passages, questions = encoded(options.vectors)
    mixed = mixed_vectors(passages, options.n)
    for name, rows, asked in [
        (f"SciFact, {len(passages):,}", passages, questions),
        (f"mixed, {options.n:,}", mixed.vectors, mixed.queries),
    ]:
        for row in measured(rows, asked):
            print(json.dumps({"vectors": name, **row}), flush=True)


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


if __name__ == "__main__":
    main()
