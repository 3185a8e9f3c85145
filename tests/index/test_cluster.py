"""What a server is told of shards, copies, tenants' own parts and time limits.

A listener plays the server's part and keeps what it was asked; the same calls go to a real server
where there is one.
"""

from __future__ import annotations

import json
import os
import threading
import time
from asyncio import to_thread
from contextlib import closing
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from qdrant_client import QdrantClient, models

from sbert_retriever import Passage, Retriever
from sbert_retriever.errors import (
    InputError,
    InputTypeError,
    StoreRequestError,
    StoreUnavailableError,
)
from sbert_retriever.index.points import draft
from sbert_retriever.index.storage import Storage
from sbert_retriever.testing import HashEncoder
from sbert_retriever.transfer import copy_collection, rebuild

BASE = "/collections/docs"
DONE = {"operation_id": 1, "status": "completed"}
PASSAGES = [Passage("a", "green tea"), Passage("b", "black tea")]


class RefusedError(Exception):
    """What a server answers with status 400."""


class Listener(ThreadingHTTPServer):
    """Collections that remember their settings and their shard keys, and hold nothing.

    As Qdrant does, it refuses a shard key that is not there, and a write without one where a
    collection has them.
    """

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked, self.collections, self.shards = [], {}, {}
        self.clustered, self.pause_s = True, 0.0

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}"

    @property
    def made(self):
        return self.collections["docs"]

    @property
    def keys(self):
        return self.shards.get("docs", [])

    def bodies(self, method, path):
        """What was sent to a path, in order: (query, body)."""
        return [(query, body) for m, p, query, body in self.asked if (m, p) == (method, path)]

    def handle_error(self, *_):
        """A client that no longer waits for the answer is no news here."""

    def result(self, method, path, body):
        _, _, name, *rest = [*path.split("/"), ""]
        what = "/".join(rest).rstrip("/")
        if (method, what) == ("PUT", ""):
            self.collections[name] = body
        if (method, what) == ("PUT", "shards"):
            self.make_key(name, body["shard_key"])
        if what.startswith("points"):
            time.sleep(self.pause_s)
            self.check_keys(name, method, what, body)
        searches = (body or {}).get("searches", ())
        operations = (body or {}).get("operations", ())
        known = {"shard_keys": [{"key": key} for key in self.shards.get(name, ())]}
        answers = {
            ("GET", "exists"): {"exists": name in self.collections},
            ("GET", "shards"): known,
            ("GET", ""): self.info(name),
            ("POST", "points/count"): {"count": 0},
            ("POST", "points"): [],
            ("POST", "points/query"): {"points": []},
            ("POST", "points/query/batch"): [{"points": []}] * len(searches),
            ("POST", "points/scroll"): {"points": []},
            ("PUT", "points"): DONE,
            ("POST", "points/batch"): [DONE] * len(operations),
            ("POST", "points/delete"): DONE,
            ("PUT", "index"): DONE,
        }
        return {"aliases": []} if path == "/aliases" else answers.get((method, what), True)

    def make_key(self, name, key):
        if not self.clustered:
            raise RefusedError("Distributed mode disabled")
        if key in self.shards.setdefault(name, []):
            raise RefusedError(f"Sharding key {key} already exists")
        self.shards[name].append(key)

    def check_keys(self, name, method, what, body):
        if self.collections[name].get("sharding_method") != "custom":
            return
        writes = method == "PUT" or what in ("points/delete", "points/batch")
        if "query" in what and not self.shards.get(name):
            raise RefusedError("there are no shards to search")
        for part in parts(body):
            key = part.get("shard_key")
            if key is None and writes:
                raise RefusedError("Shard key not specified")
            if key is not None and key not in self.shards.get(name, ()):
                raise RefusedError(f"Shard key {key} not found")

    def info(self, name):
        made = self.collections.get(name, {})
        params = {
            "vectors": made.get("vectors"),
            "sparse_vectors": made.get("sparse_vectors"),
            "shard_number": made.get("shard_number") or 1,
            "replication_factor": made.get("replication_factor") or 1,
            "write_consistency_factor": made.get("write_consistency_factor") or 1,
            "sharding_method": made.get("sharding_method"),
        }
        hnsw = {"m": 16, "ef_construct": 100, "full_scan_threshold": 10000}
        optimizer = {
            "deleted_threshold": 0.2,
            "vacuum_min_vector_number": 1000,
            "default_segment_number": 0,
            "flush_interval_sec": 5,
        }
        config = {"params": params, "hnsw_config": hnsw, "optimizer_config": optimizer}
        return {
            "status": "green",
            "optimizer_status": "ok",
            "segments_count": 1,
            "payload_schema": {},
            "config": {**config, "metadata": made.get("metadata")},
        }


def parts(body):
    """What of a request names a shard key: itself, its searches or its operations."""
    operations = [inner for o in body.get("operations", ()) for inner in o.values()]
    return body.get("searches") or operations or [body]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self):
        path, _, query = self.path.partition("?")
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = json.loads(raw) if raw else None
        self.server.asked.append((self.command, path, query, body))
        try:
            answer = {"result": self.server.result(self.command, path, body), "status": "ok"}
        except RefusedError as refused:
            answer = {"status": {"error": f"Bad request: {refused}"}}
        text = json.dumps({**answer, "time": 0.0}).encode()
        self.send_response(200 if "result" in answer else 400)
        self.send_header("Content-Length", str(len(text)))
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(text)

    def do_GET(self):
        self.answer()

    def do_POST(self):
        self.answer()

    def do_PUT(self):
        self.answer()

    def do_PATCH(self):
        self.answer()

    def log_message(self, *_):
        pass


@pytest.fixture
def listener():
    server = Listener()
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def opened(listener, **options):
    return Retriever.open(
        listener.url, model=HashEncoder(dim=16), collection_name="docs", **options
    )


def test_a_new_collection_is_spread_as_asked(listener):
    storage = Storage(shards=3, replicas=2, write_consistency=2)
    opened(listener, storage=storage).close()
    [(_, made)] = listener.bodies("PUT", BASE)
    assert (made["shard_number"], made["replication_factor"]) == (3, 2)
    assert made["write_consistency_factor"] == 2
    assert "sharding_method" not in made


@pytest.mark.parametrize("sparse", [None, "bm25"])
def test_each_tenant_has_its_own_shards_and_its_calls_go_there_alone(listener, sparse):
    storage = Storage(shard_by_tenant=True)
    with opened(listener, storage=storage, sparse=sparse, tenant="acme") as acme:
        assert listener.made["sharding_method"] == "custom"
        acme.index(PASSAGES)
        assert listener.keys == ["acme"]
        began = len(listener.asked)
        acme.index(PASSAGES)
        acme.search("tea", 2)
        acme.search_batch(["tea", "green"], 2)
        acme.count()
        acme.scroll()
        acme.get(["a"])
        acme.delete(filter={"n": 1})
        rewritten = [draft(Passage("a", "green tea", {"n": 2}), acme.store.layout)]
        acme.store.connection.run(acme.store.rewrite(rewritten))
    sent = [(path, part) for _, path, _, body in listener.asked[began:] for part in parts(body)]
    assert {path.removeprefix(BASE) for path, _ in sent} == {
        *("/points", "/points/query", "/points/query/batch", "/points/count"),
        *("/points/scroll", "/points/delete", "/points/batch"),
    } - ({"/points/query"} if sparse else set())
    assert {part["shard_key"] for _, part in sent} == {"acme"}


def test_a_tenant_gets_shards_at_its_first_write_once_and_nobody_writes_past_them(listener):
    with opened(listener, storage=Storage(shard_by_tenant=True)) as whole:
        zenith = whole.with_tenant("zenith")
        assert zenith.search("tea") == []
        assert listener.keys == []
        zenith.index(PASSAGES)
        whole.with_tenant("zenith").index(PASSAGES)
        whole.search("tea")
    with opened(listener, tenant="zenith") as again:
        again.index(PASSAGES)
        again.search("tea")
    assert listener.keys == ["zenith"]
    sent = [body["shard_key"] for _, body in listener.bodies("PUT", f"{BASE}/points")]
    assert sent == ["zenith"] * 3
    asked = [b.get("shard_key") for _, b in listener.bodies("POST", f"{BASE}/points/query")]
    assert asked == [None, "zenith"]


def test_a_tenant_without_shards_reads_nothing_deletes_nothing_and_leaves_nothing(listener):
    """A misspelt tenant in a search makes no part of a cluster, and is no error."""
    with opened(listener, storage=Storage(shard_by_tenant=True), sparse="bm25") as whole:
        assert whole.search("tea") == []
    with opened(listener, tenant="zenit") as misspelt:
        for mode in ("dense", "sparse", "hybrid"):
            assert misspelt.search_batch(["tea", "green"], mode=mode) == [[], []]
        assert misspelt.search("tea", mode="dense") == []
        assert misspelt.count() == 0
        assert misspelt.delete(["a"]) == 0
        assert misspelt.delete(filter={"n": 1}) == 0
        assert misspelt.delete_all() == 0
    assert listener.keys == []


@pytest.mark.parametrize(
    "change",
    [
        lambda whole: whole.index(PASSAGES),
        lambda whole: whole.delete(["a"]),
        lambda whole: whole.delete(filter={"n": 1}),
        lambda whole: whole.delete_all(),
    ],
)
def test_where_each_tenant_has_shards_a_change_names_one(listener, change):
    with (
        opened(listener, storage=Storage(shard_by_tenant=True)) as whole,
        pytest.raises(InputError, match="has a part for each tenant, and this is bound to none"),
    ):
        change(whole)


def test_a_server_that_is_no_cluster_says_what_is_missing(listener):
    listener.clustered = False
    with (
        opened(listener, storage=Storage(shard_by_tenant=True), tenant="acme") as acme,
        pytest.raises(StoreRequestError, match=r"Distributed mode disabled.*runs as a cluster"),
    ):
        acme.index(PASSAGES)


def test_another_process_may_make_the_shards_first(listener):
    with opened(listener, storage=Storage(shard_by_tenant=True), tenant="acme") as acme:
        known = listener.result
        late = []

        def result(method, path, body):
            answer = known(method, path, body)
            if (method, path) == ("GET", f"{BASE}/shards") and not late:
                late.append(listener.make_key("docs", "acme"))
            return answer

        listener.result = result
        acme.index(PASSAGES)
    assert late
    assert [body["shard_key"] for _, body in listener.bodies("PUT", f"{BASE}/points")] == ["acme"]


def test_a_rebuilt_collection_is_spread_as_the_old_one(listener):
    storage = Storage(shards=3, replicas=2, write_consistency=2)
    opened(listener, storage=storage).close()
    rebuild(listener.url, collection_name="docs", alias="live", model=HashEncoder(dim=32))
    made = listener.collections["live.rebuild"]
    assert (made["shard_number"], made["replication_factor"]) == (3, 2)
    assert made["write_consistency_factor"] == 2


def test_a_copy_elsewhere_is_spread_as_that_place_does(listener, tmp_path):
    opened(listener, storage=Storage(shards=3, replicas=2)).close()
    copy_collection(listener.url, tmp_path, collection_name="docs")
    with Retriever.open(tmp_path, collection_name="docs", model=HashEncoder(dim=16)) as copy:
        assert copy.count() == 0


def test_a_search_may_have_a_time_limit_of_its_own(listener):
    with opened(listener, sparse="bm25") as retriever:
        retriever.search("tea", 2, mode="dense", timeout_s=2.5)
        retriever.search("tea", 2, timeout_s=1)
        retriever.search("tea", 2, mode="dense")
    queries = [query for query, _ in listener.bodies("POST", f"{BASE}/points/query")]
    assert queries == ["timeout=3", ""]
    batches = [query for query, _ in listener.bodies("POST", f"{BASE}/points/query/batch")]
    assert batches == ["timeout=1"]


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_a_search_that_took_its_time_is_not_begun_again(listener, asynchronous):
    """A limit of a second that is tried again for a minute is no limit."""
    with opened(listener) as retriever:
        listener.pause_s = 1.5
        search = retriever.asearch if asynchronous else partial(to_thread, retriever.search)
        with pytest.raises(StoreUnavailableError, match="did not answer in time"):
            await search("tea", timeout_s=1)
        await retriever.aclose()
    assert len(listener.bodies("POST", f"{BASE}/points/query")) == 1


@pytest.mark.parametrize("limit", [0, -1, float("nan"), float("inf"), "2"])
def test_a_time_limit_that_is_none_is_refused(listener, limit):
    with (
        opened(listener) as retriever,
        pytest.raises((InputError, InputTypeError), match="timeout"),
    ):
        retriever.search("tea", timeout_s=limit)


def test_a_time_limit_changes_nothing_where_no_server_is_asked(tmp_path):
    with Retriever.open(tmp_path, model=HashEncoder(dim=16), sparse="bm25") as retriever:
        retriever.index(PASSAGES)
        assert retriever.search("green tea", 1, timeout_s=5)[0].id == "a"


def test_parts_of_tenants_are_for_a_server(tmp_path):
    with pytest.raises(InputError, match=r"Storage\.shard_by_tenant is for a Qdrant server"):
        Retriever.open(tmp_path, model=HashEncoder(), storage=Storage(shard_by_tenant=True))


@pytest.mark.server
def test_a_real_server_spreads_a_collection(engine):
    if not engine.name.startswith("server"):
        pytest.skip("is for a server")
    retriever = engine.open(storage=Storage(shards=2, replicas=1, write_consistency=1))
    retriever.index(PASSAGES)
    client = retriever.store.connection.client
    params = client.get_collection(retriever.store.collection_name).config.params
    assert (params.shard_number, params.replication_factor) == (2, 1)
    assert params.sharding_method in (None, models.ShardingMethod.AUTO)
    assert retriever.search("green tea", 1, timeout_s=10)[0].id == "a"


@pytest.mark.server
def test_a_real_cluster_keeps_tenants_apart(engine):
    if not engine.name.startswith("server"):
        pytest.skip("is for a server")
    key = os.environ.get("QDRANT_API_KEY")
    with closing(QdrantClient(engine.settings["location"], api_key=key)) as one:
        if one.cluster_status().status != "enabled":
            pytest.skip("this server is no cluster")
    acme = engine.open(storage=Storage(shard_by_tenant=True), tenant="acme")
    zenith = engine.open(tenant="zenith")
    assert zenith.search("tea") == []
    acme.index(PASSAGES)
    zenith.index([Passage("a", "white tea")])
    assert acme.search("green tea", 1, timeout_s=10)[0].text == "green tea"
    assert [hit.text for hit in zenith.search("tea", 5)] == ["white tea"]
    assert (acme.delete(["a"]), acme.count(), zenith.count()) == (1, 1, 1)
