"""Hits to entries: which entry a question is about, and what tells whether it is.

Pure functions on hits.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sbert_retriever.faq.passages import entry_id_of
from sbert_retriever.types import Hit, ScoreKind

NEIGHBOURS = 10
"""How many of the nearest phrasings vote."""
CROSS_WEIGHT = 0.01
"""Of a cross-encoder's score, in the order of entries."""
_POOLED = 3
_TEMPERATURE = 0.05


@dataclass(frozen=True, kw_only=True)
class Match:
    """An entry that a question may be about.

    Args:
        entry: Its id.
        hit: Its best passage, with the score of the last stage.
        pooled: What entries are put in order by.
    """

    entry: str
    hit: Hit
    pooled: float


@dataclass(frozen=True, kw_only=True)
class Matched:
    """What a question matched.

    Args:
        matches: The entries, the best first.
        features: What a calibration goes by: "score" of the best entry, "margin" to the next,
            "share" of the nearest phrasings that are the best entry's; "logit" and "logit_margin"
            where a cross-encoder looked.
        hits: The phrasings that were found, best first.
        bound: What an entry that was not found scores at most.
    """

    matches: tuple[Match, ...]
    features: Mapping[str, float]
    hits: tuple[Hit, ...]
    bound: float

    def score_of(self, entry: str) -> float | None:
        """The first stage's score of an entry; None where it is not among those found."""
        return next((hit.score for hit in self.hits if entry_id_of(hit) == entry), None)


def matched(hits: Sequence[Hit], *, complete: bool = False) -> Matched:
    """The entries of hits, best first.

    An entry is as good as its best phrasing, and a little better where others of its phrasings are
    near, too: the soft maximum of its three best scores.

    Args:
        hits: Of phrasings, best first.
        complete: Whether no further phrasing could have been found, so that no entry is left out.
    """
    groups: dict[str, list[Hit]] = {}
    for hit in hits:
        groups.setdefault(entry_id_of(hit), []).append(hit)
    found = [
        Match(entry=entry, hit=own[0], pooled=soft_maximum([h.score for h in own[:_POOLED]]))
        for entry, own in groups.items()
    ]
    found.sort(key=lambda match: -match.pooled)
    # An entry that was not found is below the last phrasing that was; where none is left, 0 stands.
    bound = hits[-1].score if len(hits) > 1 and not complete else 0.0
    features = _features(found, hits, bound)
    return Matched(matches=tuple(found), features=features, hits=tuple(hits), bound=bound)


def soft_maximum(scores: Sequence[float], temperature: float = _TEMPERATURE) -> float:
    """The largest, and a little more where others are near: log-sum-exp.

    Examples:
        >>> soft_maximum([0.8])
        0.8
        >>> round(soft_maximum([0.8, 0.8]), 4), round(soft_maximum([0.8, 0.4]), 4)
        (0.8347, 0.8)
    """
    most = max(scores)
    return most + temperature * math.log(sum(math.exp((s - most) / temperature) for s in scores))


def _features(found: Sequence[Match], hits: Sequence[Hit], bound: float) -> dict[str, float]:
    if not found:
        return {"score": 0.0, "margin": 0.0, "share": 0.0}
    return _of_entry(found[0], found, hits, bound)


def _of_entry(
    match: Match, found: Sequence[Match], hits: Sequence[Hit], bound: float
) -> dict[str, float]:
    """What tells whether an entry is the one."""
    others = [other.pooled for other in found if other.entry != match.entry]
    near = [entry_id_of(hit) for hit in hits[:NEIGHBOURS]]
    return {
        "score": match.hit.score,
        "margin": match.pooled - max(others, default=bound),
        "share": near.count(match.entry) / len(near),
    }


def weighed(found: Matched, logits: Mapping[str, float], kind: ScoreKind) -> Matched:
    """The entries in an order that a cross-encoder has a say in; what it did not see follows.

    Each unit of its score counts as much as a hundredth of a cosine: it decides between entries
    that are nearly as near, and no more.

    Args:
        found: Before it.
        logits: {passage id: score} of the best passages of some entries.
        kind: The scale of those scores.
    """
    judged = [match for match in found.matches if match.hit.id in logits]
    if not judged:
        return found
    judged.sort(key=lambda match: -(match.pooled + CROSS_WEIGHT * logits[match.hit.id]))
    seen = {match.entry for match in judged}
    rest = [match for match in found.matches if match.entry not in seen]
    best, *others = (logits[match.hit.id] for match in judged)
    own = _of_entry(judged[0], found.matches, found.hits, found.bound)
    return replace(
        found,
        matches=(*(_rescored(match, logits, kind) for match in judged), *rest),
        features={**own, "logit": best, "logit_margin": best - max(others, default=best)},
    )


def _rescored(match: Match, logits: Mapping[str, float], kind: ScoreKind) -> Match:
    hit = replace(
        match.hit,
        score=logits[match.hit.id],
        score_kind=kind,
        first_score=match.hit.score,
        first_score_kind=match.hit.score_kind,
        rerank_score=logits[match.hit.id],
        rerank_score_kind=kind,
        reranked=True,
    )
    return replace(match, hit=hit)
