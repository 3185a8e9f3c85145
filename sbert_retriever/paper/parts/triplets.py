"""(h) The triplet objective: sentences of one abstract against one of another: table 4."""

from __future__ import annotations

from sbert_retriever.evaluation.models import ModelOptions, load_bi_encoder
from sbert_retriever.evaluation.triplets import scifact_triplets
from sbert_retriever.paper.cells import Cell, Result
from sbert_retriever.paper.parts.frozen import frozen_cell
from sbert_retriever.paper.parts.part import Known, Part
from sbert_retriever.paper.published import TRIPLETS
from sbert_retriever.paper.section import Section, Table, mean_of, pick, shown, spread
from sbert_retriever.paper.study import FROZEN, NEEDS, PACKAGED, Study, measure, taken
from sbert_retriever.paper.trainings import DROPOUT, let_go, trained

_ROWS = ("mean", "static", "random", *PACKAGED)
_FIGURES = ("accuracy_euclidean", "accuracy_cosine")


def cells(study: Study) -> list[Cell]:
    """Frozen rows, then the start model trained on triplets, a cell a seed."""
    return [
        *(frozen_cell(study, row, "triplets") for row in _ROWS),
        *(_trained_cell(study, seed) for seed in study.size.seeds),
    ]


def _trained_cell(study: Study, seed: int) -> Cell:
    size = study.size
    return Cell(
        name=f"train/triplets-seed{seed}",
        settings={
            "start": study.start,
            "triplets": size.triplets,
            "epochs": size.triplet_epochs,
            "dropout": DROPOUT,
            "seed": seed,
        },
        make=lambda: _made(study, seed),
        needs=NEEDS["triplets"],
        tidy=lambda: let_go(study, f"triplets-seed{seed}"),
    )


def _made(study: Study, seed: int) -> Result:
    triplets = scifact_triplets(study.data, split="train")
    columns = (triplets.anchors, triplets.positives, triplets.negatives)
    rows = [
        dict(zip(("anchor", "positive", "negative"), row, strict=True))
        for row in taken(list(zip(*columns, strict=True)), study.size.triplets)
    ]
    config = {
        "model": study.start,
        "pooling": "mean",
        "normalize": False,
        "dropout": DROPOUT,
        "seed": seed,
        "device": study.device,
        "steps": [
            {
                "name": "triplets",
                "objective": {"name": "triplet", "distance": "euclidean", "margin": 1.0},
                "data": [{"kind": "triplets", "rows": rows}],
                "epochs": study.size.triplet_epochs,
                "smart_batching": True,
            }
        ],
    }
    steps, folder = trained(study, f"triplets-seed{seed}", config)
    model = load_bi_encoder(str(folder), ModelOptions(device=study.device))
    figures = {"triplets": measure(model, "triplets", study)}
    return {"steps": steps, "figures": figures}


def section(study: Study, known: Known) -> Section:
    """Accuracy before training and after."""
    rows = []
    for row in _ROWS:
        found = known(frozen_cell(study, row, "triplets"))
        figures = [shown(pick(found, "figures", "triplets", "scifact", f)) for f in _FIGURES]
        rows.append([FROZEN[row], *figures, ""])
    after = {
        figure: [
            pick(known(_trained_cell(study, seed)), "figures", "triplets", "scifact", figure)
            for seed in study.size.seeds
        ]
        for figure in _FIGURES
    }
    name, paper = TRIPLETS["after"]
    trained_row = [spread(after[figure]) for figure in _FIGURES]
    rows.append(["the start model trained on triplets", *trained_row, f"{paper:.2f} ({name})"])
    before, earlier = TRIPLETS["before"]
    rows.append([f"what the paper compares with: {before}", "", "", f"{earlier:.2f}"])
    return Section(
        [
            "Accuracy times 100: is a sentence nearer to one of its own SciFact abstract than to "
            "one of another? One triplet an abstract, one abstract in five kept for testing. The "
            "objective is the paper's: Euclidean distance, margin 1, one epoch.",
        ],
        [Table(["", "Euclidean", "cosine", "the paper's"], rows)],
        [_gain(mean_of(after[_FIGURES[0]]), study, known), _WHY],
    )


def _gain(after: float | None, study: Study, known: Known) -> str:
    at = ("figures", "triplets", "scifact", _FIGURES[0])
    before = pick(known(frozen_cell(study, "mean", "triplets")), *at)
    if before is None or after is None:
        return ""
    gain = TRIPLETS["after"][1] - TRIPLETS["before"][1]
    return (
        f"Training moves the start model by {after - before:+.2f}; the paper's model is "
        f"{gain:+.2f} from the one before it."
    )


_WHY = (
    "The paper tells sections of one Wikipedia article apart, 1.8 million triplets to train on; "
    "here a negative comes from another abstract altogether, which is easier, and there are about "
    "4,100 triplets. The figures compare with each other, not with the paper's."
)

PART = Part(letter="h", title="The triplet objective", trains=True, cells=cells, section=section)
