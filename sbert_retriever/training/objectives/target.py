"""The right answers of a batch."""

from __future__ import annotations

from torch import Tensor

from sbert_retriever.errors import InputError


def needed(target: Tensor | None) -> Tensor:
    """A batch's targets, where an objective cannot do without.

    Raises:
        InputError: There are none.
    """
    if target is None:
        raise InputError("this objective needs a target for each example, and the data has none")
    return target
