"""The FAQ over HTTP: asked, looked after, and still there after kill -9."""

from __future__ import annotations

import signal
import threading
from pathlib import Path

import httpx
import pytest


def entry(id: str, **changes) -> dict:
    return {"id": id, "answer": f"Answer {id}.", "phrasings": [f"What is {id}?"], **changes}


def test_a_question_gets_its_answer(served) -> None:
    found = served.post("/faq/ask", {"question": "What are your opening hours?"}).json()
    assert (found["outcome"], found["exact"]) == ("answer", True)
    assert found["answer"] == "We are open Monday to Friday, 9:00 to 17:00."
    assert found["entry"]["id"] == "hours"
    assert found["confidence"] is None
    assert found["timings_ms"]["total"] >= found["timings_ms"]["wait"] >= 0


def test_a_question_out_of_scope_gets_none(served) -> None:
    found = served.post("/faq/ask", {"question": "who won the world cup in 1954?"}).json()
    assert (found["outcome"], found["answer"], found["entry"]) == ("abstain", None, None)


def test_entries_are_added_read_replaced_and_deleted(served) -> None:
    """An entry that was just written answers the next question, and one that was deleted none."""
    made = entry("parking / north", phrasings=["Is there parking?"], tags=["place"], language="en")
    answer = served.post("/faq/entries", made)
    assert answer.status_code == 201
    assert answer.json() == {**made, "links": []}
    assert served.post("/faq/entries", made).status_code == 409
    path = "/faq/entries/parking%20%2F%20north"
    assert served.ask("GET", path).json() == {**made, "links": []}
    assert (
        served.post("/faq/ask", {"question": "is there parking"}).json()["entry"]["id"]
        == (made["id"])
    )
    changed = {"answer": "No.", "phrasings": ["Is there parking?"]}
    assert served.ask("PUT", path, changed).json()["answer"] == "No."
    assert served.post("/faq/ask", {"question": "is there parking"}).json()["answer"] == "No."
    assert served.ask("DELETE", path).json() == {"deleted": 1}
    assert served.ask("DELETE", path).status_code == 404
    assert served.ask("GET", path).status_code == 404


def test_entries_are_listed_by_their_ids(served) -> None:
    found = served.ask("GET", "/faq/entries").json()
    ids = [each["id"] for each in found["entries"]]
    assert (ids, found["count"]) == (["arabic", "hours", "returns/30 days"], 3)
    page = served.ask("GET", "/faq/entries?limit=1&offset=1").json()
    assert [each["id"] for each in page["entries"]] == ["hours"]
    assert served.ask("GET", "/faq/entries?limit=0").status_code == 422


def test_feedback_is_kept_for_an_entry_that_is_there(served) -> None:
    said = {"question": "when do you open", "entry": "hours", "good": True}
    assert served.post("/faq/feedback", said).json() == {"kept": True}
    assert served.post("/faq/feedback", {**said, "entry": "none"}).status_code == 404


@pytest.mark.parametrize(
    "changes",
    [
        {"answer": ""},
        {"answer": "  "},
        {"phrasings": []},
        {"phrasings": "What?"},
        {"id": ""},
        {"more": 1},
        {"tags": "a"},
    ],
)
def test_an_entry_that_is_none_is_refused(served, changes) -> None:
    answer = served.post("/faq/entries", {**entry("wrong"), **changes})
    assert answer.status_code in (400, 422)
    assert served.ask("GET", "/faq/entries/wrong").status_code == 404


@pytest.mark.full
def test_what_was_acknowledged_survives_kill_9(serve, location: Path) -> None:
    """Writers are cut off by kill -9, twice: each entry that was answered with 201 is there."""
    acknowledged: list[str] = []
    for turn in range(2):
        running = serve(location)
        writers = [
            threading.Thread(target=_write, args=(running.address, f"{turn}-{n}", acknowledged))
            for n in range(3)
        ]
        for writer in writers:
            writer.start()
        already = len(acknowledged)
        while len(acknowledged) < already + 12:
            threading.Event().wait(0.01)
        running.stop(signal.SIGKILL)
        for writer in writers:
            writer.join(60)
    running = serve(location)
    found = running.ask("GET", "/faq/entries?limit=1000").json()["entries"]
    kept = {each["id"]: each for each in found}
    assert len(acknowledged) >= 24
    assert set(acknowledged) <= set(kept)
    assert all(kept[id]["answer"] == f"Answer {id}." for id in acknowledged)
    answer = running.post("/faq/ask", {"question": f"what is {acknowledged[-1]}"}).json()
    assert answer["entry"]["id"] == acknowledged[-1]
    assert running.stop() == 0


def _write(address: str, name: str, acknowledged: list[str]) -> None:
    """Add entries until the service is gone."""
    with httpx.Client(base_url=address, timeout=60) as client:
        for n in range(10_000):
            id = f"{name}-{n}"
            try:
                answer = client.post("/faq/entries", json=entry(id))
            except httpx.TransportError:
                return
            assert answer.status_code == 201
            acknowledged.append(id)
