"""Tiny models and data that every objective can be tried on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sbert_retriever.testing import tiny_bert

WORDS = ["cat", "dog", "house", "water", "people", "way", "time", "query", "model", "search"]


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A random BERT of two layers, as a bi-encoder."""
    return str(tiny_bert(tmp_path_factory.mktemp("models") / "tiny"))


@pytest.fixture(scope="session")
def plain(tmp_path_factory: pytest.TempPathFactory) -> str:
    """One whose vectors are not set to length 1."""
    return str(tiny_bert(tmp_path_factory.mktemp("models") / "plain", normalize=False))


@pytest.fixture(scope="session")
def pair_teacher(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A random cross-encoder of one label, as transformers saves it."""
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    folder = tiny_bert(tmp_path_factory.mktemp("models") / "base", seed=3)
    torch.manual_seed(0)
    model = AutoModelForSequenceClassification.from_pretrained(folder, num_labels=1)
    out = tmp_path_factory.mktemp("models") / "teacher"
    model.save_pretrained(out)
    AutoTokenizer.from_pretrained(folder).save_pretrained(out)
    return str(out)


def pairs() -> list[tuple[str, str]]:
    return [(f"the {a} was in the {b}", f"a {a} in {b}") for a in WORDS[:6] for b in WORDS[6:]]


@pytest.fixture(scope="session")
def rows() -> Callable[[str], tuple[dict[str, Any], ...]]:
    """Two dozen rows of a kind of data."""
    return _rows


def _rows(kind: str) -> tuple[dict[str, Any], ...]:
    made = pairs()
    others = [text for _, text in reversed(made)]
    labels = ("contradiction", "entailment", "neutral")
    columns: dict[str, Any] = {
        "sts": lambda i, a, b, _: {"first": a, "second": b, "score": float(i % 6)},
        "nli": lambda i, a, b, _: {"first": a, "second": b, "label": labels[i % 3]},
        "pairs": lambda _, a, b, __: {"first": a, "second": b},
        "triplets": lambda _, a, b, n: {"anchor": a, "positive": b, "negative": n},
        "ranking": lambda i, a, b, n: {
            "query": a,
            "positive": b,
            "negatives": [n, others[i - 1]],
        },
        "margins": lambda i, a, b, n: {
            "query": a,
            "positive": b,
            "negative": n,
            "margin": float(i % 4),
        },
        "parallel": lambda _, a, b, __: {"source": a, "translation": b},
        "texts": lambda _, a, b, __: {"text": f"{a} and {b}"},
        "labelled": lambda i, a, _, __: {"text": a, "label": WORDS[i // 4]},
    }
    return tuple(
        columns[kind](i, a, b, n) for i, ((a, b), n) in enumerate(zip(made, others, strict=True))
    )


@pytest.fixture
def write(tmp_path: Path):
    """Write a file of training data."""

    def write(name: str, text: str, encoding: str = "utf-8") -> str:
        path = tmp_path / name
        path.write_bytes(text.encode(encoding))
        return str(path)

    return write
