"""Fixtures that several rooms share."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from qdrant_client import QdrantClient

from sbert_retriever import BiEncoder, Retriever
from sbert_retriever.encoder.cross_encoder import CrossEncoder
from sbert_retriever.index.storage import Storage
from sbert_retriever.testing import HashEncoder


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder of public data sets, which the project does not carry."""
    folder = os.environ.get("SBERT_RETRIEVER_DATA")
    if not folder:
        pytest.skip("SBERT_RETRIEVER_DATA is not set: no data sets to test with")
    return Path(folder)


@pytest.fixture(scope="session")
def minilm() -> BiEncoder:
    """all-MiniLM-L6-v2 in float32 on the CPU."""
    return BiEncoder.load("all-MiniLM-L6-v2", device="cpu", dtype="float32")


@pytest.fixture(scope="session")
def bge() -> BiEncoder:
    """bge-small-en-v1.5 (dequantised int8) in float32 on the CPU."""
    return BiEncoder.load("bge-small-en-v1.5", device="cpu", dtype="float32")


@pytest.fixture(scope="session")
def cross_encoder() -> CrossEncoder:
    """ms-marco-MiniLM-L12-v2 (dequantised int8) in float32 on the CPU."""
    return CrossEncoder.load("ms-marco-MiniLM-L12-v2", device="cpu", dtype="float32")


@dataclass
class Engine:
    """One way to keep a collection; `open` gives retrievers that see the same data."""

    name: str
    settings: dict[str, Any]
    opened: list[Retriever] = field(default_factory=list)

    def open(self, **options: Any) -> Retriever:
        """A retriever over this engine; closed at the end of the test."""
        options.setdefault("model", HashEncoder(dim=64))
        retriever = Retriever.open(**self.settings, **options)
        self.opened.append(retriever)
        return retriever


def _settings(name: str, folder: Path) -> dict[str, Any]:
    if name == "folder":
        return {"location": folder / "index"}
    if name == "memory":
        return {"location": ":memory:"}
    if name == "local":
        return {"client": QdrantClient(":memory:")}
    url = os.environ.get("QDRANT_URL")
    if not url:
        pytest.skip("QDRANT_URL is not set: no Qdrant server to test with")
    return {"location": url, "prefer_grpc": name == "server-grpc"}


ENGINES = [
    "folder",
    "memory",
    "local",
    pytest.param("server", marks=pytest.mark.server),
    pytest.param("server-grpc", marks=pytest.mark.server),
]


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    """Every engine in turn: a folder, memory, the client's local mode, a server (REST, gRPC)."""
    yield from _engine(request.param, tmp_path)


@pytest.fixture(params=[name for name in ENGINES if name != "memory"])
def lasting_engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    """Those engines whose collections can be opened again."""
    yield from _engine(request.param, tmp_path)


def _engine(name: str, folder: Path) -> Iterator[Engine]:
    made = Engine(name, _settings(name, folder))
    if made.name.startswith("server"):
        made.settings["collection_name"] = f"test-{uuid.uuid4().hex[:12]}"
    yield made
    for retriever in made.opened:
        if made.name.startswith("server"):
            retriever.store.connection.client.delete_collection(retriever.store.collection_name)
        retriever.close()


_HALF = Storage(datatype="float16")
KINDS: dict[str, dict[str, Any]] = {
    "words": {"sparse": "bm25"},
    "int8": {"quantization": "int8"},
    "float16": {"storage": _HALF},
    "tenant": {"tenant": "us"},
    "all": {"sparse": "bm25", "quantization": "int8", "storage": _HALF, "tenant": "us"},
}


# The one that is all of them is tried always, each alone by make test-full.
@pytest.fixture(
    params=["all", *(pytest.param(name, marks=pytest.mark.full) for name in KINDS if name != "all")]
)
def kind(request: pytest.FixtureRequest) -> dict[str, Any]:
    """How a collection is opened that keeps more, or otherwise, than plain vectors."""
    return dict(KINDS[request.param])


@pytest.fixture
def retriever(engine: Engine) -> Retriever:
    """An empty collection on every engine in turn."""
    return engine.open()
