"""The examples for LangChain, run as scripts."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

_EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize(
    ("name", "printed"),
    [
        ("rag_chain.py", "from bread.md, page 4"),
        ("from_langchain_qdrant.py", "without cats.md: ['The night train leaves at ten.']"),
    ],
)
def test_example(name: str, printed: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", str(_EXAMPLES / name)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert done.returncode == 0, done.stderr
    assert printed in done.stdout
    assert not list(tmp_path.iterdir())
