"""What the tests about the project itself share: its root, and clean processes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
# What is set for the tests alone; a server's warnings would be errors in an example.
_OURS = ("PYTEST", "COV_", "QDRANT_")


class Clean:
    """Runs commands offline in an empty folder, with the environment that a new user has.

    The checkout is importable there, whether it is installed or not.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def environment(self, **changes: str) -> dict[str, str]:
        paths = [str(ROOT), str(ROOT / "integrations"), os.environ.get("PYTHONPATH", "")]
        return {
            **{k: v for k, v in os.environ.items() if not k.startswith(_OURS)},
            "HF_HUB_OFFLINE": "1",
            "PATH": os.pathsep.join([str(BIN), os.environ.get("PATH", "")]),
            "PYTHONPATH": os.pathsep.join(filter(None, paths)),
            "PYTHONIOENCODING": "utf-8",
            **changes,
        }

    def run(self, command: Sequence[str], **changes: str) -> subprocess.CompletedProcess[str]:
        """Run to the end; what it printed is in the failure when its exit status is not 0."""
        done = subprocess.run(
            command,
            cwd=self.folder,
            env=self.environment(**changes),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            check=False,
        )
        if done.returncode:
            pytest.fail(
                f"{' '.join(command)[:300]}\nexit status {done.returncode}\n{done.stdout}\n"
                f"{done.stderr}",
                pytrace=False,
            )
        return done

    def python(self, code: str) -> str:
        """What a fresh interpreter prints; warnings are errors."""
        return self.run([sys.executable, "-W", "error", "-c", code]).stdout


@pytest.fixture
def clean(tmp_path: Path) -> Clean:
    """Clean processes in an empty folder."""
    return Clean(tmp_path)


@pytest.fixture(scope="session")
def root() -> Path:
    """The checkout."""
    return ROOT
