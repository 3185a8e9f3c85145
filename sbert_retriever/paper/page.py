"""The study's page, made anew after each cell."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sbert_retriever.paper.cells import Cells
from sbert_retriever.paper.parts.part import Part
from sbert_retriever.paper.study import Study
from sbert_retriever.paper.trainings import COSINE_RATE

_INTRODUCTION = (
    "Reimers and Gurevych, *Sentence-BERT: Sentence Embeddings using Siamese BERT-Networks*, "
    "EMNLP-IJCNLP 2019, measured again on the data and the encoders at hand. This page is written "
    "by `sbert-retriever paper`; nothing in it is written by hand."
)
_TINY = (
    "**A few examples of each: this page shows that the study runs, and its figures mean nothing.**"
)
_START = (
    "Nothing here starts from BERT as it was pretrained, which no package carries. The start model "
    "is the encoder of {start}, a cross-encoder of 12 layers and 384 numbers a vector (33 million "
    "parameters; the paper's BERT-base has 110), whose weights are dequantised from int8. So the "
    "figures are compared with the paper's in their order, not in their size."
)


def write_page(path: Path, study: Study, parts: Sequence[Part], cells: Cells) -> None:
    """Write what is known so far.

    Args:
        path: Of the page; its folder is made where it is absent.
        study: What it is about.
        parts: All of them, whether measured or not.
        cells: The kept results.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f"{path.name}.tmp")
    beside.write_text(page(study, parts, cells), encoding="utf-8")
    beside.replace(path)


def page(study: Study, parts: Sequence[Part], cells: Cells) -> str:
    """The page's text."""
    blocks = [
        "# The paper's study, in small",
        *([_TINY] if study.size.name == "tiny" else []),
        _INTRODUCTION,
        _START.format(start=study.start),
        _amounts(study),
        _made_on(study, parts, cells),
        *(_part(study, part, cells) for part in parts),
    ]
    return "\n\n".join(blocks) + "\n"


def _amounts(study: Study) -> str:
    size = study.size
    return (
        f"Size `{size.name}`: {_pairs(size.nli_pairs, 15_000)} pairs of ConjNLI and "
        f"{_pairs(size.sick_pairs, 4_500)} of SICK to train on, seen {size.nli_epochs} time(s) "
        "(the paper: a million pairs of SNLI and MultiNLI, once); "
        f"{_pairs(size.sts_train, 5_749)} pairs of STSbenchmark, seen {size.sts_epochs} time(s); "
        "batches of 16 and a warm-up over 10 % of the steps, as in the paper; a learning rate of "
        f"2e-5 as there, but {COSINE_RATE:.0e} for similarities; bi-encoders without dropout, "
        "whose noise this start model learns to use in the place of a difference between texts; "
        f"{len(size.seeds)} seed(s), {len(size.ablation_seeds)} for (b) and (c) (the "
        "paper: ten)."
    )


def _pairs(limit: int | None, there: int) -> str:
    return f"{there if limit is None else min(limit, there):,}"


def _made_on(study: Study, parts: Sequence[Part], cells: Cells) -> str:
    # Parts share cells: each counts once.
    every = list({cell.name: cell for part in parts for cell in part.cells(study)}.values())
    done = [cell for cell in every if cells.known(cell) is not None]
    seconds, machines = cells.facts(done)
    if not done:
        return "Nothing has been measured yet."
    return (
        f"{len(done)} of {len(every)} measurements are done; they took {seconds / 60:,.0f} minutes "
        f"on: {'; '.join(machines)}."
    )


def _part(study: Study, part: Part, cells: Cells) -> str:
    text = part.section(study, cells.known).markdown()
    return f"## ({part.letter}) {part.title}\n\n{text}"
