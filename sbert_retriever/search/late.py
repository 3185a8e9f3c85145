"""Late interaction between the first stage and the rerank: candidates in the order of MaxSim.

Where the collection keeps token vectors, the engine compares them; else the candidates are encoded
when they are asked about.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import numpy.typing as npt

from sbert_retriever.encoder.late_interaction import maxsim_scores
from sbert_retriever.errors import InputError
from sbert_retriever.index.steps import Steps, work
from sbert_retriever.index.store import PassageStore
from sbert_retriever.rerank.late import TokenEncoder, maxsim_order
from sbert_retriever.types import Encoder, Hit


def by_late_interaction(
    store: PassageStore,
    encoder: Encoder | TokenEncoder | None,
    queries: Sequence[str],
    found: Sequence[list[Hit]],
    *,
    count: int,
    stored: bool = True,
) -> Steps[list[list[Hit]]]:
    """The first `count` hits of each query by MaxSim, then the others; ties keep their order.

    Args:
        store: The collection.
        encoder: Gives token vectors.
        queries: What was asked.
        found: The hits of each.
        count: How many of each are put in order.
        stored: Whether token vectors that the collection keeps are this encoder's.

    Raises:
        InputError: The encoder gives no token vectors.
    """
    if not isinstance(encoder, TokenEncoder):
        raise InputError(
            f"late interaction needs token vectors, and {type(encoder).__name__} gives none: use a "
            "profile with late=0"
        )
    ordered = []
    asked = yield work(partial(encoder.encode_tokens, role="query"), list(queries))
    for rows, hits in zip(asked, found, strict=True):
        scores = yield from _scores(store if stored else None, encoder, rows, hits[:count])
        ordered.append(maxsim_order(hits, scores) if scores else hits)
    return ordered


def _scores(
    store: PassageStore | None,
    encoder: TokenEncoder,
    rows: npt.NDArray[np.float32],
    hits: list[Hit],
) -> Steps[list[float]]:
    """MaxSim of each hit, from stored token vectors where there are any."""
    if not hits:
        return []
    known: dict[str, float] = {}
    if store is not None and store.tokens:
        known = yield from store.token_scores(rows, [hit.id for hit in hits])
    rest = [hit for hit in hits if hit.id not in known]
    if rest:
        made = yield work(partial(_made, encoder, rows), [hit.text for hit in rest])
        known |= {hit.id: score for hit, score in zip(rest, made, strict=True)}
    return [known[hit.id] for hit in hits]


def _made(encoder: TokenEncoder, rows: npt.NDArray[np.float32], texts: list[str]) -> list[float]:
    passages = encoder.encode_tokens(texts, role="passage")
    scores: list[float] = maxsim_scores(rows, passages).tolist()
    return scores
