"""The threads of products, counted by the system, in a process that has two for each caller."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sbert_retriever.testing import tiny_bert

COUNTED = """
import os, sys, threading
from concurrent.futures import ThreadPoolExecutor
from sbert_retriever import BiEncoder

def others():
    "Threads that are not Python's."
    return len(os.listdir("/proc/self/task")) - threading.active_count()

encoder = BiEncoder.load(sys.argv[1], device="cpu", dtype="float32")
texts = ["the dog sat in the house with a cat"] * 64
before = others()
encoder.encode_queries(texts)
barrier = threading.Barrier(4)
with ThreadPoolExecutor(4) as pool:
    for _ in range(2):
        list(pool.map(lambda _: (barrier.wait(), encoder.encode_queries(texts)), range(4)))
    encoder.encode_queries(texts)
    print(others() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not say how many threads")
def test_a_caller_after_others_leaves_no_threads_behind(tmp_path: Path) -> None:
    """Each of five callers kept one more thread, and all of them were slower for it."""
    model = tiny_bert(tmp_path / "tiny")
    if not _has_gnu_openmp():
        pytest.skip("torch computes without GNU OpenMP here")
    finished = subprocess.run(
        [sys.executable, "-c", COUNTED, str(model)],
        env={**os.environ, "OMP_NUM_THREADS": "2", "TOKENIZERS_PARALLELISM": "false"},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert int(finished.stdout) == 0


def _has_gnu_openmp() -> bool:
    """Torch, which the model's maker has loaded, came with it."""
    return "libgomp" in Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace")
