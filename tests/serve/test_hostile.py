"""What nobody should send: no fault of the service, no word of it in the log."""

from __future__ import annotations

import json
import socket
import time
from contextlib import suppress
from itertools import product
from urllib.parse import urlsplit

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.errors import Unsatisfiable
from pydantic import ValidationError
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from sbert_retriever.serve.faq_schemas import FaqEntryBody
from sbert_retriever.serve.schemas import (
    EmbeddingsRequest,
    PoolingRequest,
    RerankRequest,
    SearchRequest,
)

SECRET = "my-very-private-question"
PATIENCE_S = 60.0


def raw(served, text: bytes, *, then: bytes = b"") -> bytes:
    """Send bytes and read what comes back until the service closes, or is silent."""
    place = urlsplit(served.address)
    with socket.create_connection((place.hostname, place.port), PATIENCE_S) as connection:
        connection.sendall(text)
        if then:
            with suppress(OSError):  # closed before all was sent, as it should be
                connection.sendall(then)
        found = b""
        with suppress(OSError):
            while part := connection.recv(65536):
                found += part
        return found


def head(path: str, *lines: str, method: str = "POST") -> bytes:
    words = [f"{method} {path} HTTP/1.1", "host: localhost", "connection: close", *lines]
    return ("\r\n".join(words) + "\r\n\r\n").encode("latin-1")


JSON = "content-type: application/json"


def test_a_body_of_100_mb_is_refused_before_it_is_sent(served) -> None:
    started = time.monotonic()
    found = raw(served, head("/search", JSON, f"content-length: {100 * 2**20}"))
    assert found.startswith(b"HTTP/1.1 413")
    assert b"larger than 8,388,608 bytes" in found
    assert time.monotonic() - started < PATIENCE_S


def test_a_body_that_does_not_tell_its_size_is_cut_off(locked) -> None:
    """Chunks without an end are refused once they are more than is allowed."""
    key = f"authorization: Bearer {locked.key}"
    chunk = b"10000\r\n" + b" " * 65536 + b"\r\n"
    found = raw(locked, head("/search", JSON, key, "transfer-encoding: chunked"), then=chunk * 40)
    assert found.startswith(b"HTTP/1.1 413") or found == b""
    assert locked.post("/search", {"query": "still there"}).status_code == 200


def test_who_has_no_key_cannot_send_much(locked) -> None:
    found = raw(locked, head("/search", JSON, "content-length: 1000000"))
    assert found.startswith(b"HTTP/1.1 401")


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 100_000,
        b'{"query":' * 5000 + b"1" + b"}" * 5000,
        b'{"query": "a", "filter": ' + b'{"and": [' * 150 + b'{"x": 1}' + b"]}" * 150 + b"}",
        b'{"query": "\xff\xfe"}',
        b'{"query": "\\ud800"}',
        b'{"query": "a", "filter": {"\\udfff": 1}}',
        b'{"query": "a", "score_threshold": NaN}',
        b'{"query": "a", "score_threshold": Infinity}',
        b'{"query": "a", "k": 1e400}',
        b'{"query": "a", "k": ' + b"9" * 10_000 + b"}",
        b'{"query": "a"',
        b"query=a",
        b"null",
        b"",
        b"\x00",
    ],
)
def test_json_that_is_none_is_refused(served, body: bytes) -> None:
    with served.client() as client:
        answer = client.post("/search", content=body, headers={"content-type": "application/json"})
    assert answer.status_code in (400, 422)
    assert answer.json()["error"]["message"]


MANY = 50_000


@pytest.mark.parametrize(
    ("path", "body", "says"),
    [
        ("/v1/embeddings", {"input": [{}] * MANY}, "input.str: Input should be a valid string"),
        ("/v1/embeddings", {"input": [["a"]] * MANY}, "input.str: Input should be a valid string"),
        ("/v1/embeddings", {"input": [["a"] * MANY]}, "input.str: Input should be a valid string"),
        ("/v1/embeddings", {"input": ["a"] * (100_001)}, "at most 100000 items"),
        (
            "/rerank",
            {"query": "a", "documents": [{}] * MANY},
            "documents.0.str: Input should be a valid string",
        ),
        ("/rerank", {"query": "a", "documents": ["a"] * (100_001)}, "at most 100000 items"),
        (
            "/search",
            {"query": "a", **{f"x{n}": 0 for n in range(MANY)}},
            "x0: Extra inputs are not permitted",
        ),
        (
            "/search",
            {"query": "a", "fusion": {f"x{n}": 0 for n in range(MANY)}},
            "fusion.x0: Extra inputs are not permitted",
        ),
        (
            "/faq/entries",
            {"id": "a", "answer": "b", "phrasings": [0] * MANY},
            "phrasings.0: Input should be a valid string",
        ),
        (
            "/paper/pooling",
            {"sentences": [0] * MANY},
            "sentences.0: Input should be a valid string",
        ),
    ],
)
def test_of_a_body_with_many_faults_one_is_told(served, path: str, body, says: str) -> None:
    answer = served.post(path, body)
    assert answer.status_code == 422
    message = answer.json()["error"]["message"]
    assert says in message
    assert len(message) < 200


@pytest.mark.parametrize(
    ("schema", "body", "most"),
    [
        (EmbeddingsRequest, {"input": [{}] * 1000}, 4),
        (EmbeddingsRequest, {"input": [["a"]] * 1000}, 4),
        (EmbeddingsRequest, {"input": [["a"] * 1000]}, 4),
        (RerankRequest, {"query": "a", "documents": [{}] * 1000}, 2),
        (SearchRequest, {"query": "a", **{f"x{n}": 0 for n in range(1000)}}, 1),
        (SearchRequest, {"query": "a", "fusion": {f"x{n}": 0 for n in range(1000)}}, 1),
        (FaqEntryBody, {"answer": "a", "phrasings": [""] * 1000}, 1),
        (
            FaqEntryBody,
            {"answer": "a", "phrasings": ["a"], "tags": [0] * 99, "links": [0] * 99},
            2,
        ),
        (PoolingRequest, {"sentences": [0] * 1000}, 1),
    ],
)
def test_faults_of_a_body_are_not_all_counted(schema, body, most: int) -> None:
    """Millions of them were put into words, one by one, while nobody else was answered."""
    with pytest.raises(ValidationError) as caught:
        schema.model_validate(body)
    assert caught.value.error_count() <= most


@pytest.mark.parametrize(
    "filter",
    [
        {"and": [{"or": [{"not": {"x": 1}}]}] * 200},
        {"x": {"in": list(range(20_000))}},
        {"x" * 5000: 1},
        {"": 1},
        {"a..b": 1},
        {"year": {"gte": 10**30}},
        {"year": {"gte": "yesterday"}},
        {"_sbert.source": "x"},
        {"x": {"any": {}}},
        {"x": {"geo_radius": {"center": {"lat": 900, "lon": 0}, "radius": -1}}},
        {"x": "\x00"},
    ],
)
def test_odd_filters_are_answered_or_refused(served, filter) -> None:
    answer = served.post("/search", {"query": "a", "filter": filter})
    assert answer.status_code in (200, 400)


@pytest.mark.parametrize(
    "text", ["", " ", "\x00", "a" * 20_000, "🐈" * 9000, "\u202eabc", "[MASK]"]
)
def test_odd_texts_are_answered(served, text: str) -> None:
    assert served.post("/search", {"query": text}).status_code == 200
    asked = served.post("/faq/ask", {"question": text}).status_code
    assert asked == (200 if text.strip() else 422)  # a blank question got "I don't know"
    assert served.post("/v1/embeddings", {"input": text}).status_code == 200


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "", "image/png"]
)
def test_a_page_of_another_origin_cannot_write_by_a_plain_form(served, kind: str) -> None:
    """Browsers send such types to any address without asking: they are refused."""
    with served.client() as client:
        answer = client.post("/faq/entries", content=b'{"id": "x"}', headers={"content-type": kind})
    assert answer.status_code == 415


def test_other_origins_are_kept_out_unless_they_are_let_in(served) -> None:
    """A preflight is answered without leave, and an answer carries none."""
    headers = {"origin": "https://evil.example", "access-control-request-method": "DELETE"}
    with served.client() as client:
        asked = client.options("/faq/entries/hours", headers=headers)
        answer = client.get("/healthz", headers=headers)
    for each in (asked, answer):
        assert not any(name.startswith("access-control-allow") for name in each.headers)
    assert asked.status_code == 405


def test_a_name_that_was_made_to_lead_here_is_refused(served) -> None:
    """DNS rebinding: a page's own name points to the loopback."""
    with served.client() as client:
        for host in ("evil.example", "evil.example:80", "", "localhost.evil.example", "[::"):
            assert client.get("/page/facts", headers={"host": host}).status_code in (400, 403)
        assert client.get("/page/facts", headers={"host": "localhost:1"}).status_code == 200


def test_odd_requests_leave_the_service_as_it_was(served) -> None:
    for text in (
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET / HTTP/9.9\r\n\r\n",
        head("/search", JSON, "content-length: -5"),
        head("/search", JSON, "content-length: 5", "content-length: 6"),
        head("/search", JSON, "content-length: 5", "transfer-encoding: chunked") + b"0\r\n\r\n",
        head("/" + "a" * 100_000, method="GET"),
        head("/static/../app.py", method="GET"),
        head("/static/%2e%2e%2fapp.py", method="GET"),
        head("/healthz", "upgrade: websocket", "sec-websocket-version: 13", method="GET"),
    ):
        status = raw(served, text)[9:12]
        assert status in (
            b"400",
            b"403",
            b"404",
            b"413",
            b"415",
            b"422",
            b"431",
            b"501",
            b"200",
            b"",
        )
    assert served.ask("GET", "/healthz").json() == {"status": "ok"}


def test_only_a_right_key_opens(locked) -> None:
    wrong = [
        "",
        "Bearer",
        f"Bearer {locked.key}x",
        f"Bearer {locked.key[:-1]}",
        f"Basic {locked.key}",
        locked.key,
    ]
    with locked.client() as client:
        for value in wrong:
            answer = client.get("/page/facts", headers={"authorization": value})
            assert answer.status_code == 401
            assert locked.key not in answer.text
        assert (
            client.get("/page/facts", headers={"authorization": f"bearer {locked.key}"}).status_code
            == 200
        )
        del client.headers["authorization"]
        assert client.get("/page/facts", headers={"x-api-key": locked.key}).status_code == 200
        assert client.get(f"/page/facts?api_key={locked.key}").status_code == 401
        for path in ("/", "/static/main.js", "/healthz", "/readyz", "/openapi.json"):
            assert client.get(path).status_code == 200
        for path in ("/metrics", "/faq/entries", "/v1/models", "/paper/efficiency"):
            assert client.get(path).status_code == 401


def test_batches_are_bounded(locked) -> None:
    many = ["a"] * 65
    assert locked.post("/v1/embeddings", {"input": many}).status_code == 400
    assert locked.post("/rerank", {"query": "a", "documents": many}).status_code == 400
    assert locked.post("/search", {"query": "a" * 20_001}).status_code == 422


def test_the_log_has_no_texts_and_no_keys(locked) -> None:
    """Questions, entries, ids in paths, wrong keys and the right one: none of it is written."""
    locked.post("/search", {"query": SECRET})
    locked.post("/search", {"query": SECRET, "filter": {SECRET: {"near": SECRET}}})
    locked.post("/faq/ask", {"question": SECRET})
    locked.ask("GET", f"/faq/entries/{SECRET}?q={SECRET}")
    locked.post("/v1/embeddings", {"input": [SECRET]})
    locked.ask("GET", f"/{SECRET}", headers={"x-other": SECRET})
    locked.ask("GET", "/metrics", headers={"authorization": f"Bearer {SECRET}"})
    metrics = locked.ask("GET", "/metrics").text
    said = "\n".join(locked.lines)
    assert SECRET not in said + metrics
    assert locked.key not in said + metrics
    lines = locked.requests()
    assert {line["route"] for line in lines} >= {
        "/search",
        "/faq/ask",
        "/faq/entries/{entry_id:path}",
    }
    assert all({"time", "level", "id", "status", "ms", "method"} <= set(line) for line in lines)


@pytest.mark.full
def test_texts_are_logged_where_they_are_asked_for(serve, location) -> None:
    running = serve(location, "--log-texts")
    running.post("/search", {"query": SECRET})
    assert running.stop() == 0
    assert any(line.get("query") == SECRET for line in running.requests())


CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]


def fuzz(served, cases: int) -> None:
    """Each operation of the service's own schema, with data made from it and against it."""
    assert (
        served.ask("GET", "/paper/efficiency").status_code == 200
    )  # measured, so answered at once
    schema = schemathesis.openapi.from_url(f"{served.address}/openapi.json")
    operations = [found.ok() for found in schema.get_all_operations()]
    share, done, turn = -(-cases // (len(operations) * len(GenerationMode))), 0, 0
    while done < cases:  # operations without arguments have one case, and leave theirs to others
        for operation, mode in product(operations, GenerationMode):
            with suppress(Unsatisfiable):  # nothing of it could be made wrong
                done += _fuzz(operation.as_strategy(generation_mode=mode), share, served, turn)
        turn += 1


def _fuzz(strategy, cases: int, served, turn: int) -> int:
    """Ask, and check the answers against the schema; how many cases there were."""
    asked = []

    @seed(turn)
    @settings(
        max_examples=cases,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=strategy)
    def run(case) -> None:
        asked.append(case.path)
        case.call_and_validate(checks=CHECKS, headers=served.headers)

    run()
    return len(asked)


@pytest.fixture
def alone(serve, location):
    """A service of this test's own: some of the made-up requests write entries."""
    running = serve(location, "--dtype", "float32")
    running.await_ready()
    return running


def test_made_up_requests_meet_no_fault(alone) -> None:
    """A short run: data that fits the service's own schema, and data that does not."""
    fuzz(alone, 40)


@pytest.mark.full
def test_two_thousand_made_up_requests_meet_no_fault(alone) -> None:
    fuzz(alone, 2000)


def test_its_own_schema_names_every_error(served) -> None:
    schema = served.ask("GET", "/openapi.json").json()
    assert schema["info"]["title"] == "sbert-retriever"
    for path, operations in schema["paths"].items():
        for operation in operations.values():
            assert operation["summary"], path
            if path not in ("/healthz", "/readyz"):
                assert {"401", "422", "429", "503", "504"} <= set(operation["responses"]), path
    assert json.dumps(schema).count("ValidationError") == 0
