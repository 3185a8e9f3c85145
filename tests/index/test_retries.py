"""Retries and back-off, against a listener that fails on purpose."""

import asyncio
import itertools
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import grpc
import numpy as np
import pytest

from sbert_retriever import Passage, Retriever
from sbert_retriever.errors import StoreAccessError, StoreRequestError, StoreUnavailableError
from sbert_retriever.index import batches
from sbert_retriever.index.connection import connect
from sbert_retriever.index.faults import classify
from sbert_retriever.index.points import Layout, draft
from sbert_retriever.index.steps import RetryPolicy
from sbert_retriever.index.store import PassageStore
from sbert_retriever.testing import HashEncoder

DONE = {"result": {"operation_id": 1, "status": "completed"}, "status": "ok", "time": 0.0}
QUICK = RetryPolicy(deadline_s=20.0, initial_s=0.05, longest_s=0.2)


class Listener:
    """Answers each request with the next of a list of (status, headers, seconds)."""

    def __init__(self, answers):
        self.answers = list(answers)
        self.requests = []
        listener = self

        class Handler(BaseHTTPRequestHandler):
            def do_PUT(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                listener.requests.append((time.monotonic(), json.loads(body)))
                status, headers, pause = (
                    listener.answers.pop(0) if listener.answers else (200, {}, 0)
                )
                time.sleep(pause)
                text = json.dumps(DONE if status == 200 else {"status": {"error": "on purpose"}})
                try:
                    self.send_response(status)
                    for name, value in headers.items():
                        self.send_header(name, value)
                    self.send_header("Content-Length", str(len(text)))
                    self.end_headers()
                    self.wfile.write(text.encode())
                except BrokenPipeError:
                    self.close_connection = True

            def log_message(self, *args):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.05,))
        self.thread.start()
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def ids(self):
        return [[p["payload"]["text"] for p in body["points"]] for _, body in self.requests]

    def pauses(self):
        times = [moment for moment, _ in self.requests]
        return [later - sooner for sooner, later in itertools.pairwise(times)]

    def close(self):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


@pytest.fixture
def listening():
    made = []

    def make(*answers):
        made.append(Listener(answers))
        return made[-1]

    yield make
    for listener in made:
        listener.close()


def drafts(n):
    return [draft(Passage(f"p{i}", f"t{i}"), Layout()) for i in range(n)]


def write(listener, n, *, policy=QUICK, asynchronous=False, timeout_s=1):
    connection = connect(listener.url, timeout_s=timeout_s, retry=policy)
    store = PassageStore(connection, "c")
    steps = store.write(drafts(n), np.ones((n, 4), dtype=np.float32))
    if not asynchronous:
        try:
            return connection.run(steps)
        finally:
            connection.close()

    async def inside():
        try:
            return await connection.arun(steps)
        finally:
            await connection.aclose()

    return asyncio.run(inside())


@pytest.mark.parametrize("asynchronous", [False, True])
def test_two_timeouts_and_a_limit_are_waited_out(listening, asynchronous):
    """Two time-outs and a 429 with Retry-After end in one write, after the pause asked for."""
    listener = listening((200, {}, 1.6), (200, {}, 1.6), (429, {"Retry-After": "1"}, 0))
    assert write(listener, 2, asynchronous=asynchronous) == []
    assert listener.ids() == [["t0", "t1"]] * 4
    # The same points each time, so a write that did arrive is not doubled.
    points = [body["points"] for _, body in listener.requests]
    assert all(p == points[0] for p in points)
    assert listener.pauses()[-1] >= 1.0


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504, 408])
def test_passing_faults_are_tried_again(listening, status):
    listener = listening((status, {}, 0), (status, {}, 0))
    assert write(listener, 1) == []
    assert len(listener.requests) == 3


def test_a_retry_after_that_is_a_date_is_still_a_limit(listening):
    listener = listening((429, {"Retry-After": "Wed, 21 Oct 2026 07:28:00 GMT"}, 0))
    assert write(listener, 1) == []
    assert len(listener.requests) == 2


def test_pauses_grow_and_differ(listening):
    policy = RetryPolicy(deadline_s=20.0, initial_s=0.1, longest_s=5.0)
    listener = listening(*[(503, {}, 0)] * 4)
    write(listener, 1, policy=policy)
    pauses = listener.pauses()
    for attempt, pause in enumerate(pauses):
        assert pause >= 0.1 * 2**attempt / 2


@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 422])
def test_a_final_fault_is_not_tried_again(listening, status):
    listener = listening((status, {}, 0))
    with pytest.raises(StoreRequestError, match=f"{status}.*on purpose"):
        write(listener, 1)
    assert len(listener.requests) == 1


def test_a_refused_key_says_where_keys_come_from(listening):
    with pytest.raises(StoreAccessError, match="QDRANT_API_KEY"):
        write(listening((401, {}, 0)), 1)


def test_a_refused_request_is_no_refused_key(listening):
    with pytest.raises(StoreRequestError) as raised:
        write(listening((400, {}, 0)), 1)
    assert not isinstance(raised.value, StoreAccessError)


class RpcError(grpc.RpcError):
    """What a call over gRPC raises."""

    def __init__(self, code):
        self.code = lambda: code
        self.details = lambda: "on purpose"


@pytest.mark.parametrize(
    ("code", "transient", "hint"),
    [
        (grpc.StatusCode.UNAUTHENTICATED, False, True),
        (grpc.StatusCode.PERMISSION_DENIED, False, True),
        (grpc.StatusCode.INVALID_ARGUMENT, False, False),
        (grpc.StatusCode.UNAVAILABLE, True, False),
    ],
)
def test_faults_over_grpc_read_as_those_over_rest(code, transient, hint):
    fault = classify(RpcError(code))
    assert fault.transient is transient
    assert f"{code.name}: on purpose" in fault.sentence
    assert ("QDRANT_API_KEY" in fault.sentence) is hint


@pytest.mark.parametrize("asynchronous", [False, True])
def test_giving_up_says_what_is_in_and_what_is_not(listening, monkeypatch, asynchronous):
    """When the deadline passes, the error lists the ids stored and the ids missing."""
    monkeypatch.setattr(batches, "REQUEST_POINTS", 2)
    listener = listening((200, {}, 0), *[(503, {}, 0)] * 50)
    policy = RetryPolicy(deadline_s=0.5, initial_s=0.05, longest_s=0.1)
    with pytest.raises(StoreUnavailableError, match="503") as raised:
        write(listener, 5, policy=policy, asynchronous=asynchronous)
    assert raised.value.stored == ("p0", "p1")
    assert raised.value.missing == ("p2", "p3", "p4")
    assert len(listener.requests) > 2


def test_nobody_listens():
    policy = RetryPolicy(deadline_s=0.3, initial_s=0.05, longest_s=0.1)
    connection = connect("http://127.0.0.1:9", timeout_s=1, retry=policy)
    with pytest.raises(StoreUnavailableError, match="cannot be reached"):
        connection.run(PassageStore(connection, "c").exists())
    connection.close()


def test_a_retry_after_beyond_the_deadline_is_not_waited_for(listening):
    listener = listening((429, {"Retry-After": "3600"}, 0))
    with pytest.raises(StoreUnavailableError):
        write(listener, 1)
    assert len(listener.requests) == 1


def test_a_mistyped_address_is_told_of_at_once():
    """Opening has less patience than a running job; the job's own is untouched."""
    with pytest.raises(StoreUnavailableError, match=r"Check that a Qdrant server runs at http"):
        Retriever.open("http://127.0.0.1:9", model=HashEncoder(dim=8), timeout_s=1)


@pytest.mark.parametrize("answer", [b"<html>Hello</html>", b"", b'{"a": 1}', b"\xff\xfe\0"])
def test_what_answers_and_is_no_qdrant_is_told_of(answer):
    """A web server at the address is no bug of ours to report."""

    class Page(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *args):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            with pytest.raises(StoreRequestError, match="is no Qdrant server"):
                Retriever.open(
                    f"http://127.0.0.1:{server.server_port}", model=HashEncoder(), retry=QUICK
                )
        finally:
            server.shutdown()
