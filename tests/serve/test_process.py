"""The process: how it starts, refuses to, is full, and stops."""

from __future__ import annotations

import json
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sbert_retriever.cli import main

PATIENCE_S = 60.0


def test_it_stops_after_answering_who_is_waiting(serve, location: Path) -> None:
    """SIGTERM while requests are under way: each is answered, and the exit is clean."""
    running = serve(location)
    running.await_ready()
    body = {"input": ["a text of some words to encode"] * 400}
    with ThreadPoolExecutor(4) as pool:
        asked = [pool.submit(running.post, "/v1/embeddings", body) for _ in range(4)]
        _await_under_way(running, 4)
        running.process.send_signal(signal.SIGTERM)
        answers = [each.result(60) for each in asked]
    assert [answer.status_code for answer in answers] == [200] * 4
    assert running.stop() == 0
    assert '"event": "stopped"' in "\n".join(running.lines)


def _await_under_way(running, count: int) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while (found := _under_way(running)) < count:
        assert time.monotonic() < deadline, f"{found} of {count} requests are under way"
        time.sleep(0.002)


def _under_way(running) -> int:
    lines = running.ask("GET", "/metrics").text.splitlines()
    (line,) = [line for line in lines if line.startswith("sbert_retriever_under_way ")]
    return int(line.split()[1])


@pytest.mark.full
def test_a_full_line_is_said_honestly(serve, location: Path) -> None:
    """One thread, one place to wait: the others get 429 with a time to come back at."""
    running = serve(location, "--threads", "1", "--queue", "1")
    running.await_ready()
    body = {"input": ["a text of some words to encode"] * 200}
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: running.post("/v1/embeddings", body), range(8)))
    statuses = [answer.status_code for answer in answers]
    assert set(statuses) == {200, 429}
    for answer in answers:
        if answer.status_code == 429:
            assert int(answer.headers["retry-after"]) >= 1
            assert "busy" in answer.json()["error"]["message"]
    assert running.post("/v1/embeddings", {"input": "again"}).status_code == 200


@pytest.mark.full
def test_what_takes_too_long_is_answered_in_time(serve, location: Path) -> None:
    running = serve(location, "--timeout-s", "0.05")
    body = {"input": ["a text of some words to encode"] * 500}
    answer = running.post("/v1/embeddings", body)
    assert answer.status_code == 504
    assert running.ask("GET", "/healthz").status_code == 200


def test_it_says_what_is_wrong_before_it_serves(
    tmp_path: Path, location: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "keys").write_text("short\n")
    for arguments, code, words in [
        ([tmp_path / "none"], 1, "neither a collection"),
        ([location, "--port", "99999"], 2, "expected 0 to 65535"),
        ([location, "--host", "203.0.113.1"], 2, "cannot be listened at"),
        ([location, "--host", "a..b"], 2, "cannot be listened at"),
        ([location, "--max-body-mb", "inf"], 2, "expected megabytes above 0"),
        ([location, "--max-body-mb", "nan"], 2, "expected megabytes above 0"),
        ([location, "--api-key-file", tmp_path / "keys"], 2, "API key 1 is too short"),
        ([location, "--paper-efficiency", tmp_path / "keys"], 2, "cannot be read as JSON"),
    ]:
        assert main(["serve", *map(str, arguments)]) == code
        said = capsys.readouterr().err.strip().splitlines()
        assert words in said[-1]


@pytest.mark.full
def test_feedback_goes_where_it_is_told(serve, location: Path, tmp_path: Path) -> None:
    """An FAQ on a server has no folder here, and the service could not be told of a file."""
    log = tmp_path / "feedback.jsonl"
    running = serve(location, "--log", str(log), "--log-unanswered")
    running.post("/faq/ask", {"question": "who won the world cup in 1954?"})
    said = {"question": "when do you open", "entry": "hours", "good": True}
    assert running.post("/faq/feedback", said).status_code == 201
    assert running.stop() == 0
    kinds = [json.loads(line)["kind"] for line in log.read_text().splitlines()]
    assert kinds == ["unanswered", "feedback"]


@pytest.mark.full
def test_a_collection_without_an_faq_is_served(serve, location: Path) -> None:
    running = serve(location, "--faq", "none")
    assert running.post("/search", {"query": "lists"}).status_code == 200
    answer = running.post("/faq/ask", {"question": "lists"})
    assert (answer.status_code, "no FAQ" in answer.text) == (404, True)
    assert running.ask("GET", "/page/facts").json()["faq_entries"] is None


@pytest.mark.full
def test_an_faq_without_a_collection_is_served(serve, location: Path) -> None:
    running = serve(location, "--collection", "none")
    found = running.post("/faq/ask", {"question": "When are you open?"}).json()
    assert found["outcome"] == "answer"
    assert running.post("/search", {"query": "lists"}).status_code == 404
    assert running.ask("GET", "/page/facts").json()["passages"] is None
