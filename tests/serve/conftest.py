"""A collection and an FAQ, and the command that serves them, as a process on the loopback."""

from __future__ import annotations

import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from sbert_retriever import BiEncoder, Passage, Retriever
from sbert_retriever.faq import Faq, FaqEntry

ROOT = Path(__file__).parents[2]
KEY = "a-key-that-nobody-may-see-0123456789"
SCRIPT = "<script>document.title = 'owned'</script> stays text, as a script tag should"
ARABIC = "يمكنك إرجاع المنتج خلال ثلاثين يومًا من تاريخ الشراء"
PATIENCE_S = 60.0

PASSAGES = [
    Passage("dicts", "To merge two dictionaries use the | operator.", {"lang": "en", "year": 2020}),
    Passage("lists", "A list is sorted in place by its method sort.", {"lang": "en", "year": 2019}),
    Passage(
        "files", "A file is opened with open and closed by with.", {"lang": "en", "year": 2021}
    ),
    Passage("script", SCRIPT, {"lang": "en", "year": 2022}),
    Passage("returns-ar", ARABIC, {"lang": "ar", "year": 2022}),
    *[
        Passage(f"n{n}", f"Chapter {n} is about {topic} and how it is used.", {"year": 1900 + n})
        for n, topic in enumerate(
            [
                "loops",
                "classes",
                "threads",
                "sockets",
                "numbers",
                "dates",
                "strings",
                "sets",
                "tuples",
                "modules",
                "tests",
                "logs",
                "regular-expressions",
                "generators",
                "decorators",
                "locks",
                "queues",
                "signals",
                "paths",
                "bytes",
            ]
        )
    ],
]

ENTRIES = [
    FaqEntry(
        id="hours",
        answer="We are open Monday to Friday, 9:00 to 17:00.",
        phrasings=["When are you open?", "What are your opening hours?"],
        tags=["shop"],
        language="en",
    ),
    FaqEntry(
        id="returns/30 days",
        answer="You can return anything within 30 days for a full refund.",
        phrasings=["How do I return an item?", "What is your refund policy?"],
        links=["https://example.org/returns", "javascript:alert(1)"],
        language="en",
    ),
    FaqEntry(
        id="arabic",
        answer=ARABIC,
        phrasings=["كيف يمكنني إرجاع منتج؟"],
        language="ar",
    ),
]


@dataclass
class Served:
    """A process that serves, and what it said."""

    process: subprocess.Popen[str]
    address: str = ""
    lines: list[str] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)
    key: str = KEY
    reader: threading.Thread | None = None

    def client(self, **settings: Any) -> httpx.Client:
        headers = {**self.headers, **settings.pop("headers", {})}
        return httpx.Client(base_url=self.address, timeout=PATIENCE_S, headers=headers, **settings)

    def ask(self, method: str, path: str, body: Any = None, **settings: Any) -> httpx.Response:
        with self.client() as client:
            return client.request(method, path, json=body, **settings)

    def post(self, path: str, body: Any) -> httpx.Response:
        return self.ask("POST", path, body)

    def requests(self) -> list[dict[str, Any]]:
        """Lines of the log about requests."""
        found = [json.loads(line) for line in self.lines if line.startswith("{")]
        return [line for line in found if line["event"] == "request"]

    def await_ready(self) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while (answer := self.ask("GET", "/readyz")).status_code != 200:
            assert time.monotonic() < deadline, answer.text
            time.sleep(0.05)

    def stop(self, how: int = signal.SIGTERM) -> int:
        if self.process.poll() is None:
            self.process.send_signal(how)
        code = self.process.wait(PATIENCE_S)
        if self.reader is not None:
            self.reader.join(PATIENCE_S)
        return code


Serve = Callable[..., Served]


def start(location: Path, *options: str, environment: dict[str, str] | None = None) -> Served:
    """Serve, and wait for the address."""
    path = os.pathsep.join(
        [str(ROOT), str(ROOT / "integrations"), os.environ.get("PYTHONPATH", "")]
    )
    process = subprocess.Popen(
        [sys.executable, "-m", "sbert_retriever", "serve", str(location), "--port", "0", *options],
        env={**os.environ, "PYTHONPATH": path, "HF_HUB_OFFLINE": "1", **(environment or {})},
        cwd=location.parent,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    )
    served = Served(process)
    said: queue.Queue[str] = queue.Queue()

    def read() -> None:
        assert process.stderr is not None
        with process.stderr as lines:
            for line in lines:
                served.lines.append(line.rstrip("\n"))
                if "serving at " in line:
                    said.put(line.split("serving at ")[1].strip())
        said.put("")

    served.reader = threading.Thread(target=read, daemon=True)
    served.reader.start()
    served.address = said.get(timeout=PATIENCE_S)
    assert served.address, "\n".join(served.lines)
    return served


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory, minilm: BiEncoder) -> Path:
    """A folder with a collection and an FAQ, open nowhere."""
    folder = tmp_path_factory.mktemp("served") / "location"
    with Retriever.open(folder, model=minilm, filterable={"year": "integer"}) as retriever:
        retriever.index(PASSAGES)
    with Faq.open(folder, model=minilm) as faq:
        faq.add(ENTRIES)
    return folder


@pytest.fixture
def location(built: Path, tmp_path: Path) -> Path:
    """A copy of its own."""
    return Path(shutil.copytree(built, tmp_path / "location"))


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Start services that are stopped at the end."""
    started: list[Served] = []

    def begin(location: Path, *options: str, **settings: Any) -> Served:
        started.append(start(location, *options, **settings))
        return started[-1]

    yield begin
    for served in started:
        served.stop(signal.SIGKILL)


@pytest.fixture(scope="session")
def served(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A service without keys, ready."""
    location = Path(shutil.copytree(built, tmp_path_factory.mktemp("open") / "location"))
    running = start(location, "--dtype", "float32")
    running.await_ready()
    yield running
    running.stop(signal.SIGKILL)


@pytest.fixture(scope="session")
def locked(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A service that wants a key and takes small requests only."""
    folder = tmp_path_factory.mktemp("locked")
    location = Path(shutil.copytree(built, folder / "location"))
    (folder / "keys").write_text(f"# ours\n\n{KEY}\nanother-key-of-some-length\n")
    options = ("--api-key-file", str(folder / "keys"), "--max-body-mb", "1", "--max-batch", "64")
    running = start(location, *options)
    running.headers = {"authorization": f"Bearer {KEY}"}
    running.await_ready()
    yield running
    running.stop(signal.SIGKILL)
