"""Adapt a model to one's own FAQs, and measure on FAQs that it has not seen.

Trains on rephrasings of questions with the questions themselves (in-batch negatives), in folds:
the FAQs are dealt into five parts, and each part is tested by a model trained on the other four,
so that no FAQ is in both. A rephrasing is looked up among the questions of all FAQs. Printed are
accuracy@1 before and after, and their difference with a 95 % interval, drawn over FAQs, since
rephrasings of one are alike.

    python examples/training/faq_domain.py DATA/faq-stackfaq/stackExchange-FAQ.json
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

import numpy as np

from sbert_retriever import BiEncoder, TrainConfig, TrainData, Trainer, TrainStep
from sbert_retriever.training import InBatch


class Faq(NamedTuple):
    """A question, and other ways to ask it."""

    question: str
    rephrasings: list[str]


def read_faqs(path: Path) -> list[Faq]:
    """The FAQs with their usable rephrasings: some are "*" or null in the file."""
    pairs = json.loads(path.read_text(encoding="utf-8"))["root"]["qapair"]
    return [
        Faq(p["question"], [r for r in p["rephr"] if isinstance(r, str) and r.strip(" *")])
        for p in pairs
    ]


def config(model: str, train: list[Faq], *, epochs: int, rate: float, seed: int) -> TrainConfig:
    """Each rephrasing with its question; a batch holds no question twice."""
    rows = tuple(
        {"first": rephrasing, "second": faq.question}
        for faq in train
        for rephrasing in faq.rephrasings
    )
    step = TrainStep(
        objective=InBatch(temperature=0.05, symmetric=True),
        data=(TrainData(kind="pairs", rows=rows),),
        epochs=epochs,
        batch_size=32,
        learning_rate=rate,
    )
    return TrainConfig(model=model, steps=(step,), max_length=64, seed=seed, save_every=100_000)


def right(model: str | Path, faqs: list[Faq], asked: list[int]) -> list[list[bool]]:
    """For each FAQ asked, whether each rephrasing finds it first among all FAQs."""
    encoder = BiEncoder.load(model, on_truncate="ignore")
    questions = encoder.encode_passages([faq.question for faq in faqs])
    return [
        ((encoder.encode_queries(faqs[n].rephrasings) @ questions.T).argmax(axis=1) == n).tolist()
        for n in asked
    ]


def interval(before: list[list[bool]], after: list[list[bool]], seed: int) -> np.ndarray:
    """The middle 95 % of the difference, FAQs drawn with replacement, 10,000 times."""
    change = np.array([sum(a) - sum(b) for b, a in zip(before, after, strict=True)])
    counts = np.array([len(b) for b in before])
    drawn = np.random.default_rng(seed).integers(len(counts), size=(10_000, len(counts)))
    shares = change[drawn].sum(axis=1) / counts[drawn].sum(axis=1)
    return np.quantile(shares, [0.025, 0.975])


def accuracy(found: list[list[bool]]) -> float:
    """The share of all rephrasings."""
    return float(np.mean([x for faq in found for x in faq]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("file", type=Path, help="stackExchange-FAQ.json of StackFAQ")
    parser.add_argument("--model", default="all-MiniLM-L6-v2")
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--rate", type=float, default=5e-5)
    parser.add_argument("--limit", type=int, default=None, help="use the first FAQs only")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    faqs = read_faqs(given.file)[: given.limit]
    parts = np.array_split(np.random.default_rng(given.seed).permutation(len(faqs)), given.folds)
    before: list[list[bool]] = []
    after: list[list[bool]] = []
    begun = perf_counter()
    for number, part in enumerate(parts, 1):
        held = part.tolist()
        train = [faq for n, faq in enumerate(faqs) if n not in set(held)]
        with tempfile.TemporaryDirectory() as folder:
            settings = config(
                given.model, train, epochs=given.epochs, rate=given.rate, seed=given.seed
            )
            Trainer(settings, folder).train()
            after += right(folder, faqs, held)
        before += right(given.model, faqs, held)
        print(f"part {number} of {given.folds}: {perf_counter() - begun:.0f} s", flush=True)
    low, high = interval(before, after, given.seed)
    asked = sum(map(len, before))
    print(f"{asked} rephrasings of {len(faqs)} FAQs, each FAQ unseen in training")
    print(f"accuracy@1 before {accuracy(before):.4f}, after {accuracy(after):.4f}")
    print(f"difference {accuracy(after) - accuracy(before):+.4f}, 95 % {low:+.4f} to {high:+.4f}")
    if low <= 0 <= high:
        print("the interval includes zero: these data do not show a change")


if __name__ == "__main__":
    main()
