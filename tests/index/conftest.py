"""A listener that answers as a Qdrant server would, and keeps what it was asked."""

from __future__ import annotations

import json
import ssl
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

DONE = {"operation_id": 1, "status": "completed"}


class RefusedError(Exception):
    """What a server answers with status 400."""


class Listener(ThreadingHTTPServer):
    """Collections that remember their settings and their shard keys, and hold nothing.

    As Qdrant does, it refuses a shard key that is not there, and a write without one where a
    collection has them.
    """

    scheme = "http"

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked, self.headers, self.collections, self.shards = [], [], {}, {}
        self.clustered, self.pause_s = True, 0.0
        # The kind of each indexed payload field, by collection; and whether more are refused.
        self.indexed, self.read_only = {}, False
        # Of each upsert its bytes; and the statuses that the next are answered with.
        self.sizes, self.failing = [], []
        # Seconds that an answer to the first of these takes: {"points/count": 4.0}.
        self.slow = {}

    @property
    def url(self):
        return f"{self.scheme}://127.0.0.1:{self.server_port}"

    def secure(self, certificate, key):
        """Speak TLS from now on."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        self.socket = context.wrap_socket(self.socket, server_side=True)
        self.scheme = "https"

    @property
    def made(self):
        return self.collections["docs"]

    @property
    def keys(self):
        return self.shards.get("docs", [])

    def bodies(self, method, path):
        """What was sent to a path, in order: (query, body)."""
        return [(query, body) for m, p, query, body in self.asked if (m, p) == (method, path)]

    def parts_from(self, began):
        """What names a shard key in each request since: (path, part)."""
        requests = self.asked[began:]
        return [(path, part) for _, path, _, body in requests for part in parts(body)]

    def handle_error(self, *_):
        """A client that no longer waits for the answer is no news here."""

    def result(self, method, path, body):
        _, _, name, *rest = [*path.split("/"), ""]
        what = "/".join(rest).rstrip("/")
        if (method, what) == ("PUT", ""):
            self.collections[name] = body
        if (method, what) == ("PUT", "index"):
            self.make_index(name, body["field_name"], body["field_schema"])
        if (method, what) == ("PATCH", ""):
            self.collections[name]["metadata"] |= body["metadata"]
        if (method, what) == ("PUT", "shards"):
            self.make_key(name, body["shard_key"])
        time.sleep(self.slow.pop(what, 0.0))
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

    def make_index(self, name, field, schema):
        if self.read_only:
            raise RefusedError("Forbidden: global write access is required")
        kind = schema["type"] if isinstance(schema, dict) else schema
        self.indexed.setdefault(name, {})[field] = {"data_type": kind, "points": 0}

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
            "payload_schema": self.indexed.get(name, {}),
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
        self.server.headers.append(self.headers)
        self.server.asked.append((self.command, path, query, body))
        status = 200
        if self.command == "PUT" and path.endswith("/points"):
            self.server.sizes.append(len(raw))
            status = self.server.failing.pop(0) if self.server.failing else 200
        try:
            answer = {"result": self.server.result(self.command, path, body), "status": "ok"}
        except RefusedError as refused:
            status, answer = 400, {"status": {"error": f"Bad request: {refused}"}}
        text = json.dumps({**answer, "time": 0.0}).encode()
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

    def do_PATCH(self):
        self.answer()

    def log_message(self, *_):
        pass


@pytest.fixture
def listener(serving):
    return serving(Listener())
