"""A writing process is killed at moments drawn by seed, fifty times: nothing acknowledged is lost.

The child says each operation on its pipe before it begins and again when it is acknowledged, so the
truth is known without asking the collection. The one that the kill interrupted may be there in
part: each passage it touches is as before or as after.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sbert_retriever import Passage, Retriever
from sbert_retriever.testing import HashEncoder

KILLS = 10  # for each of the five collections
WORDS = ["amber", "birch", "cedar", "delta", "ember", "fjord", "grove", "heath", "inlet", "jetty"]
GRAPH = 7000  # vectors of 384 numbers: just over what the engine leaves without a graph
SECONDS = {0: 1.5, GRAPH: 4.0}  # a kill comes within so long after the start, by what is there

CHILD = """
import json, random, sys

from sbert_retriever import Passage, Retriever
from sbert_retriever.testing import HashEncoder

folder, words, ids, seed = sys.argv[1:]
words, ids, rng = words.split(), int(ids), random.Random(seed)

def say(value):
    print(json.dumps(value), flush=True)

def drawn():
    kind = rng.choices(["index", "delete", "delete_source", "optimize"], [10, 6, 1, 2])[0]
    numbers = rng.sample(range(ids), rng.randint(1, 60))
    if kind == "index":
        return kind, [[f"p{n}", " ".join(rng.choices(words, k=6)), rng.random()] for n in numbers]
    if kind == "delete":
        return kind, [f"p{n}" for n in numbers[:20]]
    return kind, f"s{rng.randrange(40)}" if kind == "delete_source" else None

def perform(kind, given):
    if kind == "index":
        made = [Passage(i, text, {"x": x}, f"s{int(i[1:]) % 40}") for i, text, x in given]
        assert retriever.index(made).failed == 0
    elif kind == "delete":
        retriever.delete(given)
    elif kind == "delete_source":
        retriever.delete(source=given)
    else:
        retriever.optimize()

say("ready")
retriever = Retriever.open(folder, model=HashEncoder(dim=384), sparse="bm25")
while True:
    operation = drawn()
    say(operation)
    perform(*operation)
    say("done")
"""


def passage(i: str, text: str, x: float) -> Passage:
    return Passage(i, text, {"x": x}, f"s{int(i[1:]) % 40}")


def outcome(held: dict[str, Passage], kind: str, given: Any) -> dict[str, Passage]:
    """What a collection holds after an operation."""
    if kind == "index":
        return held | {row[0]: passage(*row) for row in given}
    if kind == "delete":
        return {i: p for i, p in held.items() if i not in given}
    if kind == "delete_source":
        return {i: p for i, p in held.items() if p.source != given}
    return held


def killed(folder: Path, ids: int, seed: str, seconds: float) -> list[Any]:
    """What the child said until it was killed."""
    process = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(folder), " ".join(WORDS), str(ids), seed],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    said, ready = [], threading.Event()

    def listen() -> None:
        for line in process.stdout:
            said.append(line)
            ready.set()
        ready.set()

    listener = threading.Thread(target=listen)
    listener.start()
    assert ready.wait(60)
    with pytest.raises(subprocess.TimeoutExpired):  # it never ends by itself
        process.wait(seconds)
    process.send_signal(signal.SIGKILL)
    process.wait(20)
    listener.join(20)
    process.stdout.close()
    # The kill may have cut the last line short.
    return [json.loads(line) for line in said if line.endswith("\n")]


def after(held: dict[str, Passage], said: list[Any]) -> tuple[dict, dict, list[str]]:
    """What must be there, what may be instead, and the kinds of what was done."""
    assert said[0] == "ready"
    kinds, maybe = [], held
    for line in said[1:]:
        if line == "done":
            held = maybe
        else:
            maybe = outcome(held, *line)
            kinds.append(line[0])
    return held, maybe, kinds


def contents(retriever: Retriever) -> dict[str, tuple[Passage, np.ndarray]]:
    """{id: (passage, vector)}, all of them."""
    store = retriever.store
    steps = store.scroll(condition=None, limit=100_000, offset=None, vectors=True)
    page, _ = store.connection.run(steps)
    assert len({p.id for p, _ in page}) == len(page)
    return {p.id: (p, vector) for p, vector in page}


def check(retriever: Retriever, held: dict, maybe: dict) -> dict[str, Passage]:
    """The collection is as it must be, by every way of reading it; what it holds."""
    there = contents(retriever)
    found = {i: p for i, (p, _) in there.items()}
    for i in found.keys() | held.keys() | maybe.keys():
        assert found.get(i) in (held.get(i), maybe.get(i)), i
    assert retriever.count() == retriever.info().count == len(found)
    assert {p.id for p in retriever.get(list(held.keys() | maybe.keys()))} == set(found)
    if found:
        check_searches(retriever, found, np.stack([vector for _, vector in there.values()]))
    return found


def check_searches(retriever: Retriever, found: dict[str, Passage], vectors: np.ndarray) -> None:
    """Both kinds of vectors are those of the texts that are there."""
    encoder = HashEncoder(dim=384)
    texts = [p.text for p in found.values()]
    np.testing.assert_allclose(vectors, encoder.encode_passages(texts), atol=1e-6)
    cosines = np.sort(vectors @ encoder.encode_queries(["amber heath"])[0])[::-1]
    hits = retriever.search("amber heath", 20, mode="dense", exact=True)
    np.testing.assert_allclose([hit.score for hit in hits], cosines[:20], atol=1e-5)
    for word in WORDS[:3]:
        worded = {i for i, p in found.items() if word in p.text.split()}
        hits = retriever.search(word, len(found), mode="sparse")
        assert {hit.id for hit in hits} == worded


@pytest.mark.full
@pytest.mark.parametrize(("seed", "base"), [(1, 0), (2, 0), (3, 0), (4, 0), (5, GRAPH)])
def test_after_each_of_many_kills_all_that_was_acknowledged_is_as_it_was_left(tmp_path, seed, base):
    """Upserts stay, deletes stay deleted, counts are right, and the folder opens."""
    rng = random.Random(seed)
    held = {}
    if base:
        rows = [(f"p{n}", " ".join(rng.choices(WORDS, k=6)), rng.random()) for n in range(base)]
        held = outcome({}, "index", rows)
        with Retriever.open(tmp_path, model=HashEncoder(dim=384), sparse="bm25") as retriever:
            retriever.index(held.values())
            assert retriever.info().indexed == base
    done: list[str] = []
    for run in range(KILLS):
        seconds = rng.uniform(0, SECONDS[base])
        said = killed(tmp_path, base or 400, f"{seed} {run}", seconds)
        must, may, kinds = after(held, said)
        done += kinds
        with Retriever.open(tmp_path, model=HashEncoder(dim=384), sparse="bm25") as retriever:
            held = check(retriever, must, may)
    assert {"index", "delete", "optimize"} <= set(done)
    assert held
