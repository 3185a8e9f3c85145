"""Routes of an application in this process, with settings and contents of a test's own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from sbert_retriever import Faq, FaqEntry, Passage, Retriever
from sbert_retriever.faq import Thresholds
from sbert_retriever.serve import ServeSettings, create_app, open_service
from sbert_retriever.testing import HashEncoder

ENTRIES = [
    FaqEntry(id="hours", answer="9 to 5.", phrasings=["When are you open?"]),
    FaqEntry(id="return", answer="Within 30 days.", phrasings=["How do I return an item?"]),
]
WORDS = Thresholds(score=0.8, margin=0.1, choose=0.3)
Client = Callable[..., TestClient]


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    """Open a client of a service over a collection and an FAQ, in which words alone count."""
    with Retriever.open(tmp_path, model=HashEncoder(dim=256)) as retriever:
        retriever.index([Passage(f"p{n}", f"Chapter {n}.") for n in range(5)])
    with Faq.open(tmp_path, model=HashEncoder(dim=256)) as faq:
        faq.add(ENTRIES)
    with ExitStack() as opened:

        def open_(*, log_unanswered: bool = False, **settings: object) -> TestClient:
            service = open_service(
                tmp_path, model=HashEncoder(dim=256), log_unanswered=log_unanswered
            )
            service.asked()._conversation.judge.thresholds = WORDS
            app = create_app(service, ServeSettings(**settings))
            return opened.enter_context(TestClient(app, base_url="http://localhost"))

        yield open_


def test_more_hits_than_are_allowed_are_refused(client: Client) -> None:
    """They were cut to those, and nobody was told."""
    small = client(max_k=2)
    assert len(small.post("/search", json={"query": "chapter", "k": 2}).json()["hits"]) == 2
    answer = small.post("/search", json={"query": "chapter", "k": 3})
    assert answer.status_code == 400
    assert answer.json()["error"]["message"] == "k is 3, expected 2 at most"


def test_every_question_of_a_request_is_bounded(client: Client) -> None:
    small = client(max_text=5)
    for body in ({"question": "123456"}, {"question": "12345", "previous": "123456"}):
        assert small.post("/faq/ask", json=body).status_code == 400
    said = {"question": "12345 12345", "entry": "hours", "good": True}
    assert small.post("/faq/feedback", json=said).status_code == 201
    assert small.post("/faq/feedback", json={**said, "question": "x" * 12}).status_code == 400
