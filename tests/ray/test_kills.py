"""SciFact whole, with the driver killed on the way, and in the next run a worker."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import ir_measures
import numpy as np
import pytest
from ir_measures import nDCG
from pyarrow import parquet
from sbert_ray import Workers, encode_to_parquet, import_parquet
from scifact import corpus, queries

from sbert_retriever import Retriever
from sbert_retriever.errors import TruncationWarning

ROWS = 128
DRIVER = """
import sys
from sbert_ray import Workers, encode_to_parquet
encode_to_parquet(sys.argv[1], sys.argv[2], model="all-MiniLM-L6-v2", id_field="id", device="cpu",
                  dtype="float32", workers=Workers(count=2, cpus=1), shard_rows=int(sys.argv[3]))
"""


def parents() -> dict[int, int]:
    """The parent of every process that lives."""
    found = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        except OSError:  # it ended meanwhile
            continue
        if fields[0] != "Z":
            found[int(stat.parent.name)] = int(fields[1])
    return found


def below(root: int) -> list[int]:
    """All processes that a process started, and those that they started."""
    known = parents()
    found, ahead = [], [root]
    while ahead:
        parent = ahead.pop()
        children = [pid for pid, above in known.items() if above == parent]
        found += children
        ahead += children
    return found


def workers(driver: int) -> list[int]:
    """The actors that encode for a process."""
    titles = {pid: title(pid) for pid in below(driver)}
    return [pid for pid, name in titles.items() if "ShardWriter" in name]


def title(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def written(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.parquet"))


def wait_for(condition, seconds: float) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.2)


def encode_until_killed(source: Path, out: Path, shards: int) -> None:
    """Another process's run, killed with no warning when there are so many shards."""
    command = [sys.executable, "-c", DRIVER, str(source), str(out), str(ROWS)]
    driver = subprocess.Popen(command, start_new_session=True)
    try:
        wait_for(lambda: len(written(out)) >= shards or driver.poll() is not None, 300)
        assert driver.poll() is None, "it ended before it could be killed"
        writing = workers(driver.pid)
        assert writing
    finally:
        driver.kill()
        driver.wait()
    # They end with the one that started them (some of Ray's own agents a minute later).
    wait_for(lambda: not set(writing) & parents().keys(), 60)


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Both packages for every process, and a folder for Ray's logs that goes away."""
    root = Path(__file__).parents[2]
    paths = [str(root), str(root / "integrations"), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, paths)))
    folder = tempfile.mkdtemp(prefix="r")
    monkeypatch.setenv("RAY_TMPDIR", folder)
    yield
    shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.full
@pytest.mark.data
@pytest.mark.usefixtures("environment")
def test_scifact_with_kills_is_what_one_process_gives(
    data_dir: Path, minilm, tmp_path: Path
) -> None:
    """What is written before the kills is kept, nothing is lost, nothing is there twice."""
    passages = dict(corpus(data_dir))
    source, out = tmp_path / "scifact.jsonl", tmp_path / "out"
    lines = [json.dumps({"id": i, "text": text}) for i, text in passages.items()]
    source.write_text("\n".join(lines), encoding="utf-8")

    encode_until_killed(source, out, shards=6)
    kept = {path: path.stat().st_mtime_ns for path in written(out)}
    before = sum(len(parquet.read_table(path)) for path in kept)
    assert 6 * ROWS <= before < len(passages)

    killed: list[int] = []

    def kill_one(_: object) -> None:
        if not killed:
            killed.append(workers(os.getpid())[0])
            os.kill(killed[0], signal.SIGKILL)

    with pytest.warns(TruncationWarning):
        report = encode_to_parquet(
            source,
            out,
            model="all-MiniLM-L6-v2",
            id_field="id",
            device="cpu",
            dtype="float32",
            workers=Workers(count=2, cpus=1),
            shard_rows=ROWS,
            on_progress=kill_one,
        )
    assert killed
    assert (report.added, report.unchanged) == (len(passages) - before, before)
    assert report.failed == 0
    assert {path: path.stat().st_mtime_ns for path in kept} == kept

    tables = [parquet.read_table(path) for path in written(out)]
    found = {row["id"]: row for table in tables for row in table.to_pylist()}
    assert sum(map(len, tables)) == len(found) == len(passages)
    assert {i: row["text"] for i, row in found.items()} == passages
    vectors = np.array([found[i]["vector"] for i in passages], dtype=np.float32)
    alone = minilm.encode_passages(list(passages.values()), on_truncate="ignore")
    assert np.abs(vectors - alone).max() < 1e-5

    assert import_parquet(out, tmp_path / "index").added == len(passages)
    texts, qrels = queries(data_dir)
    with Retriever.open(tmp_path / "index", model=minilm) as retriever:
        hits = retriever.search_batch(list(texts.values()), 10, exact=True)
    run = {q: {h.id: h.score for h in each} for q, each in zip(texts, hits, strict=True)}
    measured = ir_measures.calc_aggregate([nDCG @ 10], qrels, run)
    assert measured[nDCG @ 10] == pytest.approx(0.6455, abs=0.001)
