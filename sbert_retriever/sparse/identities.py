"""What a collection remembers of its sparse encoder, compared and said in words."""

from __future__ import annotations

import math
from dataclasses import replace

from sbert_retriever.types import SparseIdentity


def same_sparse(asked: SparseIdentity | None, there: SparseIdentity | None) -> bool:
    """Whether both are one encoder; a server may hand a float back one unit off."""
    if asked is None or there is None:
        return asked is there
    if asked.settings.keys() != there.settings.keys():
        return False
    numbers = {
        name: value
        for name, value in asked.settings.items()
        if isinstance(value, float)
        and isinstance(there.settings[name], float)
        and math.isclose(value, there.settings[name], rel_tol=1e-14)
    }
    return asked == replace(there, settings={**there.settings, **numbers})


def described_sparse(identity: SparseIdentity | None) -> str:
    """Sparse vectors in words."""
    if identity is None:
        return "none"
    settings = ", ".join(f"{name}={value}" for name, value in identity.settings.items())
    return f"{identity.name} ({settings})" if settings else identity.name
