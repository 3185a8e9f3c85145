"""Questions asked in vain, put together: which entries are missing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from sbert_retriever.faq.conversation import Conversation
from sbert_retriever.faq.entries import Gap
from sbert_retriever.faq.passages import normalised
from sbert_retriever.index.vectors import unit_rows
from sbert_retriever.mining.community import communities
from sbert_retriever.mining.reading import ROUNDING, checked_cosine
from sbert_retriever.search.request import query_texts
from sbert_retriever.types import Encoder
from sbert_retriever.types.checks import whole

DEFAULT_THRESHOLD = 0.6


def found_gaps(
    conversation: Conversation,
    encoder: Encoder,
    questions: Iterable[str],
    *,
    threshold: float | None,
    min_size: int,
) -> list[Gap]:
    """What questions have in common; the arguments are those of `Faq.gaps`.

    Raises:
        InputError: The threshold is no cosine, or min_size is below 1.
    """
    whole("min_size", min_size, least=1)
    least = checked_cosine(DEFAULT_THRESHOLD if threshold is None else threshold)
    asked = _counted(query_texts(questions))
    if not asked:
        return []
    texts = list(asked)
    rows = unit_rows(encoder.encode_passages(texts).astype(np.float64))
    groups = communities(rows, least - ROUNDING, min_size=1)
    counts = [sum(asked[texts[row]] for row in group) for group in groups]
    chosen = [n for n, count in enumerate(counts) if count >= min_size]
    chosen.sort(key=lambda n: (-counts[n], -len(groups[n]), groups[n][0]))
    made = [_ordered(rows, groups[n]) for n in chosen]
    return _with_nearest(
        conversation,
        [
            Gap(
                question=texts[group[0]],
                questions=tuple(texts[row] for row in group),
                count=counts[n],
            )
            for n, group in zip(chosen, made, strict=True)
        ],
    )


def _counted(questions: list[str]) -> dict[str, int]:
    """Questions as they were first written, and how often each was asked."""
    first: dict[str, str] = {}
    counts: Counter[str] = Counter()
    for question in questions:
        key = normalised(question)
        if key:
            counts[first.setdefault(key, question)] += 1
    return dict(counts)


def _ordered(rows: npt.NDArray[np.float64], group: list[int]) -> list[int]:
    """The one in the middle, then the others by how near they are to it."""
    middle, *others = group
    return [middle, *sorted(others, key=lambda row: -float(rows[row] @ rows[middle]))]


def _with_nearest(conversation: Conversation, gaps: list[Gap]) -> list[Gap]:
    if not gaps:
        return []
    # By the first stage alone: nearness is what is asked for, and on one scale.
    first = replace(conversation.lookup, reranker=None)
    found = first.nearest([gap.question for gap in gaps], condition=None)
    named = []
    for gap, each in zip(gaps, found, strict=True):
        best = each.matched.matches[0] if each.matched.matches else None
        if best is not None:
            gap = replace(gap, nearest=best.entry, score=best.hit.score)
        named.append(gap)
    return named
