"""Thresholds for models that were measured, where nothing was calibrated.

docs/faq.md says how they were found.
"""

from __future__ import annotations

from sbert_retriever.encoder.packaged import find_packaged
from sbert_retriever.faq.calibration import Setup, Thresholds

_DENSE = {
    "all-MiniLM-L6-v2": Thresholds(score=0.57, margin=0.12, choose=0.5, follow_up=0.15),
    "bge-small-en-v1.5": Thresholds(score=0.75, margin=0.05, choose=0.75, follow_up=0.54),
}


def default_thresholds(model: str | None, *, setup: Setup) -> Thresholds | None:
    """The thresholds of a model; None where it was not measured.

    Args:
        model: Its name, bare or with the owner of the one that was measured. A folder of the same
            name, or another owner's, may hold a model that was trained further.
        setup: What scores depend on beside it.
    """
    if model is None or setup.mode != "dense":
        return None
    measured = find_packaged(model)
    return None if measured is None else _DENSE.get(measured.name)
