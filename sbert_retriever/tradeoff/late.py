"""Late interaction over the candidates of many queries, each passage encoded once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from sbert_retriever.encoder.late_interaction import maxsim
from sbert_retriever.rerank.late import TokenEncoder, maxsim_order
from sbert_retriever.types import Hit

# Passages whose token vectors are held at a time.
_AT_ONCE = 64


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
        query: maxsim_order(hits, [scores[query, hit.id] for hit in hits[:count]])
        for query, hits in candidates.items()
    }
