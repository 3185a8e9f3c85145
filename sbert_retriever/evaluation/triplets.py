"""Triplets: is a sentence nearer to one of its own text than to one of another?

The paper's section 4.4 takes sentences of Wikipedia sections (Dor et al. 2018); here sentences of
SciFact abstracts stand in: anchor and positive from one abstract, the negative from another.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

import numpy as np

from sbert_retriever.errors import InputError, ReadError
from sbert_retriever.evaluation.lines import place_of
from sbert_retriever.evaluation.pairs import tab_fields
from sbert_retriever.evaluation.read_ranking import is_json, json_lines, text_field
from sbert_retriever.evaluation.results import SetResult
from sbert_retriever.evaluation.scifact import ARCHIVE, Abstract, read_abstracts
from sbert_retriever.evaluation.similarity import SIMILARITIES, Numbers, encode_unique
from sbert_retriever.evaluation.sts_sets import folder_of
from sbert_retriever.types import Encoder

_COLUMNS = ("anchor", "positive", "negative")
_TEST_SHARE = 0.2
_FEWEST_CHARACTERS = 20


@dataclass(frozen=True)
class Triplets:
    """Sentences, each with one that should be near and one that should be far.

    Args:
        name: Of the set.
        anchors: Sentences.
        positives: One an anchor.
        negatives: One an anchor.
    """

    name: str
    anchors: tuple[str, ...]
    positives: tuple[str, ...]
    negatives: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.anchors)


def measure_triplets(encoder: Encoder, triplets: Triplets) -> SetResult:
    """The share, times 100, in which the positive is nearer than the negative; a tie is not.

    Returns:
        Figures named `accuracy_cosine`, `accuracy_dot`, `accuracy_euclidean`,
        `accuracy_manhattan`.
    """
    started = perf_counter()
    anchors, near, far = encode_unique(
        encoder, triplets.anchors, triplets.positives, triplets.negatives
    )
    right: dict[str, Numbers] = {
        name: np.where(alike(anchors, near) > alike(anchors, far), 100.0, 0.0)
        for name, alike in SIMILARITIES.items()
    }
    return SetResult(
        name=triplets.name,
        items=len(triplets),
        figures={f"accuracy_{name}": float(each.mean()) for name, each in right.items()},
        values=right["cosine"],
        seconds=perf_counter() - started,
    )


def read_triplets(path: Path) -> Triplets:
    """A file of triplets: three fields parted by tabs, or JSON lines.

    Args:
        path: JSON lines where the name ends in .jsonl, .json or .ndjson; with the keys anchor,
            positive and negative. Other files may have these names in their first line, as those
            that are trained on.

    Raises:
        ReadError: A line does not fit, or there is none.
    """
    rows = list(_json_rows(path) if is_json(path) else _tab_rows(path))
    if not rows:
        raise ReadError(f"{path} holds no triplet")
    return _named(path.stem, rows)


def _tab_rows(path: Path) -> Iterator[tuple[str, str, str]]:
    for place, (number, fields) in enumerate(tab_fields(path, 3)):
        if not place and tuple(name.strip().casefold() for name in fields) == _COLUMNS:
            continue
        if not all(text.strip() for text in fields):
            raise ReadError(f"{place_of(path, number)}: a text is empty, expected three texts")
        anchor, positive, negative = fields
        yield anchor, positive, negative


def _json_rows(path: Path) -> Iterator[tuple[str, str, str]]:
    for number, record in json_lines(path):
        where = place_of(path, number)
        anchor, positive, negative = (text_field(record, (key,), where) for key in _COLUMNS)
        yield anchor, positive, negative


def _named(name: str, rows: Sequence[tuple[str, str, str]]) -> Triplets:
    anchors, positives, negatives = zip(*rows, strict=True)
    return Triplets(name, anchors, positives, negatives)


def scifact_triplets(
    data: Path, *, split: str = "test", seed: int = 0, most: int | None = None
) -> Triplets:
    """Triplets out of SciFact's abstracts, which are split first so that none is on both sides.

    Each abstract of two usable sentences or more gives one triplet: two sentences of its own, and
    one of another abstract of the same split, drawn at random.

    Args:
        data: The folder of the data sets, or that of SciFact.
        split: "train" (four abstracts in five) or "test".
        seed: Of the split and of the draws.
        most: Only so many.

    Raises:
        InputError: There is no such split.
        ReadError: The archive is missing or damaged.
    """
    folder = folder_of(data, "scifact", holding=ARCHIVE)
    return triplets_of(read_abstracts(folder), split=split, seed=seed, most=most)


def triplets_of(
    abstracts: Iterable[Abstract], *, split: str = "test", seed: int = 0, most: int | None = None
) -> Triplets:
    """`scifact_triplets` out of abstracts that are read already.

    Raises:
        InputError: There is no such split, or there are too few abstracts.
    """
    if split not in {"train", "test"}:
        raise InputError(f"split is {split!r}, expected 'train' or 'test'")
    texts = [long for a in abstracts if len(long := _usable(a)) > 1]
    rng = random.Random(seed)
    rng.shuffle(texts)
    cut = int(len(texts) * _TEST_SHARE)
    chosen = texts[:cut] if split == "test" else texts[cut:]
    if len(chosen) < 2:
        raise InputError(f"{len(texts)} abstracts of 2 sentences or more are too few to split")
    return _named("scifact", _drawn(chosen, rng)[:most])


def _usable(abstract: Abstract) -> tuple[str, ...]:
    return tuple(s for s in abstract.sentences if len(s) >= _FEWEST_CHARACTERS)


def _drawn(texts: list[tuple[str, ...]], rng: random.Random) -> list[tuple[str, str, str]]:
    rows = []
    for number, sentences in enumerate(texts):
        anchor, positive = rng.sample(sentences, 2)
        other = rng.randrange(len(texts) - 1)
        negative = rng.choice(texts[other + (other >= number)])
        rows.append((anchor, positive, negative))
    return rows
