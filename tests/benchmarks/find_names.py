"""Dotted names that stand in one passage of Python's documentation: found by words, by meaning?

    python tests/benchmarks/find_names.py --to FOLDER [-n 40] [--seeds 0,1,2]

The passages are those of examples/python_docs.py. Names as `os.path.join` that exactly one of them
holds are drawn by seed and asked for as they are; counted is how often that passage is among the
first three, by both (the default where words are kept) and by meaning alone. all-MiniLM-L6-v2 and
BM25. `--to` keeps the collection, so that a second run encodes nothing.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from sbert_retriever import Passage, Retriever
from sbert_retriever.types import SearchMode

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))
from python_docs import MODEL, read_passages

# Two parts or more, none of them a number; not a piece of a longer name.
NAME = re.compile(r"(?<![\w.])[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+(?![\w.]*\w)")
FIRST = 3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--to", type=Path, required=True, help="a folder for the collection")
    parser.add_argument("-n", type=int, default=40)
    parser.add_argument("--seeds", default="0,1,2")
    arguments = parser.parse_args()
    with Retriever.open(arguments.to, model=MODEL, sparse="bm25") as retriever:
        passages = read_passages(retriever.encoder, None)
        retriever.index(passages)
        names = once(passages)
        print(f"{len(passages):,} passages, {len(names):,} names that one of them holds")
        print(f"seed   of {arguments.n}, by both   by meaning")
        for seed in map(int, arguments.seeds.split(",")):
            drawn = random.Random(seed).sample(sorted(names), arguments.n)
            both, meaning = (found(retriever, drawn, names, mode) for mode in ("hybrid", "dense"))
            print(f"{seed:>4} {both:>16} {meaning:>12}", flush=True)


def once(passages: Sequence[Passage]) -> dict[str, str]:
    """{name: id of the only passage that holds it}."""
    holders: dict[str, set[str]] = {}
    for passage in passages:
        for name in NAME.findall(passage.text):
            holders.setdefault(name, set()).add(passage.id)
    return {name: ids.pop() for name, ids in holders.items() if len(ids) == 1}


def found(
    retriever: Retriever, drawn: Sequence[str], names: dict[str, str], mode: SearchMode
) -> int:
    """For how many names the passage is among the first."""
    answers = retriever.search_batch(drawn, k=FIRST, mode=mode)
    return sum(
        names[name] in [hit.id for hit in hits] for name, hits in zip(drawn, answers, strict=True)
    )


if __name__ == "__main__":
    main()
