"""The embedded engine's folder: locks, kills, forks, sharing, index building."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from qdrant_client import models

from sbert_retriever import Passage, Retriever
from sbert_retriever.errors import (
    CollectionNotFoundError,
    ContractError,
    InputError,
    StoreClosedError,
    StoreError,
    StoreLockedError,
)
from sbert_retriever.index.edge import shard as edge_shard
from sbert_retriever.index.embedded import EmbeddedClient
from sbert_retriever.testing import HashEncoder

PASSAGES = [Passage(f"p{i}", f"text {i}") for i in range(5)]

HOLD = """
import sys
from sbert_retriever import Passage, Retriever
from sbert_retriever.testing import HashEncoder
retriever = Retriever.open(sys.argv[1], model=HashEncoder(dim=64))
n = 0
while True:
    ids = [f"k{n + i}" for i in range(20)]
    retriever.index(Passage(i, f"text {i}") for i in ids)
    n += 20
    print(n, flush=True)
    if sys.argv[2] == "once":
        sys.stdin.read()
"""


def start(folder, mode):
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder), mode],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    process.stdout.readline()
    return process


def kill(process):
    process.send_signal(signal.SIGKILL)
    process.wait(timeout=20)
    rest = process.stdout.read().split()
    process.stdin.close()
    process.stdout.close()
    return [int(n) for n in rest if n.isdigit()]


def open_folder(folder, **options):
    return Retriever.open(folder, model=HashEncoder(dim=64), **options)


def test_a_second_opening_in_the_process_shares_the_first(tmp_path):
    """Two openings of one folder in one process see the same data, and either may close first."""
    first, second = open_folder(tmp_path), open_folder(tmp_path)
    first.index(PASSAGES)
    assert second.count() == 5
    first.close()
    second.index([Passage("more", "text")])
    assert second.count() == 6
    second.close()
    with open_folder(tmp_path) as third:
        assert third.count() == 6


def test_what_two_openings_say_of_a_collection_is_kept_of_both(tmp_path):
    """One description lies beside the shard: neither opening may write over the other's part."""
    open_folder(tmp_path).close()
    clients = {name: EmbeddedClient(tmp_path) for name in "ab"}

    def describe(name):
        for n in range(50):
            clients[name].update_collection("default", metadata={f"{name}{n}": n})

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(describe, clients))
    kept = clients["a"].get_collection("default").config.metadata
    assert {f"{name}{n}" for name in clients for n in range(50)} <= set(kept)
    for client in clients.values():
        client.close()


def test_another_process_is_told_who_holds_the_folder(tmp_path):
    """A folder held elsewhere gives one sentence with the process and the ways out."""
    process = start(tmp_path, "once")
    try:
        with pytest.raises(StoreLockedError, match=rf"process {process.pid}.*Qdrant server"):
            open_folder(tmp_path)
    finally:
        kill(process)


def test_after_kill_9_it_opens_and_nothing_acknowledged_is_lost(tmp_path):
    """A killed process holds nothing, and what it was told is in, is in."""
    process = start(tmp_path, "on")
    time.sleep(1.0)
    process.send_signal(signal.SIGKILL)
    acknowledged = max([20, *kill(process)])
    with open_folder(tmp_path) as retriever:
        ids = [f"k{n}" for n in range(acknowledged)]
        assert len(retriever.get(ids)) == acknowledged
        assert retriever.search("text k7", k=1)[0].text.startswith("text k")


def test_closed(tmp_path):
    retriever = open_folder(tmp_path)
    retriever.close()
    retriever.close()
    with pytest.raises(StoreClosedError, match="open the retriever again"):
        retriever.count()


def test_a_private_folder_is_removed_on_close():
    retriever = open_folder(":memory:")
    folder = retriever.store.connection.client.folder
    retriever.index(PASSAGES)
    assert folder.is_dir()
    retriever.close()
    assert not folder.exists()


def test_a_file_is_no_folder(tmp_path):
    file = tmp_path / "file"
    file.write_text("x")
    with pytest.raises(StoreError, match="is a file"):
        open_folder(file)


def test_a_folder_that_cannot_be_written(tmp_path):
    with pytest.raises(StoreError, match="cannot be opened"):
        open_folder("/proc/nowhere")


def test_a_folder_that_was_deleted_under_its_reader_is_no_question_of_who_may_read(tmp_path):
    with open_folder(tmp_path) as retriever:
        (tmp_path / "default" / "collection.json").unlink()
        with pytest.raises(StoreError, match=r"collection\.json cannot be read .*: restore it"):
            retriever.info()


@pytest.mark.parametrize("method", ["is_file", "read_text"])
def test_a_folder_that_may_not_be_read(tmp_path, monkeypatch, method):
    """Another user's, or one that a service made as root."""
    with open_folder(tmp_path):
        pass

    def refused(path, *args, **kwargs):
        raise PermissionError(13, "Permission denied", str(path))

    with monkeypatch.context() as patch:
        patch.setattr(Path, method, refused)
        with pytest.raises(StoreError, match=r"\.json cannot be read \(Permission denied\): open"):
            Retriever.open(tmp_path)


def test_an_unknown_collection_names_those_there_are(tmp_path):
    client = EmbeddedClient(tmp_path)
    vectors = {"dense": models.VectorParams(size=4, distance=models.Distance.COSINE)}
    client.create_collection("one", vectors_config=vectors)
    with pytest.raises(CollectionNotFoundError, match="it has: 'one'"):
        client.count("two")
    client.close()


@pytest.mark.parametrize("name", ["a/b", "ünï", "with space", "%2F", "..x"])
def test_odd_collection_names_stay_in_the_folder(tmp_path, name):
    with open_folder(tmp_path / "in", collection_name=name) as retriever:
        retriever.index(PASSAGES)
        client = retriever.store.connection.client
        assert [c.name for c in client.get_collections().collections] == [name]
    assert [p.name for p in tmp_path.iterdir()] == ["in"]
    with open_folder(tmp_path / "in", collection_name=name) as retriever:
        assert retriever.count() == 5


@pytest.mark.parametrize("name", ["", ".", "..", "x" * 201, "ж" * 150])
def test_names_that_are_none(tmp_path, name):
    with pytest.raises(InputError, match="not a collection name"):
        open_folder(tmp_path, collection_name=name)


def test_what_a_killed_creation_left_is_replaced(tmp_path):
    with open_folder(tmp_path) as retriever:
        retriever.index(PASSAGES)
    (tmp_path / "default" / "collection.json").unlink()
    with open_folder(tmp_path) as retriever:
        assert retriever.count() == 0
        assert retriever.index(PASSAGES).added == 5


def test_a_damaged_description(tmp_path):
    open_folder(tmp_path).close()
    (tmp_path / "default" / "collection.json").write_text("{")
    with pytest.raises(StoreError, match="damaged"):
        open_folder(tmp_path)


@pytest.mark.parametrize("model", [None, {}, {"name": "x"}, "x"])
def test_a_damaged_contract(tmp_path, model):
    open_folder(tmp_path).close()
    file = tmp_path / "default" / "collection.json"
    raw = json.loads(file.read_text())
    raw["metadata"]["sbert_retriever"]["model"] = model
    file.write_text(json.dumps(raw))
    with pytest.raises(ContractError, match="contract is damaged"):
        open_folder(tmp_path)


def test_a_collection_of_a_newer_format(tmp_path):
    open_folder(tmp_path).close()
    file = tmp_path / "default" / "collection.json"
    raw = json.loads(file.read_text())
    raw["metadata"]["sbert_retriever"]["format_version"] = 99
    file.write_text(json.dumps(raw))
    with pytest.raises(StoreError, match="upgrade"):
        open_folder(tmp_path)


def test_a_moved_folder_opens(tmp_path):
    with open_folder(tmp_path / "here") as retriever:
        retriever.index(PASSAGES)
    (tmp_path / "here").rename(tmp_path / "there")
    with open_folder(tmp_path / "there") as retriever:
        assert retriever.get(["p3"]) == [PASSAGES[3]]


def test_deleted_and_created_again(tmp_path):
    with open_folder(tmp_path) as retriever:
        retriever.index(PASSAGES)
        retriever.store.connection.client.delete_collection("default")
    with open_folder(tmp_path) as retriever:
        assert retriever.count() == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_gets_an_error_and_does_not_hang(tmp_path):
    with open_folder(tmp_path) as retriever:
        retriever.index(PASSAGES)
        child = os.fork()
        if child == 0:
            try:
                retriever.count()
            except StoreClosedError as error:
                os._exit(0 if "forked" in str(error) else 2)
            os._exit(1)
        deadline = time.monotonic() + 20
        done, status = os.waitpid(child, os.WNOHANG)
        while not done and time.monotonic() < deadline:
            time.sleep(0.05)
            done, status = os.waitpid(child, os.WNOHANG)
        if not done:
            os.kill(child, signal.SIGKILL)
        assert done
        assert os.waitstatus_to_exitcode(status) == 0
        assert retriever.count() == 5


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_that_closes_leaves_the_parents_private_folder():
    with open_folder(":memory:") as retriever:
        retriever.index(PASSAGES)
        child = os.fork()
        if child == 0:
            retriever.close()
            os._exit(0)
        os.waitpid(child, 0)
        assert retriever.store.connection.client.folder.is_dir()
        assert retriever.count() == 5


def test_a_forked_child_waits_for_no_lock_of_its_parents_folder(tmp_path, forked):
    """Another thread reads, and a third opens a folder, at the moment of the fork."""
    held, done = threading.Event(), threading.Event()
    with open_folder(tmp_path / "a") as retriever:
        retriever.index(PASSAGES)
        client = retriever.store.connection.client

        def hold():
            with client._guard, client._shard("default").held(), edge_shard._open_guard:
                held.set()
                assert done.wait(120)

        def ask():
            with pytest.raises(StoreClosedError, match="forked"):
                retriever.count()
            retriever.close()
            with open_folder(tmp_path / "b") as own:
                own.index(PASSAGES)
                return own.count() == 5

        thread = threading.Thread(target=hold)
        thread.start()
        try:
            assert held.wait(60)
            assert forked(ask)
        finally:
            done.set()
            thread.join()
        assert retriever.count() == 5


@pytest.fixture
def living_child():
    """Fork a child that does nothing until the test is over."""
    if not hasattr(os, "fork"):
        pytest.skip("this system has no fork")
    children = []

    def fork():
        reading, writing = os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # Python: fork with threads
            child = os.fork()
        if child == 0:
            try:
                os.write(writing, b".")
                time.sleep(300)
            finally:
                os._exit(0)
        children.append(child)
        os.read(reading, 1)
        os.close(reading)
        os.close(writing)

    yield fork
    for child in children:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_a_folder_that_is_closed_opens_again_while_a_forked_child_lives(tmp_path, living_child):
    with open_folder(tmp_path) as retriever:
        retriever.index(PASSAGES)
        living_child()
    with Retriever.open(tmp_path) as again:
        assert again.count() == 5


def test_an_index_is_built_while_a_forked_child_lives(tmp_path, living_child):
    with open_folder(tmp_path) as retriever:
        retriever.index(PASSAGES)
        living_child()
        retriever.optimize()
        assert retriever.count() == 5


@pytest.fixture
def many(tmp_path):
    """7,000 vectors of 384 dimensions: just over what the engine leaves unindexed."""
    client = EmbeddedClient(tmp_path)
    vectors = {"dense": models.VectorParams(size=384, distance=models.Distance.COSINE)}
    client.create_collection("many", vectors_config=vectors)
    rows = np.random.default_rng(0).normal(size=(7000, 384)).astype(np.float32)
    for start in range(0, 7000, 1000):
        points = [
            models.PointStruct.model_construct(id=i, vector={"dense": row}, payload={})
            for i, row in enumerate(rows[start : start + 1000].tolist(), start)
        ]
        client.upsert("many", points=points)
    yield client, rows
    client.close()


def test_the_index_is_built_apart_and_python_goes_on(many):
    client, rows = many
    assert client.get_collection("many").indexed_vectors_count == 0
    beats = []
    stop = threading.Event()

    def beat():
        while not stop.wait(0.01):
            beats.append(time.monotonic())

    thread = threading.Thread(target=beat)
    thread.start()
    assert client.optimize("many")
    stop.set()
    thread.join()
    # The engine's own call would let no other thread run until it is done.
    assert len(beats) > 5
    info = client.get_collection("many")
    assert (info.points_count, info.indexed_vectors_count) == (7000, 7000)
    found = client.query_points("many", query=rows[17].tolist(), using="dense", limit=1)
    assert found.points[0].id == 17
    assert not client.optimize("many")


@pytest.mark.parametrize("how", ["vectors", "payload"])
def test_what_is_written_again_leaves_the_graph_and_is_brought_back(many, tmp_path, how):
    """The engine counts the places that such points had: the graph was never built again.

    6,700 vectors of 384 dimensions are just over what is left unindexed.
    """
    client, rows = many
    assert client.optimize("many")
    for start in range(0, 6700, 670):
        ids = list(range(start, start + 670))
        if how == "payload":
            asked = models.SetPayload(payload={"n": start}, points=ids)
            operation = models.OverwritePayloadOperation(overwrite_payload=asked)
            client.batch_update_points("many", update_operations=[operation])
            continue
        points = [
            models.PointStruct.model_construct(id=i, vector={"dense": row}, payload={})
            for i, row in zip(ids, (-rows[ids]).tolist(), strict=True)
        ]
        client.upsert("many", points=points)
    assert client.get_collection("many").indexed_vectors_count == 300
    client.close()
    again = EmbeddedClient(tmp_path)
    assert again.get_collection("many").indexed_vectors_count == 300
    assert again.optimize("many")
    assert again.get_collection("many").indexed_vectors_count == 7000
    assert not again.optimize("many")
    again.close()


def test_the_index_is_built_by_nothing_that_lies_in_the_working_folder(tmp_path, monkeypatch):
    """Files that are indexed may be somebody else's, and be named as modules are."""
    (tmp_path / "here").mkdir()
    for name in ("ctypes", "signal", "qdrant_edge"):
        (tmp_path / "here" / f"{name}.py").write_text("raise SystemExit('run')", encoding="utf-8")
    monkeypatch.setattr(sys, "path", [place for place in sys.path if place])
    monkeypatch.chdir(tmp_path / "here")
    with open_folder(tmp_path / "index") as retriever:
        retriever.index(PASSAGES)
        retriever.optimize()
        assert retriever.count() == 5


@pytest.mark.skipif(os.name != "posix", reason="no folder is deleted here while somebody is in it")
def test_the_index_is_built_where_the_working_folder_was_deleted(tmp_path, monkeypatch):
    """At Python's prompt that folder is on the path, without a name."""
    gone = tmp_path / "gone"
    gone.mkdir()
    with open_folder(tmp_path / "index") as retriever:
        retriever.index(PASSAGES)
        monkeypatch.setattr(sys, "path", ["", *sys.path])
        monkeypatch.chdir(gone)
        gone.rmdir()
        retriever.optimize()
        assert retriever.count() == 5


def test_a_failed_index_build_loses_nothing(many, monkeypatch):
    client, rows = many
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(StoreError, match="Nothing is lost"):
        client.optimize("many")
    assert client.count("many").count == 7000
    found = client.query_points("many", query=rows[3].tolist(), using="dense", limit=1)
    assert found.points[0].id == 3


def test_a_disk_that_is_about_to_be_full_is_said_before_the_engine_dies_of_it(
    tmp_path, monkeypatch
):
    """The engine's memory maps would end the process with SIGBUS; searching goes on."""
    free = 10**10

    def disk_usage(folder):
        return SimpleNamespace(total=10**10, used=0, free=free)

    monkeypatch.setattr(shutil, "disk_usage", disk_usage)
    with Retriever.open(tmp_path / "a", model=HashEncoder()) as retriever:
        retriever.index(PASSAGES)
        free = 20 * 2**20
        with pytest.raises(StoreError, match="has 20 MiB free, and this needs 100"):
            retriever.index([Passage("new", "text")])
        with pytest.raises(StoreError, match="make room"):
            retriever.index([Passage("p0", "text 0", {"new": 1})])
        assert retriever.delete(["p4"]) == 1
    with Retriever.open(tmp_path / "a") as retriever:
        assert retriever.count() == 4
    with pytest.raises(StoreError, match="make room"):
        Retriever.open(tmp_path / "b", model=HashEncoder())
    free = 0
    with pytest.raises(StoreError, match="make room"):
        Retriever.open(tmp_path / "a")
