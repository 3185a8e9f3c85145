"""Thresholds for models that were measured, where nothing was calibrated.

docs/faq.md says how they were found.
"""

from __future__ import annotations

from sbert_retriever.faq.calibration import Setup, Thresholds

_DENSE = {
    "all-MiniLM-L6-v2": Thresholds(score=0.57, margin=0.12, choose=0.5),
    "bge-small-en-v1.5": Thresholds(score=0.75, margin=0.05, choose=0.75),
}


def default_thresholds(model: str | None, *, setup: Setup) -> Thresholds | None:
    """The thresholds of a model; None where it was not measured.

    Args:
        model: Its name, with or without an owner.
        setup: What scores depend on beside it.
    """
    if model is None or setup.mode != "dense":
        return None
    return _DENSE.get(model.rpartition("/")[2])
