"""Whether a search keeps its time budget, uses it, and what it buys, on 43 questions of MS MARCO.

    SBERT_RETRIEVER_DATA=... python tests/benchmarks/keep_budgets.py [--to FOLDER] [--rounds 1]
        [--dtype int8]

For each budget: the 95th percentile of a query's time over the budget; the median share of what
encoding and search left that the rescoring used; the median number rescored; nDCG@10 with
exponential gains, and that of a fixed depth equal to that median. The bi-encoder alone, and the
cross-encoder over the first 25, stand beside them. With the defaults of the library.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from sbert_retriever import Hit, Passage, Retriever, SearchResult

BUDGETS_MS = (50, 100, 200, 400, 800)
K = 10
MOST = 100


def read(folder: Path) -> tuple[list[Passage], dict[str, str], dict[str, dict[str, int]]]:
    """Passages, judged questions {id: text}, and grades {question: {passage: grade}}."""
    rows = {
        name: [json.loads(line) for line in lines(folder / f"{name}.jsonl")]
        for name in ("corpus", "queries")
    }
    grades: dict[str, dict[str, int]] = {}
    for line in lines(folder / "test.tsv"):
        query, passage, grade = line.split("\t")[:3]
        if grade.isdigit():
            grades.setdefault(query, {})[passage] = int(grade)
    passages = [Passage(row["_id"], row["text"]) for row in rows["corpus"]]
    queries = {row["_id"]: row["text"] for row in rows["queries"] if row["_id"] in grades}
    return passages, queries, grades


def lines(path: Path) -> list[str]:
    return [line for line in path.read_text(encoding="utf-8").split("\n") if line]


def ndcg(found: Mapping[str, list[Hit]], grades: Mapping[str, Mapping[str, int]]) -> float:
    """nDCG@10 with gains of 2 ** grade - 1."""
    discounts = 1 / np.log2(np.arange(2, K + 2))
    values = []
    for query, hits in found.items():
        gains = np.array([2.0 ** grades[query].get(hit.id, 0) - 1 for hit in hits[:K]])
        best = np.array(sorted((2.0**g - 1 for g in grades[query].values()), reverse=True)[:K])
        ideal = float(best @ discounts[: len(best)])
        values.append(float(gains @ discounts[: len(gains)]) / ideal)
    return statistics.mean(values)


def asked(retriever: Retriever, queries: Mapping[str, str], **options) -> dict[str, SearchResult]:
    return {i: retriever.search_detailed(text, K, **options) for i, text in queries.items()}


def figures(
    retriever: Retriever,
    queries: Mapping[str, str],
    grades: Mapping[str, Mapping[str, int]],
    budget_ms: int,
) -> str:
    """A line for one budget."""
    results = asked(retriever, queries, budget_ms=budget_ms, candidates=MOST)
    over = [r.timings_ms["total"] / budget_ms for r in results.values()]
    used = [
        r.timings_ms["rerank"] / (budget_ms - r.timings_ms["encode"] - r.timings_ms["search"])
        for r in results.values()
        if r.rescored < r.candidates
    ]
    depth = int(statistics.median(r.rescored for r in results.values()))
    value = ndcg({i: r.hits for i, r in results.items()}, grades)
    fixed = (
        asked(retriever, queries, candidates=depth)
        if depth
        else asked(retriever, queries, profile="fast")
    )
    beside = ndcg({i: r.hits for i, r in fixed.items()}, grades)
    return (
        f"{budget_ms:>6} {np.percentile(over, 95):>10.2f} {statistics.median(used):>12.2f} "
        f"{depth:>9} {value:>8.4f} {beside:>12.4f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--to", type=Path, help="a folder that keeps the collection")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--dtype", default="auto")
    arguments = parser.parse_args()
    data = Path(os.environ["SBERT_RETRIEVER_DATA"]) / "beir-small-msmarco"
    passages, queries, grades = read(data)
    with (
        tempfile.TemporaryDirectory() as folder,
        Retriever.open(
            arguments.to or folder,
            model="all-MiniLM-L6-v2",
            reranker="ms-marco-MiniLM-L12-v2",
            dtype=arguments.dtype,
        ) as retriever,
    ):
        retriever.index(passages, on_truncate="ignore")
        plain = asked(retriever, queries, profile="fast")
        deep = asked(retriever, queries, candidates=25)
        print(f"bi-encoder alone: {ndcg({i: r.hits for i, r in plain.items()}, grades):.4f}")
        print(f"cross-encoder 25: {ndcg({i: r.hits for i, r in deep.items()}, grades):.4f}")
        retriever.search(next(iter(queries.values())), budget_ms=200)
        for _ in range(arguments.rounds):
            print("budget   p95/budget  median used  rescored  nDCG@10  at that depth")
            for budget_ms in BUDGETS_MS:
                print(figures(retriever, queries, grades, budget_ms), flush=True)


if __name__ == "__main__":
    main()
