"""How much of the rate of encoding alone an index keeps, on SciFact.

    SBERT_RETRIEVER_DATA=... python tests/benchmarks/index_beside_encoding.py [--dtype int8]

The abstracts go slice by slice, in turn, through `BiEncoder.encode_passages` alone and through
`Retriever.index` into a folder, which compares, encodes and writes them, and builds the graph
in the end. The texts have been read from their file before. Prints passages a second of both, over
all slices, and the median of the slices' ratios.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
from functools import partial
from pathlib import Path
from time import perf_counter

import numpy as np
from scifact import corpus

from sbert_retriever import BiEncoder, Passage, Retriever


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--slices", type=int, default=8)
    parser.add_argument("--dtype", default="auto")
    options = parser.parse_args()
    documents = corpus(Path(os.environ["SBERT_RETRIEVER_DATA"]))
    encoder = BiEncoder.load("all-MiniLM-L6-v2", dtype=options.dtype, on_truncate="ignore")
    encoder.encode_passages([text for _, text in documents[:32]])
    alone: list[float] = []
    indexed: list[float] = []
    with (
        tempfile.TemporaryDirectory() as folder,
        Retriever.open(folder, model=encoder) as retriever,
    ):
        for number, part in enumerate(np.array_split(np.arange(len(documents)), options.slices)):
            texts = [documents[i][1] for i in part]
            passages = [Passage(*documents[i]) for i in part]
            turns = [
                (partial(encoder.encode_passages, texts), alone),
                (partial(retriever.index, passages), indexed),
            ]
            for action, spent in turns if number % 2 else turns[::-1]:
                started = perf_counter()
                action()
                spent.append(perf_counter() - started)
    ratios = [e / i for e, i in zip(alone, indexed, strict=True)]
    found = {
        "documents": len(documents),
        "dtype": options.dtype,
        "encoded_per_s": len(documents) / sum(alone),
        "indexed_per_s": len(documents) / sum(indexed),
        "ratio": sum(alone) / sum(indexed),
        "ratio_of_slices": statistics.median(ratios),
    }
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
