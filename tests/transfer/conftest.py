"""Small collections, and a way to be killed half-way."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from qdrant_client import QdrantClient

from sbert_retriever import Passage, Profile, Retriever
from sbert_retriever.testing import HashEncoder

ROOT = Path(__file__).parents[2]
WORDS = ["cat", "dog", "house", "moon", "sea", "train", "rail", "fish", "bird", "tree", "cloud"]
FILTERABLE = {"lang": "keyword", "year": "integer"}
PROFILE = Profile(name="mine", candidates=7, rerank_depth=0)


class Corpus:
    """Random texts, and what to do with them at any place."""

    filterable = FILTERABLE
    profile = PROFILE

    def passages(self, count: int = 300) -> list[Passage]:
        """Texts of random words, seeded; every tenth has a twin with the same text."""
        draw = random.Random(3)
        made = [
            Passage(
                f"p{n}",
                " ".join(draw.choices(WORDS, k=draw.randint(3, 9))),
                {"lang": draw.choice(["en", "de"]), "year": 2000 + n % 20, "x": draw.random()},
                f"file{n % 5}.txt",
            )
            for n in range(count)
        ]
        twins = [replace(p, id=f"{p.id} again") for p in made[::10]]
        return [*made, *twins, Passage("ü/./ odd id", "", {"deep": {"a": [None, 1.5, "x"]}})]

    def open(self, place: Any, **settings: Any) -> Retriever:
        """A retriever at a folder or over a client."""
        where = {"client": place} if isinstance(place, QdrantClient) else {"location": place}
        return Retriever.open(**where, **settings)

    def fill(self, place: Any, count: int = 300, **settings: Any) -> Any:
        """A collection with two filterable fields and a profile; returns the place."""
        settings = {"model": HashEncoder(), "filterable": FILTERABLE, **settings}
        with self.open(place, **settings) as retriever:
            retriever.index(self.passages(count))
            retriever.save_profile(PROFILE)
        return place

    def contents(self, place: Any, **settings: Any) -> dict[str, tuple[Passage, Any]]:
        """{id: (passage, vector)}, read page by page."""
        with self.open(place, **settings) as retriever:
            store, found, offset = retriever.store, {}, None
            while True:
                steps = store.scroll(condition=None, limit=900, offset=offset, vectors=True)
                page, offset = store.connection.run(steps)
                found.update({passage.id: (passage, vector) for passage, vector in page})
                if offset is None:
                    return found

    def assert_equal(self, source: Any, target: Any) -> None:
        """The same passages, vectors, model, fields and profile, looked at one by one."""
        ours, theirs = self.contents(source), self.contents(target)
        assert ours.keys() == theirs.keys()
        for passage_id, (passage, vector) in ours.items():
            assert theirs[passage_id][0] == passage
            np.testing.assert_allclose(theirs[passage_id][1], vector, rtol=0, atol=1e-6)
        with self.open(target) as retriever:
            assert retriever.profile == PROFILE
            assert retriever.info().identity == HashEncoder().identity


@pytest.fixture
def corpus() -> Corpus:
    """Random texts, and what to do with them."""
    return Corpus()


@pytest.fixture
def folder(tmp_path: Path, corpus: Corpus) -> Path:
    """A folder with a collection of 331 passages, two filterable fields and a profile."""
    return corpus.fill(tmp_path / "from")


@pytest.fixture
def local() -> QdrantClient:
    """The client's local mode."""
    return QdrantClient(":memory:")


@pytest.fixture
def environment() -> dict[str, str]:
    """For a process of its own."""
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    return {**os.environ, "PYTHONPATH": path, "HF_HUB_OFFLINE": "1"}


@pytest.fixture
def start_python(environment: dict[str, str]) -> Iterator[Callable[..., Any]]:
    """Start a script that prints a line when it is ready and ends with its standard input."""
    started = []

    def start(script: str, *arguments: Any) -> Any:
        process = subprocess.Popen(
            [sys.executable, "-c", script, *map(str, arguments)],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        started.append(process)
        assert process.stdout.readline()
        return process

    yield start
    for process in started:
        process.communicate(timeout=30)


@pytest.fixture
def run_killed(environment: dict[str, str]) -> Callable[..., None]:
    """Run a script in a process of its own that ends itself with SIGKILL."""

    def run(script: str, *arguments: Any) -> None:
        killed = subprocess.run(
            [sys.executable, "-c", script, *map(str, arguments)],
            env=environment,
            capture_output=True,
            check=False,
        )
        assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()

    return run
