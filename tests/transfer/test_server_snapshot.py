"""Qdrant's own snapshots, against a listener that plays the server's part, and on a real one."""

from __future__ import annotations

import hashlib
import json
import tempfile
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from qdrant_client import QdrantClient

from sbert_retriever.errors import InputError, StoreError, StoreRequestError, StoreUnavailableError
from sbert_retriever.transfer import copy_collection, restore, snapshot

CONTENT = b"what the server made" * 1000
NAME = "docs-123.snapshot"
INFO = {
    "status": "green",
    "optimizer_status": "ok",
    "segments_count": 1,
    "payload_schema": {},
    "config": {
        "params": {"vectors": {"dense": {"size": 4, "distance": "Cosine"}}},
        "hnsw_config": {"m": 16, "ef_construct": 100, "full_scan_threshold": 10000},
        "optimizer_config": {
            "deleted_threshold": 0.2,
            "vacuum_min_vector_number": 1000,
            "default_segment_number": 0,
            "flush_interval_sec": 5,
        },
    },
}


class Listener(ThreadingHTTPServer):
    """The few answers that a snapshot needs; keeps what it was asked."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked, self.checksum, self.makes, self.there = [], None, True, True
        # Seconds that making a snapshot takes.
        self.pause_s = 0.0

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, *_):
        """A client that no longer waits for the answer is no news here."""

    def result(self, method, path):
        base = "/collections/docs"
        if (method, path) == ("POST", f"{base}/snapshots"):
            time.sleep(self.pause_s)
        made = {"name": NAME, "size": len(CONTENT), "checksum": self.checksum}
        answers = {
            ("GET", f"{base}/exists"): {"exists": self.there},
            ("GET", "/aliases"): {"aliases": []},
            ("GET", base): INFO,
            ("POST", f"{base}/points/count"): {"count": 7},
            ("POST", f"{base}/snapshots"): made if self.makes else None,
            ("DELETE", f"{base}/snapshots/{NAME}"): True,
            ("POST", f"{base}/snapshots/upload"): True,
        }
        return answers.get((method, path))


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self):
        path, _, query = self.path.partition("?")
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        key = self.headers.get("api-key")
        self.server.asked.append((self.command, path, query, key, body))
        if path == "/":
            self.reply(200, {"title": "qdrant", "version": "1.16.0"})
        elif path.endswith(NAME) and self.command == "GET":
            self.reply(200, CONTENT)
        elif (result := self.server.result(self.command, path)) is None:
            self.reply(403, {"status": {"error": "no snapshots for you"}})
        else:
            self.reply(200, {"result": result, "status": "ok", "time": 0.0})

    def do_GET(self):
        self.answer()

    def do_POST(self):
        self.answer()

    def do_DELETE(self):
        self.answer()

    def reply(self, status, value):
        body = value if isinstance(value, bytes) else json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def listener(serving):
    return serving(Listener())


def take(listener, file):
    return snapshot(listener.url, file, collection_name="docs", api_key="secret")


def test_it_is_made_fetched_checked_and_deleted_there(listener, tmp_path):
    """With the key in every request, the download that the client has no call for included."""
    listener.checksum = hashlib.sha256(CONTENT).hexdigest()
    report = take(listener, tmp_path / "s.tar.gz")
    assert (report.collections, report.engine) == ({"docs": 7}, "qdrant-server 1.16.0")
    calls = [(method, path) for method, path, *_ in listener.asked]
    base = "/collections/docs/snapshots"
    assert calls[-3:] == [("POST", base), ("GET", f"{base}/{NAME}"), ("DELETE", f"{base}/{NAME}")]
    assert {key for *_, key, _ in listener.asked} == {"secret"}
    assert [p.name for p in tmp_path.iterdir()] == ["s.tar.gz"]


def test_it_is_uploaded_with_its_checksum(listener, tmp_path):
    take(listener, tmp_path / "s.tar.gz")
    with pytest.raises(InputError, match="--replace"):
        restore(tmp_path / "s.tar.gz", listener.url)
    listener.there = False
    report = restore(tmp_path / "s.tar.gz", listener.url, api_key="secret")
    assert report.collections == {"docs": 7}
    method, path, query, key, body = listener.asked[-1]
    assert (method, path, key) == ("POST", "/collections/docs/snapshots/upload", "secret")
    assert f"checksum={hashlib.sha256(CONTENT).hexdigest()}" in query
    assert "priority=snapshot" in query
    assert CONTENT in body


def test_another_checksum_than_the_servers_is_refused(listener, tmp_path):
    listener.checksum = "0" * 64
    with pytest.raises(StoreError, match="run it again"):
        take(listener, tmp_path / "s.tar.gz")
    assert listener.asked[-1][0] == "DELETE"
    assert list(tmp_path.iterdir()) == []


def test_a_server_that_makes_none_names_the_way_out(listener, tmp_path):
    listener.makes = False
    with pytest.raises(StoreRequestError, match=r"no snapshots for you.*sbert-retriever copy"):
        take(listener, tmp_path / "s.tar.gz")
    assert list(tmp_path.iterdir()) == []


def test_a_snapshot_that_takes_longer_than_the_client_waits_is_asked_for_once(listener, tmp_path):
    """Each try had the server make another, and keep it."""
    listener.pause_s = 1.5
    client = QdrantClient(listener.url, timeout=1, check_compatibility=False)
    with pytest.raises(StoreUnavailableError, match=r"may be making the snapshot still.*URL"):
        snapshot(client, tmp_path / "s.tar.gz", collection_name="docs")
    posts = [path for method, path, *_ in listener.asked if method == "POST"]
    assert posts.count("/collections/docs/snapshots") == 1
    client.close()


def test_a_servers_collection_has_to_be_named(listener, tmp_path):
    with pytest.raises(InputError, match="--collection"):
        snapshot(listener.url, tmp_path / "s.tar.gz")


@pytest.mark.parametrize("place", ["absent/s.tar.gz", "."])
def test_a_place_that_takes_no_file_is_refused_before_the_server_is_asked(
    listener, tmp_path, place
):
    with pytest.raises(StoreError, match="cannot be written: name a file in a folder"):
        take(listener, tmp_path / place)
    assert listener.asked == []


def test_a_folder_that_may_not_be_written_is_told_of_before_the_server_makes_one(
    listener, tmp_path, monkeypatch
):
    def refused(*args, **options):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(tempfile, "mkdtemp", refused)
    with pytest.raises(StoreError, match=r"s\.tar\.gz cannot be written: Permission denied"):
        take(listener, tmp_path / "s.tar.gz")
    assert not any("snapshots" in path for _, path, *_ in listener.asked)


def test_a_folders_snapshot_is_not_for_a_server(listener, folder, tmp_path):
    snapshot(folder, tmp_path / "s.tar.gz")
    with pytest.raises(StoreRequestError, match="no snapshots"):
        # The listener knows no other collection.
        restore(tmp_path / "s.tar.gz", listener.url)
    with pytest.raises(InputError, match="sbert-retriever copy"):
        restore(tmp_path / "s.tar.gz", listener.url, replace=True)


@pytest.mark.parametrize(
    "lasting_engine", [pytest.param("server", marks=pytest.mark.server)], indirect=True
)
def test_on_a_real_server(corpus, folder, tmp_path, lasting_engine):
    url, name = lasting_engine.settings["location"], lasting_engine.settings["collection_name"]
    lasting_engine.open()
    copy_collection(folder, url, to_collection_name=name)
    snapshot(url, tmp_path / "s.tar.gz", collection_name=name)
    restore(tmp_path / "s.tar.gz", url, replace=True)
    copy_collection(url, tmp_path / "b", collection_name=name, to_collection_name="default")
    corpus.assert_equal(folder, tmp_path / "b")
