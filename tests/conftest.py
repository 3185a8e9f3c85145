"""Fixtures that several rooms share."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import threading
import time
import uuid
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from http.server import HTTPServer
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import pytest
from qdrant_client import QdrantClient

from sbert_retriever import BiEncoder, Retriever
from sbert_retriever.encoder.cross_encoder import CrossEncoder
from sbert_retriever.index.storage import Storage
from sbert_retriever.testing import HashEncoder, tiny_bert


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder of public data sets, which the project does not carry."""
    folder = os.environ.get("SBERT_RETRIEVER_DATA")
    if not folder:
        pytest.skip("SBERT_RETRIEVER_DATA is not set: no data sets to test with")
    return Path(folder)


@pytest.fixture
def forked() -> Callable[[Callable[[], bool]], bool | None]:
    """Ask something in a forked child; None where it gives no answer and has to be ended."""
    if not hasattr(os, "fork"):
        pytest.skip("this system has no fork")

    def answer(question: Callable[[], bool]) -> bool | None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # Python: fork with threads
            child = os.fork()
        if child == 0:
            status = 2
            try:
                status = 0 if question() else 1
            finally:
                os._exit(status)
        return _ended_well(child)

    return answer


def _ended_well(child: int, patience_s: float = 50) -> bool | None:
    until = time.monotonic() + patience_s
    while time.monotonic() < until:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status == 0
        time.sleep(0.02)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


Server = TypeVar("Server", bound=HTTPServer)


@pytest.fixture
def serving() -> Iterator[Callable[[Server], Server]]:
    """Start servers of the test's own, which answer in a thread until it is over."""
    with ExitStack() as stack:

        def start(server: Server) -> Server:
            stack.callback(server.server_close)
            thread = threading.Thread(target=server.serve_forever, args=(0.05,))
            thread.start()
            stack.callback(thread.join)
            stack.callback(server.shutdown)
            return server

        yield start


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


ColbertFolder = Callable[..., Path]


@pytest.fixture(scope="session")
def colbert_folder(tmp_path_factory: pytest.TempPathFactory) -> ColbertFolder:
    """Write a small random ColBERT checkpoint in one of the published layouts."""

    def make(layout: str = "colbert-ai", **settings: Any) -> Path:
        return _LAYOUTS[layout](tmp_path_factory.mktemp("colbert"), settings)

    return make


def _tiny_colbert(folder: Path) -> tuple[Any, Any]:
    """A tokenizer in a folder; a BertModel, and its projection (8, 32)."""
    import torch
    from transformers import AutoTokenizer, BertConfig, BertModel

    tiny_bert(folder, words=["[unused0]", "[unused1]", "cat", "dog", "house", "sleeps", "the"])
    names = ("modules.json", "sentence_bert_config.json", "model.safetensors", "config.json")
    for name in names:
        (folder / name).unlink()
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(AutoTokenizer.from_pretrained(folder)),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=64,
        initializer_range=0.3,
    )
    return BertModel(config).eval(), torch.randn(8, 32)


def _as_colbert_ai(folder: Path, settings: dict[str, Any]) -> Path:
    from safetensors.torch import save_file

    model, projection = _tiny_colbert(folder)
    model.config.architectures = ["HF_ColBERT"]
    model.config.save_pretrained(folder)
    state = {f"bert.{name}": tensor for name, tensor in model.state_dict().items()}
    state["linear.weight"] = projection
    save_file(state, str(folder / "model.safetensors"), metadata={"format": "pt"})
    said = {
        "query_maxlen": 12,
        "doc_maxlen": 16,
        "dim": 8,
        "mask_punctuation": True,
        "attend_to_mask_tokens": False,
        "query_token_id": "[unused0]",
        "doc_token_id": "[unused1]",
        "interaction": "colbert",
        "similarity": "cosine",
    }
    (folder / "artifact.metadata").write_text(json.dumps(said | settings), encoding="utf-8")
    return folder


def _as_pylate(folder: Path, settings: dict[str, Any]) -> Path:
    from safetensors.torch import save_file
    from transformers import AutoTokenizer

    model, projection = _tiny_colbert(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.add_tokens(["[Q] ", "[D] "])
    tokenizer.save_pretrained(folder)
    model.resize_token_embeddings(len(tokenizer), mean_resizing=False)
    model.save_pretrained(folder)
    (folder / "1_Dense").mkdir()
    save_file({"linear.weight": projection}, str(folder / "1_Dense" / "model.safetensors"))
    dense = {
        "in_features": 32,
        "out_features": 8,
        "bias": False,
        "activation_function": "torch.nn.modules.linear.Identity",
        "use_residual": False,
    }
    modules = [
        {
            "idx": 0,
            "name": "0",
            "path": "",
            "type": "sentence_transformers.models.Transformer",
        },
        {"idx": 1, "name": "1", "path": "1_Dense", "type": "pylate.models.Dense.Dense"},
    ]
    said = {
        "model_type": "ColBERT",
        "prompts": {},
        "default_prompt_name": None,
        "similarity_fn_name": "MaxSim",
        "query_prefix": "[Q] ",
        "document_prefix": "[D] ",
        "query_length": 12,
        "document_length": 16,
        "attend_to_expansion_tokens": False,
        "skiplist_words": list(".,?!"),
        "do_query_expansion": True,
    }
    for name, value in (
        ("modules.json", modules),
        ("1_Dense/config.json", dense),
        # PyLate saves the length of whatever it read last, a query perhaps: it says nothing.
        ("sentence_bert_config.json", {"max_seq_length": 11, "do_lower_case": False}),
        ("config_sentence_transformers.json", said | settings),
    ):
        (folder / name).write_text(json.dumps(value), encoding="utf-8")
    return folder


_LAYOUTS = {"colbert-ai": _as_colbert_ai, "pylate": _as_pylate}


_OLDEST = (1, 16)
_GRPC_PORT = 6334


@dataclass(frozen=True)
class QdrantServer:
    """The server that QDRANT_URL names; it may lie on another machine, and be busy."""

    url: str
    version: tuple[int, ...] = ()
    timeout_s: int = 60

    def client(self) -> QdrantClient:
        """A client of its own, to be closed."""
        key = os.environ.get("QDRANT_API_KEY")
        # The version check warns in a thread, and it is asked for here where it matters.
        return QdrantClient(
            self.url, api_key=key, timeout=self.timeout_s, check_compatibility=False
        )

    def drop(self, collection_name: str) -> None:
        """Delete a collection, if it is there."""
        with closing(self.client()) as client:
            client.delete_collection(collection_name)

    def speaks_grpc(self) -> bool:
        """Whether its port for gRPC can be reached, too."""
        try:
            socket.create_connection((urlsplit(self.url).hostname, _GRPC_PORT), timeout=5).close()
        except OSError:
            return False
        return True


@pytest.fixture(scope="session")
def qdrant_server() -> QdrantServer:
    """A Qdrant server to test with."""
    url = os.environ.get("QDRANT_URL")
    if not url:
        pytest.skip("QDRANT_URL is not set: no Qdrant server to test with")
    with closing(QdrantServer(url).client()) as client:
        said = client.info().version
    found = QdrantServer(url, tuple(int(number) for number in re.findall(r"\d+", said)[:2]))
    if found.version < _OLDEST:
        pytest.skip(f"the server at QDRANT_URL is Qdrant {said}, and 1.16 or newer is needed")
    return found


@dataclass
class Engine:
    """One way to keep a collection; `open` gives retrievers that see the same data."""

    name: str
    settings: dict[str, Any]
    server: QdrantServer | None = None
    opened: list[Retriever] = field(default_factory=list)

    def needs(self, *version: int) -> None:
        """Skip the test where a server is older than what it is about."""
        if self.server is not None and self.server.version < version:
            pytest.skip(f"needs Qdrant {'.'.join(map(str, version))}, and the server is older")

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
    return {"client": QdrantClient(":memory:")}


def _server_settings(server: QdrantServer, *, grpc: bool) -> dict[str, Any]:
    if grpc and not server.speaks_grpc():
        pytest.skip(f"port {_GRPC_PORT} of QDRANT_URL cannot be reached: no gRPC to test with")
    return {
        "location": server.url,
        "prefer_grpc": grpc,
        "timeout_s": server.timeout_s,
        # Others may be testing there at the same time.
        "collection_name": f"test-{uuid.uuid4().hex[:12]}",
    }


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
    yield from _engine(request, tmp_path)


@pytest.fixture(params=[name for name in ENGINES if name != "memory"])
def lasting_engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    """Those engines whose collections can be opened again."""
    yield from _engine(request, tmp_path)


def _engine(request: pytest.FixtureRequest, folder: Path) -> Iterator[Engine]:
    name = request.param
    if name.startswith("server"):
        server = request.getfixturevalue("qdrant_server")
        made = Engine(name, _server_settings(server, grpc=name == "server-grpc"), server)
    else:
        made = Engine(name, _settings(name, folder))
    yield made
    for retriever in made.opened:
        retriever.close()
    if made.server is not None:
        made.server.drop(made.settings["collection_name"])


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
