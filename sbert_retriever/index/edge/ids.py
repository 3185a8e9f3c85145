"""Point ids: what Qdrant takes, refused alike in every mode."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import numpy as np

from sbert_retriever.errors import InputError

_UINT64 = 2**64


def edge_point_id(value: Any) -> int | str | UUID:
    """A point id for the engine: an integer of 64 bits without sign, or a UUID.

    Raises:
        InputError: Anything else. The engine itself would take `True` for 1.

    Examples:
        >>> edge_point_id("00000000000000000000000000000005")
        UUID('00000000-0000-0000-0000-000000000005')
    """
    if isinstance(value, UUID):
        return value
    if isinstance(value, str):
        try:
            return UUID(value)
        except ValueError:
            raise _refused(value) from None
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        number = int(value)
        if 0 <= number < _UINT64:
            return number
    raise _refused(value)


def _refused(value: object) -> InputError:
    return InputError(
        f"point id is {value!r:.60} ({type(value).__name__}), expected an integer from 0 to "
        "2**64-1 or a UUID (passage ids may be any text: only point ids are restricted)"
    )
