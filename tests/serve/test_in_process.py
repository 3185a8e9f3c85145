"""Routes of an application in this process, with settings and contents of a test's own."""

from __future__ import annotations

import io
import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from fastapi.testclient import TestClient
from qdrant_client import QdrantClient

from sbert_retriever import Faq, FaqEntry, Passage, Retriever
from sbert_retriever.errors import (
    DeviceError,
    GivenUpError,
    InputError,
    ReadError,
    StoreAccessError,
    StoreClosedError,
    StoreError,
    StoreLockedError,
    StoreUnavailableError,
)
from sbert_retriever.faq import Thresholds
from sbert_retriever.faq.notebook import Notebook
from sbert_retriever.index.steps import RetryPolicy
from sbert_retriever.rerank import Reranker
from sbert_retriever.serve import ServeSettings, Service, create_app, open_service
from sbert_retriever.serve.keys import Keys
from sbert_retriever.serve.logs import logging_to
from sbert_retriever.serve.models import SharedModels
from sbert_retriever.serve.scorer import SharedScorer
from sbert_retriever.testing import HashEncoder

ENTRIES = [
    FaqEntry(id="hours", answer="9 to 5.", phrasings=["When are you open?"]),
    FaqEntry(id="return", answer="Within 30 days.", phrasings=["How do I return an item?"]),
]
WORDS = Thresholds(score=0.8, margin=0.1, choose=0.3)
PATIENCE_S = 60.0
Client = Callable[..., TestClient]


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    """Open a client of a service over a collection and an FAQ, in which words alone count."""
    with Retriever.open(tmp_path, model=HashEncoder(dim=256)) as retriever:
        retriever.index([Passage(f"p{n}", f"Chapter {n}.") for n in range(5)])
    with Faq.open(tmp_path, model=HashEncoder(dim=256)) as faq:
        faq.add(ENTRIES)
    with ExitStack() as opened:

        def open_(
            *, log_unanswered: bool = False, retry: RetryPolicy | None = None, **settings: object
        ) -> TestClient:
            service = open_service(
                tmp_path,
                model=HashEncoder(dim=256),
                log_unanswered=log_unanswered,
                retry=retry,
            )
            service.asked()._conversation.judge.thresholds = WORDS
            app = create_app(service, ServeSettings(**settings))
            app.state.service = service
            made = opened.enter_context(TestClient(app, base_url="http://localhost"))
            _until(lambda: service.ready)
            return made

        yield open_


def test_more_hits_than_are_allowed_are_refused(client: Client) -> None:
    """They were cut to those, and nobody was told."""
    small = client(max_k=2)
    assert len(small.post("/search", json={"query": "chapter", "k": 2}).json()["hits"]) == 2
    answer = small.post("/search", json={"query": "chapter", "k": 3})
    assert answer.status_code == 400
    assert answer.json()["error"]["message"] == "k is 3, expected 2 at most"


def test_the_hits_of_all_groups_together_are_bounded(client: Client) -> None:
    """A hundred of each of a thousand groups were to be had where ten hits were allowed."""
    small = client(max_k=4)
    body = {"query": "chapter", "k": 2, "group_size": 3}
    assert small.post("/search", json=body).status_code == 200
    answer = small.post("/search", json={**body, "group_by": "source"})
    assert answer.status_code == 400
    assert answer.json()["error"]["message"] == "k times group_size is 6, expected 4 at most"


def test_every_question_of_a_request_is_bounded(client: Client) -> None:
    small = client(max_text=5)
    for body in ({"question": "123456"}, {"question": "12345", "previous": "123456"}):
        assert small.post("/faq/ask", json=body).status_code == 400
    said = {"question": "12345 12345", "entry": "hours", "good": True}
    assert small.post("/faq/feedback", json=said).status_code == 201
    assert small.post("/faq/feedback", json={**said, "question": "x" * 12}).status_code == 400


def test_a_budget_for_an_faq_without_a_cross_encoder_is_refused(client: Client) -> None:
    answer = client().post("/faq/ask", json={"question": "when are you open", "budget_ms": 200})
    assert answer.status_code == 400
    assert "--faq-rerank" in answer.json()["error"]["message"]


def test_searches_that_wait_for_the_model_are_encoded_together(client: Client) -> None:
    """Five come while it is at work: the first begins a batch, and the rest are the next."""
    asked, gate = client(), threading.Event()
    models = asked.app.state.service.models
    before = models.encoder.counts
    with ThreadPoolExecutor(9) as pool:
        busy = pool.submit(models.turn, gate.wait, PATIENCE_S)
        try:
            found = [
                pool.submit(asked.post, "/search", json={"query": f"Chapter {n}.", "k": 1})
                for n in range(5)
            ]
            _until(lambda: models.encoder._batcher.waiting == 5)
        finally:
            gate.set()
        busy.result(PATIENCE_S)
        hits = [each.result(PATIENCE_S).json()["hits"][0]["id"] for each in found]
    assert hits == [f"p{n}" for n in range(5)]
    done = models.encoder.counts
    assert done.shares - before.shares == 5
    assert done.batches - before.batches <= 2


def test_writers_that_wait_for_each_other_keep_no_search_waiting(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each held a thread while it waited: as many as there are threads left none."""
    asked, gate, begun = client(threads=2), threading.Event(), threading.Event()
    faq = asked.app.state.service.asked()
    add = faq.add

    def slow(*args: Any, **options: Any) -> int:
        begun.set()
        gate.wait(PATIENCE_S)
        return add(*args, **options)

    monkeypatch.setattr(faq, "add", slow)
    body = {"answer": "Yes.", "phrasings": ["Do you?"]}
    with ThreadPoolExecutor(3) as pool:
        written = [pool.submit(asked.put, f"/faq/entries/e{n}", json=body) for n in range(3)]
        try:
            assert begun.wait(PATIENCE_S)
            assert asked.post("/search", json={"query": "Chapter 1."}).status_code == 200
        finally:
            gate.set()
        assert [each.result(PATIENCE_S).status_code for each in written] == [200] * 3


def test_feedback_that_was_kept_is_learned_from_while_the_service_runs(client: Client) -> None:
    """It holds the folder: `faq calibrate` needed it stopped."""
    asked = client()
    few = asked.post("/faq/calibrate", json={})
    assert (few.status_code, "give 30 at least" in few.text) == (400, True)
    for n in range(20):
        for question, entry, good in [
            (f"so when are you open {n}", "hours", True),
            (f"how do I return an item {n}", "return", True),
            (f"when is number {n} open to anyone who wants it", "hours", False),
        ]:
            said = {"question": question, "entry": entry, "good": good}
            assert asked.post("/faq/feedback", json=said).status_code == 201
    question = {"question": "so when are you open then"}
    assert asked.post("/faq/calibrate", json={"target_precision": 2}).status_code == 422
    assert asked.post("/faq/calibrate").status_code == 422
    body = {"target_precision": 0.8, "dry_run": True}
    tried = asked.post("/faq/calibrate", json=body).json()
    assert tried["kept"] is False
    assert asked.post("/faq/ask", json=question).json()["confidence"] is None
    found = asked.post("/faq/calibrate", json={**body, "dry_run": False}).json()
    assert found == {**tried, "kept": True}
    assert (found["questions"], found["in_scope"], found["scope_unknown"]) == (60, 40, 20)
    assert found["precision"] >= 0.8
    assert 0.5 < asked.post("/faq/ask", json=question).json()["confidence"] < 1


def test_what_was_asked_in_vain_is_put_together_while_the_service_runs(client: Client) -> None:
    asked = client(log_unanswered=True)
    assert asked.get("/faq/gaps").json() == {"gaps": [], "count": 0}
    for question in ("do you sell gift cards", "do you sell gift cards?", "capital of France"):
        assert asked.post("/faq/ask", json={"question": question}).json()["outcome"] == "abstain"
    found = asked.get("/faq/gaps").json()
    assert found["count"] == 1
    assert (found["gaps"][0]["question"], found["gaps"][0]["count"]) == (
        "do you sell gift cards",
        2,
    )
    both = asked.get("/faq/gaps", params={"min_size": 1, "limit": 1}).json()
    assert (len(both["gaps"]), both["count"]) == (1, 2)
    assert asked.get("/faq/gaps", params={"threshold": 2}).status_code == 422


def test_the_page_is_told_whether_feedback_can_be_kept(client: Client) -> None:
    """It offered thumbs where each was refused, and of no log it was said that it has no gaps."""
    asked = client()
    assert asked.get("/page/facts").json()["faq_feedback"] is True
    asked.app.state.service.asked()._notebook = Notebook(None)  # as on a server without --log
    assert asked.get("/page/facts").json()["faq_feedback"] is False
    said = {"question": "when are you open", "entry": "hours", "good": True}
    for answer in (asked.post("/faq/feedback", json=said), asked.get("/faq/gaps")):
        assert (answer.status_code, "--log FILE" in answer.text) == (400, True)
    asked.app.state.service.faq = None
    assert asked.get("/page/facts").json()["faq_feedback"] is False


def test_other_pages_set_nothing_off(client: Client) -> None:
    """Any page could have what was asked in vain put together, again and again, as a picture."""
    foreign = {"sec-fetch-site": "cross-site"}
    asked = client()
    answer = asked.get("/faq/gaps", headers=foreign)
    assert answer.status_code == 403
    assert "another web page" in answer.json()["error"]["message"]
    for path in ("/", "/healthz", "/static/api.js"):  # a link to the page is followed
        assert asked.get(path, headers=foreign).status_code == 200
    for site in ("same-origin", "same-site", "none"):
        assert asked.get("/faq/gaps", headers={"sec-fetch-site": site}).status_code == 200


@pytest.mark.parametrize(
    ("settings", "sent", "status"),
    [
        ({"origins": ("https://a.org",)}, {"origin": "https://a.org"}, 200),
        ({"origins": ("https://a.org",)}, {"origin": "https://b.org"}, 403),
        ({"origins": ("https://a.org",)}, {}, 403),
        ({"origins": ("*",)}, {"origin": "https://b.org"}, 200),
        ({"keys": Keys(["a key of some length"])}, {"x-api-key": "a key of some length"}, 200),
    ],
)
def test_other_pages_that_are_allowed_or_have_a_key_are_let_in(
    client: Client, settings: Any, sent: dict[str, str], status: int
) -> None:
    asked = client(**settings)
    answer = asked.get("/faq/gaps", headers={"sec-fetch-site": "cross-site", **sent})
    assert answer.status_code == status


def test_to_learn_needs_a_key_as_to_write_does(client: Client) -> None:
    asked = client(keys=Keys(["a key of some length"]))
    assert asked.post("/faq/calibrate", json={}).status_code == 401
    assert asked.get("/faq/gaps").status_code == 401
    asked.headers["x-api-key"] = "a key of some length"
    assert asked.get("/faq/gaps").status_code == 200


class _Table:
    """Scores documents by a table; remembers how often pairs were made ready."""

    score_kind = "logit"

    def __init__(self, table: dict[str, float]) -> None:
        self._table, self.prepared = table, 0

    def prepare(self, pairs: Iterable[tuple[str, str]], *, max_length: int | None = None) -> Any:
        self.prepared += 1
        given = list(pairs)
        return SimpleNamespace(
            lengths=np.array([len(f"{query} {text}".split()) for query, text in given]),
            truncated=np.zeros(len(given), dtype=bool),
            score=lambda indexes: np.array([self._table[given[n][1]] for n in indexes]),
        )


def test_pairs_are_made_ready_once_to_be_scored_and_counted(client: Client) -> None:
    """Each was tokenised a second time, for the count."""
    asked = client()
    models, scorer = asked.app.state.service.models, _Table({"b c d": 0.0, "e": 2.0})
    models._reranker = Reranker(SharedScorer(scorer, turn=models.turn))
    answer = asked.post("/rerank", json={"query": "a", "documents": ["b c d", "e"]}).json()
    assert scorer.prepared == 1
    assert answer["usage"]["total_tokens"] == 4 + 2
    # 1 / (1 + exp(-2)) and 1 / 2
    assert [(each["index"], each["relevance_score"]) for each in answer["results"]] == [
        (1, pytest.approx(0.880797, abs=1e-6)),
        (0, 0.5),
    ]


class _Unready(Service):
    """A service that is ready at its third try."""

    failing: Exception
    tries = 0

    def _warm_up(self) -> None:
        self.tries += 1
        if self.tries < 3:
            raise self.failing


@pytest.mark.parametrize(
    ("error", "status"),
    [(StoreUnavailableError("http://host:6333 is away"), 200), (InputError("no model"), 503)],
)
def test_a_service_that_could_not_be_made_ready_is_tried_again_where_that_can_pass(
    monkeypatch: pytest.MonkeyPatch, error: Exception, status: int
) -> None:
    """It was tried once, and said for ever that it had failed."""
    monkeypatch.setattr("sbert_retriever.serve.app._PAUSE_S", 0.01)
    service = _Unready(SharedModels(HashEncoder()))
    service.failing = error
    with TestClient(create_app(service), base_url="http://localhost") as asked:
        _until(lambda: service.tries == 3 if status == 200 else service.failure is not None)
        _until(lambda: asked.get("/readyz").status_code == status)
        found = asked.get("/readyz").json()
    assert service.tries == (3 if status == 200 else 1)
    if status == 200:
        assert found == {"status": "ready", "reason": None}
    else:
        assert found["reason"] == "a setting of the service cannot be used, see its log"


QUICK = RetryPolicy(deadline_s=0.1)


def test_a_server_that_is_away_is_told_of_in_time(client: Client) -> None:
    """It was asked again for a minute, and the requests got 504 after half of one."""
    asked = client(retry=QUICK)
    service = asked.app.state.service
    held = [each.store.connection for each in (service.retriever, service.faq.retriever)]
    assert [each.retry for each in held] == [QUICK, QUICK]
    own = [each.client for each in held]
    away = QdrantClient("http://127.0.0.1:9", timeout=1, check_compatibility=False)
    try:
        for each in held:
            each.client = away
        for path, body in [
            ("/search", {"query": "Chapter 1."}),
            ("/faq/ask", {"question": "When are you open?"}),
            ("/faq/entries", {"id": "a", "answer": "b", "phrasings": ["c"]}),
        ]:
            answer = asked.post(path, json=body)
            assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
            assert answer.json()["error"]["message"] == (
                "the Qdrant server behind the service does not answer, see its log"
            )
    finally:
        for each, client_ in zip(held, own, strict=True):
            each.client = client_
        away.close()
    assert asked.post("/search", json={"query": "Chapter 1."}).status_code == 200


def test_a_server_is_asked_again_for_less_time_than_a_request_has(client: Client) -> None:
    service = client().app.state.service
    for each in (service.retriever, service.faq.retriever):
        assert each.store.connection.retry.deadline_s == 5.0
    assert ServeSettings().patience_s == 5.0
    assert ServeSettings(timeout_s=3.0).patience_s == 1.0


TROUBLE: dict[Exception, int] = {
    StoreError("the disk of /a/place is full"): 503,
    StoreLockedError("/a/place is held"): 503,
    StoreClosedError("/a/place was closed"): 503,
    StoreAccessError("the server answered 401 at /a/place"): 503,
    GivenUpError("given up at /a/place"): 503,
    DeviceError("no device for /a/place"): 500,
    ReadError("/a/place cannot be read"): 500,
}


def test_trouble_of_the_service_is_told_by_its_kind_and_logged(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk, and a key of the service that was refused, were faults of whoever asked."""
    asked = client()
    for (error, status), texts in product(TROUBLE.items(), (False, True)):
        failing = Mock(side_effect=error)
        monkeypatch.setattr(asked.app.state.service.retriever, "search_detailed", failing)
        stream = io.StringIO()
        with logging_to(stream, texts=texts):
            answer = asked.post("/search", json={"query": "Chapter 1."})
        assert answer.status_code == status
        assert "/a/place" not in answer.text
        assert answer.json()["error"]["message"].endswith("log")
        assert ("retry-after" in answer.headers) is (status == 503)
        fault, request = map(json.loads, stream.getvalue().splitlines())
        assert (fault["event"], fault["error"]["type"]) == ("fault", type(error).__name__)
        assert fault["error"].get("message") == (str(error) if texts else None)
        assert (request["event"], request["error"]) == ("request", type(error).__name__)


def test_one_at_a_time_learns(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two at once took twice the memory, and as many as there are threads left none."""
    asked, gate, begun = client(threads=2), threading.Event(), threading.Event()
    faq = asked.app.state.service.asked()
    under_way, most = 0, 0

    def slow(*_: Any, **__: Any) -> list[Any]:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        begun.set()
        gate.wait(PATIENCE_S)
        under_way -= 1
        return []

    def refused(*_: Any, **__: Any) -> None:
        slow()
        raise InputError("nothing was learned")

    monkeypatch.setattr(faq, "gaps", slow)
    monkeypatch.setattr(faq, "calibrate", refused)
    with ThreadPoolExecutor(4) as pool:
        gaps = [pool.submit(asked.get, "/faq/gaps") for _ in range(2)]
        learned = [pool.submit(asked.post, "/faq/calibrate", json={}) for _ in range(2)]
        try:
            assert begun.wait(PATIENCE_S)
            assert asked.post("/search", json={"query": "Chapter 1."}).status_code == 200
        finally:
            gate.set()
        assert [each.result(PATIENCE_S).status_code for each in gaps] == [200] * 2
        assert [each.result(PATIENCE_S).status_code for each in learned] == [400] * 2
    assert most == 1


def _until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.002)


@pytest.mark.parametrize("blank", ["", " ", "\n\t"])
def test_a_blank_question_is_refused(client: Client, blank: str) -> None:
    """It got "I don't know", as if it had been a question."""
    assert client().post("/faq/ask", json={"question": blank}).status_code == 422
