"""Where vector stores lie, how they are called, and embeddings whose vectors are known."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.embeddings import Embeddings
from langchain_sbert import SBERTEmbeddings, SBERTVectorStore
from qdrant_client import QdrantClient

from sbert_retriever.index.storage import Storage

_SERVER = pytest.param("server", marks=pytest.mark.server)
# Collections of other kinds, in a folder: every test here has to hold in them too.
KINDS: dict[str, dict[str, Any]] = {
    "words": {"sparse": "bm25"},
    "int8": {"quantization": "int8"},
    "turbo": {"quantization": "turbo"},
    "float16": {"storage": Storage(datatype="float16")},
    "tenant": {"tenant": "us"},
}


@pytest.fixture(
    params=[
        *("folder", "memory", "local", _SERVER),
        *(pytest.param(kind, marks=pytest.mark.full) for kind in KINDS),
    ]
)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[dict[str, Any]]:
    """The constructor's arguments for each engine, and for each kind of collection."""
    if request.param in KINDS:
        for arguments in _engine("folder", tmp_path, request):
            yield {**arguments, **KINDS[request.param]}
    else:
        yield from _engine(request.param, tmp_path, request)


@pytest.fixture
def close(place: dict[str, Any]) -> float:
    """How near to its true value a score is; half precision has eleven bits."""
    return 1e-3 if "storage" in place else 1e-5


@pytest.fixture(params=["folder", "memory", "local", _SERVER])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[dict[str, Any]]:
    """The constructor's arguments for each engine alone."""
    yield from _engine(request.param, tmp_path, request)


def _engine(engine: str, folder: Path, request: pytest.FixtureRequest) -> Iterator[dict[str, Any]]:
    name = f"docs-{uuid.uuid4().hex}"
    if engine == "folder":
        yield {"location": folder / "index", "collection_name": name}
    elif engine == "memory":
        yield {"location": ":memory:", "collection_name": name}
    elif engine == "local":
        client = QdrantClient(":memory:")
        yield {"client": client, "collection_name": name}
        client.close()
    else:
        server = request.getfixturevalue("qdrant_server")
        yield {"location": server.url, "collection_name": name, "timeout_s": server.timeout_s}
        server.drop(name)


@pytest.fixture(params=["sync", "async"])
def call(request: pytest.FixtureRequest) -> Callable[..., Awaitable[Any]]:
    """Call a method by name, or its asynchronous twin."""

    async def perform(target: Any, method: str, *args: Any, **kwargs: Any) -> Any:
        if request.param == "sync":
            return getattr(target, method)(*args, **kwargs)
        return await getattr(target, f"a{method}")(*args, **kwargs)

    return perform


class TableEmbeddings(Embeddings):
    """Embeddings that look each text's vector up, and count the texts."""

    def __init__(self, table: dict[str, list[float]]) -> None:
        self.table = table
        self.embedded: list[str] = []

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        self.embedded.extend(texts)
        return [self._vector(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        return self._vector(text)

    def _vector(self, text: str) -> list[float]:
        width = len(next(iter(self.table.values())))
        # Unknown texts, such as the one that measures the width, point in their own direction.
        return self.table.get(text, [1.0 + ord(c) % 7 for c in text.ljust(width, "x")[:width]])


@pytest.fixture
def table() -> type[TableEmbeddings]:
    """The class, so that each test names its own vectors."""
    return TableEmbeddings


@pytest.fixture(scope="session")
def minilm_embeddings() -> SBERTEmbeddings:
    """all-MiniLM-L6-v2 in float32 on the CPU."""
    return SBERTEmbeddings(model="all-MiniLM-L6-v2", device="cpu", dtype="float32")


@pytest.fixture
def letters(place: dict[str, Any]) -> Iterator[SBERTVectorStore]:
    """An empty store over vectors of three components."""
    with SBERTVectorStore(TableEmbeddings({"x": [1.0, 0.0, 0.0]}), **place) as store:
        yield store
