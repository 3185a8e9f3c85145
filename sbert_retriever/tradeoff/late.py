"""Late interaction as a middle stage: candidates put in order by MaxSim, computed when asked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np

from sbert_retriever.encoder.late_interaction import maxsim, maxsim_scores
from sbert_retriever.types import Hit, Role

if TYPE_CHECKING:
    from sbert_retriever.types import Vectors

# Passages whose token vectors are held at a time.
_AT_ONCE = 64


@runtime_checkable
class TokenEncoder(Protocol):
    """An encoder that also gives token vectors, as `BiEncoder` does."""

    def encode_tokens(self, texts: Iterable[str], *, role: Role) -> list[Vectors]:
        """One float32 (tokens, width) a text, each row of length 1."""


def by_maxsim(encoder: TokenEncoder, query: str, hits: Sequence[Hit], *, count: int) -> list[Hit]:
    """The first `count` hits of a query by MaxSim, then the others; ties keep their order."""
    head = hits[:count]
    if not head:
        return []
    asked = encoder.encode_tokens([query], role="query")[0]
    passages = encoder.encode_tokens([hit.text for hit in head], role="passage")
    return _ordered(hits, maxsim_scores(asked, passages).tolist())


def all_by_maxsim(
    encoder: TokenEncoder,
    queries: Mapping[str, str],
    candidates: Mapping[str, Sequence[Hit]],
    *,
    count: int,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> dict[str, list[Hit]]:
    """Candidates of many queries by MaxSim, each passage encoded once, a few held at a time.

    Args:
        encoder: Gives the token vectors.
        queries: {query id: text}.
        candidates: {query id: its hits}.
        count: How many of each are put in order; the others follow.
        on_progress: Told how many passages are done, of how many.
    """
    asked = dict(zip(queries, encoder.encode_tokens(queries.values(), role="query"), strict=True))
    texts = {hit.id: hit.text for hits in candidates.values() for hit in hits[:count]}
    wanted_by: dict[str, list[str]] = {}
    for query, hits in candidates.items():
        for hit in hits[:count]:
            wanted_by.setdefault(hit.id, []).append(query)
    scores: dict[tuple[str, str], float] = {}
    ids = list(texts)
    for start in range(0, len(ids), _AT_ONCE):
        part = ids[start : start + _AT_ONCE]
        tokens = encoder.encode_tokens([texts[i] for i in part], role="passage")
        for passage, rows in zip(part, tokens, strict=True):
            for query in wanted_by[passage]:
                scores[query, passage] = maxsim(asked[query], rows)
        on_progress(start + len(part), len(ids))
    return {
        query: _ordered(hits, [scores[query, hit.id] for hit in hits[:count]])
        for query, hits in candidates.items()
    }


def _ordered(hits: Sequence[Hit], scores: Sequence[float]) -> list[Hit]:
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
