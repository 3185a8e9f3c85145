"""nDCG@10 by meaning, by words, and by each way to join them, on several kinds of collections.

    SBERT_RETRIEVER_DATA=... python tests/benchmarks/compare_fusions.py --to FOLDER [--sets a,b]

SciFact (claims against abstracts), a part of MS MARCO (web questions, graded), StackFAQ (rephrased
questions against the questions of an FAQ), banking77 and clinc150 (a question against phrasings,
of which those of its intent are right). all-MiniLM-L6-v2 and BM25, 100 passages a leg, exact
search. `--to` keeps the collections, so that a second run encodes nothing.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import random
import statistics
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scifact
from qdrant_client import models

from sbert_retriever import Passage, Retriever
from sbert_retriever.index.legs import Legs, legs
from sbert_retriever.search.hybrid import fused
from sbert_retriever.sparse.bm25 import share_of_names
from sbert_retriever.types import Fusion

K = 10
DEPTH = 100
QUESTIONS = 1000
WAYS = {
    "by meaning": None,
    "by words": None,
    "the default": Fusion(),
    "boost 0.15": Fusion(method="boost", sparse_weight=0.15),
    "boost 0.10": Fusion(method="boost", sparse_weight=0.10),
    "boost 0.20": Fusion(method="boost", sparse_weight=0.20),
    "weighted 0.2": Fusion(method="weighted", sparse_weight=0.2),
    "weighted 0.5": Fusion(method="weighted", sparse_weight=0.5),
    "rrf, k=2": Fusion(method="rrf", k=2),
    "rrf, k=20": Fusion(method="rrf", k=20),
    "rrf, k=60": Fusion(method="rrf", k=60),
    "rrf, k=20, 0.3": Fusion(method="rrf", k=20, sparse_weight=0.3),
    "dbsf": Fusion(method="dbsf"),
}
Grades = dict[str, dict[str, int]]


@dataclass(frozen=True)
class Set:
    """Passages, questions and what answers them; gains are exponential where grades are."""

    passages: dict[str, str]
    questions: dict[str, str]
    grades: Grades
    graded: bool = False


def read_scifact(data: Path) -> Set:
    questions, grades = scifact.queries(data)
    return Set(dict(scifact.corpus(data)), questions, grades)


def read_msmarco(data: Path) -> Set:
    folder = data / "beir-small-msmarco"
    corpus, queries = (
        {row["_id"]: row["text"] for row in map(json.loads, lines(folder / f"{name}.jsonl"))}
        for name in ("corpus", "queries")
    )
    grades: Grades = {}
    for query, passage, grade in (line.split("\t") for line in lines(folder / "test.tsv")[1:]):
        grades.setdefault(query, {})[passage] = int(grade)
    judged = {i: text for i, text in queries.items() if i in grades}
    return Set(corpus, judged, grades, graded=True)


def read_stackfaq(data: Path) -> Set:
    text = (data / "faq-stackfaq" / "stackExchange-FAQ.json").read_text(encoding="utf-8")
    entries = json.loads(text)["root"]["qapair"]
    questions, grades = {}, {}
    for number, entry in enumerate(entries):
        for other, phrasing in enumerate(entry.get("rephr") or []):
            if phrasing and phrasing != "*":
                questions[f"{number}.{other}"] = phrasing
                grades[f"{number}.{other}"] = {str(number): 1}
    return Set({str(n): e["question"] for n, e in enumerate(entries)}, questions, grades)


def read_banking77(data: Path) -> Set:
    train, test = (
        [(row["text"], row["category"]) for row in csv.DictReader(file.open(encoding="utf-8"))]
        for file in (data / "banking77" / f"{part}.csv" for part in ("train", "test"))
    )
    return intents(train, test)


def read_clinc150(data: Path) -> Set:
    whole = json.loads((data / "clinc150" / "data_full.json").read_text(encoding="utf-8"))
    return intents(whole["train"], whole["test"])


def intents(train: list[tuple[str, str]], test: list[tuple[str, str]]) -> Set:
    """Phrasings as passages; some questions, drawn by seed, each answered by its whole intent."""
    of_intent: dict[str, list[str]] = {}
    for number, (_, intent) in enumerate(train):
        of_intent.setdefault(intent, []).append(str(number))
    drawn = random.Random(0).sample(test, QUESTIONS)
    return Set(
        {str(n): text for n, (text, _) in enumerate(train)},
        {str(n): text for n, (text, _) in enumerate(drawn)},
        {str(n): dict.fromkeys(of_intent[intent], 1) for n, (_, intent) in enumerate(drawn)},
    )


SETS = {
    "scifact": read_scifact,
    "msmarco": read_msmarco,
    "stackfaq": read_stackfaq,
    "banking77": read_banking77,
    "clinc150": read_clinc150,
}


def lines(path: Path) -> list[str]:
    return [line for line in path.read_text(encoding="utf-8").split("\n") if line]


def both_legs(retriever: Retriever, questions: Mapping[str, str]) -> dict[str, Legs]:
    """What both legs find for each question."""
    texts = list(questions.values())
    store = retriever.store
    steps = legs(
        store,
        retriever.encoder.encode_queries(texts),
        store.sparse_encoder().encode_queries(texts),
        k=DEPTH,
        condition=None,
        params=models.SearchParams(exact=True),
    )
    return dict(zip(questions, store.connection.run(steps), strict=True))


def ranking(found: Legs, question: str, way: str) -> list[str]:
    fusion = WAYS[way]
    if fusion is None:
        chosen = found.dense if way == "by meaning" else found.sparse
    else:
        chosen = fused(found, fusion.settled(cosine=True, names=share_of_names(question)))
    return [str(point) for point, _ in chosen[:K]]


def ndcg(ranked: list[str], grades: Mapping[str, int], *, graded: bool) -> float:
    def gain(grade: int) -> float:
        return 2.0**grade - 1 if graded else float(grade)

    discounts = 1 / np.log2(np.arange(2, K + 2))
    gains = np.array([gain(grades.get(passage, 0)) for passage in ranked])
    best = np.array(sorted(map(gain, grades.values()), reverse=True)[:K])
    return float(gains @ discounts[: len(gains)] / (best @ discounts[: len(best)]))


def measured(name: str, data: Path, folder: Path) -> dict[str, float]:
    """{way: nDCG@10} of one set."""
    chosen = SETS[name](data)
    with Retriever.open(folder / name, model="all-MiniLM-L6-v2", sparse="bm25") as retriever:
        passages = (Passage(i, text) for i, text in chosen.passages.items())
        retriever.index(passages, on_truncate="ignore")
        found = both_legs(retriever, chosen.questions)
        names = dict(point_names(retriever, chosen.passages))
    values = {}
    for way in WAYS:
        each = (
            ndcg(
                [
                    names[point]
                    for point in ranking(found[question], chosen.questions[question], way)
                ],
                chosen.grades[question],
                graded=chosen.graded,
            )
            for question in chosen.questions
        )
        values[way] = statistics.mean(each)
    return values


def point_names(retriever: Retriever, ids: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    from sbert_retriever.index.points import point_id

    for passage in ids:
        yield str(point_id(passage)), passage


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--to", type=Path, required=True, help="a folder for the collections")
    parser.add_argument("--sets", default=",".join(SETS))
    arguments = parser.parse_args()
    data = Path(os.environ["SBERT_RETRIEVER_DATA"])
    names = arguments.sets.split(",")
    table = {name: measured(name, data, arguments.to) for name in names}
    print("".join(f"{text:>16}" for text in ("", *names, "worst")))
    for way in WAYS:
        values = [table[name][way] for name in names]
        better = [max(table[name]["by meaning"], table[name]["by words"]) for name in names]
        worst = min(value - best for value, best in zip(values, better, strict=True))
        print(f"{way:>16}" + "".join(f"{v:16.4f}" for v in values) + f"{worst:+16.4f}")


if __name__ == "__main__":
    main()
