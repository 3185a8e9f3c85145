"""Late interaction as a middle stage: what gives token vectors, and the order that MaxSim makes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np

from sbert_retriever.types import Hit, Role

if TYPE_CHECKING:
    from sbert_retriever.types import Vectors


@runtime_checkable
class TokenEncoder(Protocol):
    """An encoder that also gives token vectors, as `BiEncoder` does."""

    def encode_tokens(self, texts: Iterable[str], *, role: Role) -> list[Vectors]:
        """One float32 (tokens, width) a text, each row of length 1."""


def maxsim_order(hits: Sequence[Hit], scores: Sequence[float]) -> list[Hit]:
    """The first hits by their scores, then those that have none."""
    order = np.argsort(-np.array(scores), kind="stable")
    ranked = [
        replace(
            hits[n],
            score=float(scores[n]),
            score_kind="maxsim",
            first_score=hits[n].score,
            first_score_kind=hits[n].score_kind,
        )
        for n in order
    ]
    return [*ranked, *hits[len(ranked) :]]
