"""What a server is told of shards, copies, tenants' own parts and time limits, in what portions.

A listener plays the server's part and keeps what it was asked; the same calls go to a real server
where there is one.
"""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from qdrant_client import models

from sbert_retriever import Passage, Retriever
from sbert_retriever.errors import InputError, InputTypeError
from sbert_retriever.index.steps import RetryPolicy
from sbert_retriever.index.storage import Storage
from sbert_retriever.testing import HashEncoder
from sbert_retriever.types import SparseIdentity, SparseVector

BASE = "/collections/docs"
DONE = {"operation_id": 1, "status": "completed"}
PASSAGES = [Passage("a", "green tea"), Passage("b", "black tea")]


class Listener(ThreadingHTTPServer):
    """A collection that remembers its settings and its shard keys, and holds nothing."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked, self.made, self.keys = [], None, []
        # Of each upsert its bytes; and the statuses that the next are answered with.
        self.sizes, self.failing = [], []

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}"

    def bodies(self, method, path):
        """What was sent to a path, in order: (query, body)."""
        return [(query, body) for m, p, query, body in self.asked if (m, p) == (method, path)]

    def result(self, method, path, body):
        if (method, path) == ("PUT", BASE):
            self.made = body
        if (method, path) == ("PUT", f"{BASE}/shards"):
            self.keys.append(body["shard_key"])
        searches = (body or {}).get("searches", ())
        known = {"shard_keys": [{"key": key} for key in self.keys]}
        answers = {
            ("GET", f"{BASE}/exists"): {"exists": self.made is not None},
            ("GET", "/aliases"): {"aliases": []},
            ("GET", f"{BASE}/shards"): known,
            ("GET", BASE): self.info(),
            ("POST", f"{BASE}/points/count"): {"count": 0},
            ("POST", f"{BASE}/points"): [],
            ("POST", f"{BASE}/points/query"): {"points": []},
            ("POST", f"{BASE}/points/query/batch"): [{"points": []}] * len(searches),
            ("POST", f"{BASE}/points/scroll"): {"points": []},
            ("PUT", f"{BASE}/points"): DONE,
            ("POST", f"{BASE}/points/delete"): DONE,
            ("PUT", f"{BASE}/index"): DONE,
        }
        return answers.get((method, path), True)

    def info(self):
        made = self.made or {}
        params = {
            "vectors": made.get("vectors"),
            "sparse_vectors": made.get("sparse_vectors"),
            "shard_number": made.get("shard_number") or 1,
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


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self):
        path, _, query = self.path.partition("?")
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = json.loads(raw) if raw else None
        self.server.asked.append((self.command, path, query, body))
        status = 200
        if (self.command, path) == ("PUT", f"{BASE}/points"):
            self.server.sizes.append(len(raw))
            status = self.server.failing.pop(0) if self.server.failing else 200
        result = self.server.result(self.command, path, body)
        text = json.dumps({"result": result, "status": "ok", "time": 0.0}).encode()
        self.send_response(status)
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
        assert listener.keys == ["acme"]
        acme.index(PASSAGES)
        acme.search("tea", 2)
        acme.search_batch(["tea", "green"], 2)
        acme.count()
        acme.scroll()
        acme.get(["a"])
        acme.delete(filter={"n": 1})
    for path in ("points", "points/count", "points/scroll", "points/delete"):
        for _, body in listener.bodies("POST", f"{BASE}/{path}")[1:]:
            assert body["shard_key"] == "acme"
    assert [body["shard_key"] for _, body in listener.bodies("PUT", f"{BASE}/points")] == ["acme"]
    for _, body in listener.bodies("POST", f"{BASE}/points/query"):
        assert body["shard_key"] == "acme"
    batches = [b for _, b in listener.bodies("POST", f"{BASE}/points/query/batch")]
    assert batches
    assert {s["shard_key"] for batch in batches for s in batch["searches"]} == {"acme"}


def test_another_tenant_gets_shards_once_and_nobody_writes_past_them(listener):
    with opened(listener, storage=Storage(shard_by_tenant=True)) as whole:
        assert listener.keys == []
        with pytest.raises(InputError, match="has a part for each tenant, and this is bound to"):
            whole.index(PASSAGES)
        zenith = whole.with_tenant("zenith")
        whole.with_tenant("zenith")
        assert listener.keys == ["zenith"]
        zenith.index(PASSAGES)
        whole.search("tea")
    with opened(listener, tenant="zenith") as again:
        again.index(PASSAGES)
    assert listener.keys == ["zenith"]
    sent = [body["shard_key"] for _, body in listener.bodies("PUT", f"{BASE}/points")]
    assert sent == ["zenith", "zenith"]
    assert [b.get("shard_key") for _, b in listener.bodies("POST", f"{BASE}/points/query")] == [
        None
    ]


def test_a_tenant_that_is_bound_later_has_its_index_too(listener):
    """A server in strict mode refuses to filter by a tenant whose name is not indexed."""
    with opened(listener) as whole:
        for name in ("acme", "zenith"):
            whole.with_tenant(name)
    fields = [body["field_name"] for _, body in listener.bodies("PUT", f"{BASE}/index")]
    assert fields.count("_sbert.tenant") == 1


class Wordy:
    """As many terms as a text says, each written as long as a term can be."""

    identity = SparseIdentity(name="wordy", score_kind="dot")

    def encode_queries(self, texts):
        return self.encode_passages(texts)

    def encode_passages(self, texts):
        return [
            SparseVector([*range(2**32 - int(text), 2**32)], [0.12345679104328156] * int(text))
            for text in texts
        ]


def test_words_count_in_the_size_of_a_request(listener):
    """Forty megabytes of sparse vectors go in requests below 32 MiB, one of them sent twice."""
    listener.failing = [503]
    passages = [Passage(f"p{n}", "20000") for n in range(64)]
    passages.insert(3, Passage("huge", "1000000"))
    policy = RetryPolicy(deadline_s=20.0, initial_s=0.05, longest_s=0.1)
    with opened(listener, sparse=Wordy(), retry=policy) as retriever:
        report = retriever.index(passages)
    assert (report.added, [failure.id for failure in report.failures]) == (64, ["huge"])
    assert max(listener.sizes) < 32 * 2**20 < sum(listener.sizes[1:])
    sent = [body["points"] for _, body in listener.bodies("PUT", f"{BASE}/points")]
    assert sent[0] == sent[1]
    named = [point["payload"]["_sbert"]["id"] for points in sent[1:] for point in points]
    assert named == [passage.id for passage in passages if passage.id != "huge"]
    assert len(sent[0][0]["vector"]["sparse"]["indices"]) == 20_000


def test_a_search_may_have_a_time_limit_of_its_own(listener):
    with opened(listener, sparse="bm25") as retriever:
        retriever.search("tea", 2, mode="dense", timeout_s=2.5)
        retriever.search("tea", 2, timeout_s=1)
        retriever.search("tea", 2, mode="dense")
    queries = [query for query, _ in listener.bodies("POST", f"{BASE}/points/query")]
    assert queries == ["timeout=3", ""]
    batches = [query for query, _ in listener.bodies("POST", f"{BASE}/points/query/batch")]
    assert batches == ["timeout=1"]


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
