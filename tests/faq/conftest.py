"""A shop's FAQ, with a model that knows meanings, and with one that knows words alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sbert_retriever import BiEncoder, Faq, FaqEntry
from sbert_retriever.faq import Thresholds
from sbert_retriever.testing import HashEncoder

ENTRIES = [
    FaqEntry(
        id="hours",
        answer="Monday to Saturday, 9 to 5. Closed on Sundays.",
        phrasings=["When are you open?", "What are your opening hours?"],
        tags=["shop"],
        language="en",
        links=["https://example.org/hours"],
    ),
    FaqEntry(
        id="return",
        answer="Within 30 days, with the receipt.",
        phrasings=["How do I return an item?", "Can I send something back?"],
        tags=["orders"],
        language="en",
    ),
    FaqEntry(
        id="ship",
        answer="Two to four working days.",
        phrasings=["How long does delivery take?"],
        tags=["orders", "delivery"],
        language="en",
    ),
]
WORDS = Thresholds(score=0.8, margin=0.1, choose=0.3)


@pytest.fixture
def entries() -> list[FaqEntry]:
    """Three entries with five phrasings."""
    return list(ENTRIES)


@pytest.fixture
def open_faq() -> Iterator[Callable[..., Faq]]:
    """Open FAQs that are closed at the end."""
    opened: list[Faq] = []

    def open_(location: str | Path | None = ":memory:", **settings: Any) -> Faq:
        settings.setdefault("model", HashEncoder(dim=256))
        settings.setdefault("thresholds", WORDS)
        faq = Faq.open(location, **settings)
        opened.append(faq)
        return faq

    yield open_
    for faq in opened:
        faq.close()


@pytest.fixture
def shop(open_faq: Callable[..., Faq]) -> Faq:
    """Three entries, five phrasings; words alone count."""
    faq = open_faq()
    faq.add(ENTRIES)
    return faq


@pytest.fixture
def meant(open_faq: Callable[..., Faq], minilm: BiEncoder) -> Faq:
    """The same by meaning, with the model's own thresholds."""
    faq = open_faq(model=minilm, thresholds=None)
    faq.add(ENTRIES)
    return faq
