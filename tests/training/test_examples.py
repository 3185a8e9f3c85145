"""The examples of training run on the public data."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.full
@pytest.mark.data
def test_the_faq_example_says_what_changed(data_dir: Path) -> None:
    """On few FAQs the interval is wide; what counts here is that all of it is said."""
    file = data_dir / "faq-stackfaq" / "stackExchange-FAQ.json"
    command = [sys.executable, str(ROOT / "examples/training/faq_domain.py"), str(file)]
    options = ["--limit", "12", "--folds", "2", "--epochs", "1"]
    done = subprocess.run(
        [*command, *options],
        env={**os.environ, "PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "rephrasings of 12 FAQs, each FAQ unseen in training" in done.stdout
    assert "accuracy@1 before 0." in done.stdout or "accuracy@1 before 1." in done.stdout
    assert "95 % " in done.stdout
