"""The threads of products, counted by the system, in a process that has two for each caller."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sbert_retriever.encoder.teams import _Callers
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
FORKED = """
import os, sys, threading
import torch
from sbert_retriever import BiEncoder

encoder = BiEncoder.load(sys.argv[1], device="cpu", dtype="float32")
texts = ["the dog sat in the house with a cat"] * 64
encoder.encode_queries(texts)
torch.ones(512, 512) @ torch.ones(512, 512)  # a team that nobody gives back
child = os.fork()
if child:
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
else:
    other = threading.Thread(target=encoder.encode_queries, args=(texts,))
    other.start()
    other.join()
    encoder.encode_queries(texts)
    os._exit(0)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not say how many threads")
def test_a_caller_after_others_leaves_no_threads_behind(tmp_path: Path) -> None:
    """Each of five callers kept one more thread, and all of them were slower for it."""
    model = tiny_bert(tmp_path / "tiny")
    if not _has_gnu_openmp():
        pytest.skip("torch computes without GNU OpenMP here")
    assert ran(COUNTED, model) == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no processes are forked here")
def test_a_forked_child_does_not_wait_for_its_parents_team(tmp_path: Path) -> None:
    assert ran(FORKED, tiny_bert(tmp_path / "tiny")) == 0


def test_a_thread_that_asks_for_long_alone_is_taken_for_the_only_one() -> None:
    """After 32 calls in a row, and from the start where nobody else was there."""
    callers = _Callers()
    callers.enter()
    assert not callers.several
    with ThreadPoolExecutor(1) as pool:
        pool.submit(callers.enter).result()
    assert callers.several
    several = []
    for _ in range(34):
        callers.enter()
        several.append(callers.several)
    assert several == [True] * 32 + [False] * 2


def ran(script: str, model: Path) -> int:
    """What a script prints, in a process whose products have two threads."""
    finished = subprocess.run(
        [sys.executable, "-c", script, str(model)],
        env={**os.environ, "OMP_NUM_THREADS": "2", "TOKENIZERS_PARALLELISM": "false"},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    return int(finished.stdout)


def _has_gnu_openmp() -> bool:
    """Torch, which the model's maker has loaded, came with it."""
    return "libgomp" in Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace")
