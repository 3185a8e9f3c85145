"""A local Ray with two workers' room, and a server that holds what it is given."""

from __future__ import annotations

import json
import shutil
import tempfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from sbert_retriever.testing import tiny_bert


@pytest.fixture(scope="module")
def two_cores(request: pytest.FixtureRequest) -> Iterator[None]:
    """Ray on this machine alone, with two CPUs to give; all of it ends with the module."""
    import ray

    # A socket's path may have a hundred characters, which pytest's folders use up.
    folder = tempfile.mkdtemp(prefix="r")
    ray.init(
        address="local",
        num_cpus=2,
        include_dashboard=False,
        object_store_memory=100 * 2**20,
        log_to_driver=False,
        logging_level="WARNING",
        _temp_dir=folder,
    )
    try:
        yield
    finally:
        ray.shutdown()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a small random model of 32 dimensions."""
    return tiny_bert(tmp_path_factory.mktemp("models") / "tiny")


_DONE = {"operation_id": 1, "status": "completed"}


class HoldingServer(ThreadingHTTPServer):
    """Answers as a Qdrant server would to what `index` asks, and keeps the points it is given.

    Attributes:
        collections: What each was created with.
        points: {collection: {id: point}}.
        written: The ids of every point that was sent, in order.
    """

    def __init__(self):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.collections, self.points, self.written = {}, {}, []
        self.guard = threading.Lock()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, *_):
        """A worker that was killed no longer waits for its answer."""

    def result(self, method, path, body):
        if path == "/aliases":
            return {"aliases": []}
        _, _, name, *rest = path.split("/")
        what = "/".join(rest)
        held = self.points.setdefault(name, {})
        if (method, what) == ("PUT", ""):
            self.collections[name] = body
        if (method, what) == ("PUT", "points"):
            self.written += [point["id"] for point in body["points"]]
            held.update({point["id"]: point for point in body["points"]})
        if (method, what) == ("POST", "points"):
            return [_chosen(held[i], body) for i in body["ids"] if i in held]
        answers = {
            ("GET", "exists"): {"exists": name in self.collections},
            ("GET", ""): self.info(name),
            ("POST", "points/count"): {"count": len(held)},
            ("PUT", "points"): _DONE,
            ("PUT", "index"): _DONE,
        }
        return answers.get((method, what), True)

    def info(self, name):
        made = self.collections.get(name, {})
        numbers = ("shard_number", "replication_factor", "write_consistency_factor")
        params = {number: made.get(number) or 1 for number in numbers}
        hnsw = {"m": 16, "ef_construct": 100, "full_scan_threshold": 10000}
        optimizer = {
            "deleted_threshold": 0.2,
            "vacuum_min_vector_number": 1000,
            "default_segment_number": 0,
            "flush_interval_sec": 5,
        }
        return {
            "status": "green",
            "optimizer_status": "ok",
            "segments_count": 1,
            "payload_schema": {},
            "config": {
                "params": {**params, "vectors": made.get("vectors")},
                "hnsw_config": hnsw,
                "optimizer_config": optimizer,
                "metadata": made.get("metadata"),
            },
        }


def _chosen(point, body):
    """A point with the parts of its payload that were asked for."""
    asked = body.get("with_payload")
    payload = point["payload"]
    if isinstance(asked, list):
        payload = {key: value for key, value in payload.items() if key in asked}
    return {"id": point["id"], "payload": payload}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self):
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path = self.path.partition("?")[0]
        with self.server.guard:
            result = self.server.result(self.command, path, json.loads(raw) if raw else None)
        text = json.dumps({"result": result, "status": "ok", "time": 0.0}).encode()
        self.send_response(200)
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
def server(serving) -> HoldingServer:
    return serving(HoldingServer())
