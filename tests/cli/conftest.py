"""A small model, a way to run the command in this process, and one to run it for real."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import qdrant_edge as edge

from sbert_retriever import Passage, Retriever
from sbert_retriever.cli import main
from sbert_retriever.index.points import draft, point_id
from sbert_retriever.testing import tiny_bert

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-m", "sbert_retriever"]


def _plant_nan(retriever: Retriever, passage: Passage) -> None:
    """Past all that would refuse it, into the engine itself."""
    store = retriever.store
    made = draft(passage, store.layout)
    point = edge.Point(
        point_id(made.id), {"dense": [math.nan] * retriever.info().dim}, made.payload
    )
    shard = store.connection.client._shard(store.collection_name)
    shard.use(lambda engine: engine.update(edge.UpdateOperation.upsert_points([point])))


@pytest.fixture
def plant_nan() -> Callable[[Retriever, Passage], None]:
    """Write a vector that no search finds."""
    return _plant_nan


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Run = Callable[..., Outcome]


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A random BERT that reads 32 tokens, as a folder."""
    return str(tiny_bert(tmp_path_factory.mktemp("models") / "tiny"))


@pytest.fixture(scope="session")
def other(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Another one, of another width."""
    folder = tmp_path_factory.mktemp("models") / "other"
    return str(tiny_bert(folder, hidden=16, pooling="cls", seed=1))


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """The command in this process."""

    def run(*arguments: str | Path) -> Outcome:
        capsys.readouterr()
        code = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Outcome(code, captured.out, captured.err)

    return run


@pytest.fixture(scope="session")
def environment() -> dict[str, str]:
    """For a process of its own."""
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    return {**os.environ, "PYTHONPATH": path, "HF_HUB_OFFLINE": "1", "COLUMNS": "80"}


@pytest.fixture
def start(environment: dict[str, str], tmp_path: Path) -> Callable[..., subprocess.Popen[bytes]]:
    """The command as a process, its streams piped."""

    def start(*arguments: str | Path) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [*COMMAND, *map(str, arguments)],
            cwd=tmp_path,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # A background job starts with Ctrl-C ignored, and so would its children.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )

    return start


@pytest.fixture
def write_jsonl() -> Callable[[Path, list[dict[str, Any]]], Path]:
    """Records to a file, one a line."""

    def write(path: Path, records: list[dict[str, Any]]) -> Path:
        path.write_text("".join(json.dumps(r) + "\n" for r in records), encoding="utf-8")
        return path

    return write


@pytest.fixture
def records() -> list[dict[str, Any]]:
    """Three records."""
    return [
        {"_id": "a", "text": "the cat was in the house", "lang": "en", "year": 2019},
        {"_id": "b", "text": "the dog was with people", "lang": "en", "year": 2021},
        {"_id": "c", "text": "water is in the way", "lang": "de", "year": 2023},
    ]


@pytest.fixture
def animals(run: Run, tiny: str, tmp_path: Path, write_jsonl: Any, records: Any) -> Path:
    """A collection of three passages."""
    corpus = write_jsonl(tmp_path / "animals.jsonl", records)
    location = tmp_path / "location"
    outcome = run("index", corpus, "--to", location, "--id-field", "_id", "--model", tiny)
    assert outcome.code == 0, outcome.err
    return location
