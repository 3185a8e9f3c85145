"""What the page on Ray shows, run as it stands there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.full
def test_the_example_of_the_page_runs(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "ray.md").read_text(encoding="utf-8")
    _, _, rest = page.partition("<!-- not run: starts Ray -->\n```python\n")
    code = rest.partition("\n```\n")[0]
    assert "import_parquet" in code
    paths = [str(ROOT), str(ROOT / "integrations"), os.environ.get("PYTHONPATH", "")]
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert [line[:7] for line in lines[:2]] == ["2 added", "2 added"]
    assert lines[2] == "Cats purr when they are content."
