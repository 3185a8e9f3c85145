"""(g) Smart batching: sentences of like length together or in the order they came: table 7."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from statistics import median
from time import perf_counter
from typing import Any

import torch

from sbert_retriever.encoder.backbone import load_backbone
from sbert_retriever.encoder.batching import TokenBatch, TokenIds
from sbert_retriever.encoder.head import load_head
from sbert_retriever.encoder.precision import choose_device
from sbert_retriever.encoder.tokenizer import load_tokenizer
from sbert_retriever.evaluation.sts_sets import YEARS, read_sts
from sbert_retriever.paper.cells import Cell, Result
from sbert_retriever.paper.parts.part import Known, Part
from sbert_retriever.paper.published import BATCHING
from sbert_retriever.paper.section import Section, Table, pick, shown
from sbert_retriever.paper.starts import checkpoint_of
from sbert_retriever.paper.study import PACKAGED, Study, taken

_MODEL = PACKAGED[0]
_BATCH = 32
_ROUNDS = 3


def cells(study: Study) -> list[Cell]:
    """One: both ways in turn."""
    settings = {"model": _MODEL, "sentences": study.size.sentences, "batch": _BATCH}
    make = partial(_measured, study)
    return [Cell(name="batching", settings=settings, make=make, needs=("sts12-16",))]


def _measured(study: Study) -> Result:
    ids, pad_id = _tokenised(study)
    device = choose_device(study.device)
    checkpoint = checkpoint_of(_MODEL)
    backbone = load_backbone(checkpoint, device=device, dtype=torch.float32)
    head = load_head(checkpoint, truncate_dim=None, device=device)
    ways = {"off": cut(ids, sort=False), "on": cut(ids, sort=True)}
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    with torch.inference_mode():
        for _ in range(_ROUNDS):
            for way, batches in ways.items():
                started = perf_counter()
                for batch in batches:
                    tokens, mask = batch.padded(pad_id, device=device)
                    head(backbone(tokens, mask), mask).cpu()
                seconds[way].append(perf_counter() - started)
    return {
        "sentences": len(ids),
        "per_second": {way: len(ids) / median(times) for way, times in seconds.items()},
        "padding": {way: padding(batches) for way, batches in ways.items()},
    }


def _tokenised(study: Study) -> tuple[list[TokenIds], int]:
    """Different sentences of the STS sets, in an order that has nothing to do with their length."""
    texts: dict[str, None] = {}
    for year in YEARS:
        pairs = read_sts(study.data, year)
        texts.update(dict.fromkeys((*pairs.left, *pairs.right)))
    checkpoint = checkpoint_of(_MODEL)
    tokenizer = load_tokenizer(
        checkpoint.transformer,
        checkpoint.config,
        max_length=checkpoint.max_length,
        lowercase=checkpoint.lowercase,
    )
    chosen = taken(list(texts), study.size.sentences)
    order = torch.randperm(len(chosen), generator=torch.Generator().manual_seed(0)).tolist()
    return tokenizer.encode([chosen[place] for place in order]).ids, tokenizer.pad_id


def cut(ids: Sequence[TokenIds], *, sort: bool) -> list[TokenBatch]:
    """Batches of 32, in order or by length; inside a batch the longest is first."""
    rows = list(range(len(ids)))
    if sort:
        rows.sort(key=lambda row: -len(ids[row]))
    found = []
    for start in range(0, len(rows), _BATCH):
        part = sorted(rows[start : start + _BATCH], key=lambda row: -len(ids[row]))
        found.append(TokenBatch(tuple(ids[row] for row in part), tuple(part)))
    return found


def padding(batches: Sequence[TokenBatch]) -> float:
    """The share of the tokens computed that are padding."""
    real = sum(len(ids) for batch in batches for ids in batch.token_ids)
    computed = sum(len(batch.token_ids[0]) * len(batch.token_ids) for batch in batches)
    return 1 - real / computed


def section(study: Study, known: Known) -> Section:
    """Two rows and their ratio."""
    result: Any = known(cells(study)[0])
    speeds = {way: pick(result, "per_second", way) for way in ("off", "on")}
    shares = {way: pick(result, "padding", way) for way in speeds}
    percents = {way: None if share is None else 100 * share for way, share in shares.items()}
    names = {"off": "in the order they came", "on": "of like length together"}
    rows = [
        [
            names[way],
            shown(speeds[way]),
            shown(percents[way]),
            f"{paper:.0f}",
        ]
        for way, paper in zip(speeds, BATCHING, strict=True)
    ]
    off, on = speeds["off"], speeds["on"]
    ratio = None if off is None or on is None else on / off
    rows.append(["ratio", shown(ratio), "", f"{BATCHING[1] / BATCHING[0]:.2f}"])
    header = ["", "sentences a second", "padding, % of all tokens", "the paper's (V100)"]
    return Section(
        [
            f"{_MODEL}, float32, batches of {_BATCH} different sentences of STS12 to STS16 "
            f"({pick(result, 'sentences') or 0:,.0f}), the median of {_ROUNDS} rounds of both ways "
            "in turn, tokenising outside the clock."
        ],
        [Table(header, rows)],
        [
            "The paper measured BERT-base on a graphics card; only the ratio compares. The library "
            "itself always batches by length, and cuts batches by tokens instead of by number."
        ],
    )


PART = Part(letter="g", title="Smart batching", trains=False, cells=cells, section=section)
