"""The command as a process: exit codes, streams, signals."""

from __future__ import annotations

import io
import json
import logging
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sbert_retriever import Retriever
from sbert_retriever.cli.entry import _own_notes

Run = Callable[..., Any]
Start = Callable[..., subprocess.Popen[bytes]]

TOTAL = 1200


def test_help_loads_neither_torch_nor_qdrant(environment: dict[str, str]) -> None:
    script = (
        "import sys\n"
        "from sbert_retriever.cli import main\n"
        "assert main(['--help']) == 0 and main(['index', '--help']) == 0\n"
        "heavy = {'torch', 'transformers', 'qdrant_client', 'qdrant_edge', 'numpy'}\n"
        "sys.exit(sorted(heavy & set(sys.modules)).__repr__() if heavy & set(sys.modules) else 0)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_info_delete_and_export_load_no_model(animals: Path, environment: dict[str, str]) -> None:
    script = (
        "import sys\n"
        "from sbert_retriever.cli import main\n"
        "for words in (['info'], ['delete', '--id', 'a'], ['export']):\n"
        "    assert main([words[0], sys.argv[1], *words[1:]]) == 0\n"
        "assert 'torch' not in sys.modules and 'transformers' not in sys.modules\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(animals)],
        env=environment,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_a_run_splits_its_streams_and_stays_plain(
    start: Start, animals: Path, tmp_path: Path
) -> None:
    """Nothing but the result may reach stdout, and no library may chat on stderr."""
    out, err = start(
        "index", tmp_path / "animals.jsonl", "--to", animals, "--id-field", "_id", "--json"
    ).communicate()
    assert json.loads(out)["unchanged"] == 3
    assert all(line.startswith(b"sbert-retriever: ") for line in err.splitlines())

    process = start("query", animals, "cat", "--json")
    out, err = process.communicate()
    assert (process.returncode, err) == (0, b"")
    assert len(json.loads(out)["hits"]) == 3


def test_a_reader_that_leaves_ends_the_command_silently(start: Start, animals: Path) -> None:
    with start("export", animals, "--quiet") as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        assert process.stderr.read() == b""
    assert process.returncode == 141


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
@pytest.mark.parametrize("words", [("export",), ("info",)])
def test_a_full_disk_is_told_of_once(
    animals: Path, environment: dict[str, str], words: tuple[str, ...]
) -> None:
    """The interpreter flushed again at its end, and made 120 of the exit code."""
    command = [sys.executable, "-m", "sbert_retriever", *words, str(animals)]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            command, env=environment, stdout=full, stderr=subprocess.PIPE, check=False, text=True
        )
    assert done.returncode == 1
    assert "No space left on device" in done.stderr
    assert "Exception ignored" not in done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="a POSIX shell closes the streams")
def test_closed_streams_are_empty_ones(animals: Path, environment: dict[str, str]) -> None:
    """A job started without stdin, stdout or stderr runs, and prints nothing where it must not."""

    def shell(words: str) -> subprocess.CompletedProcess[str]:
        command = f'"{sys.executable}" -m sbert_retriever {words}'
        return subprocess.run(
            ["sh", "-c", command, "sh", str(animals)],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )

    asked = shell('query "$1" <&-')
    assert (asked.returncode, asked.stdout) == (2, "")
    assert "contains no question" in asked.stderr
    assert len(asked.stderr.splitlines()) == 1
    exported = shell('export "$1" >&-')
    assert (exported.returncode, exported.stderr) == (0, "sbert-retriever: 3 passages exported\n")
    failed = shell('query "$1" cat -k 0 2>&-')
    assert (failed.returncode, failed.stdout, failed.stderr) == (2, "", "")


@pytest.mark.skipif(sys.platform == "win32", reason="there a current folder cannot be deleted")
def test_a_folder_that_was_deleted_is_no_place_to_run_in(
    animals: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    command = f'rmdir "$2" && "{sys.executable}" -m sbert_retriever query "$1" cat'
    done = subprocess.run(
        ["sh", "-c", command, "sh", str(animals), str(gone)],
        env=environment,
        cwd=gone,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert "the current folder was deleted" in done.stderr


def test_an_unknown_command_is_wrong_use(run: Run) -> None:
    outcome = run("indx")
    assert outcome.code == 2
    assert "index" in outcome.err
    assert run().code == 2
    assert run("--version").out.startswith("sbert-retriever ")


def test_debug_adds_the_traceback_wherever_it_stands(run: Run, tmp_path: Path) -> None:
    for words in (("--debug", "info", tmp_path), ("info", tmp_path, "--debug")):
        outcome = run(*words)
        assert outcome.code == 1
        assert "Traceback" in outcome.err
        assert outcome.err.splitlines()[-1].startswith("sbert-retriever: there is no collection")
    assert "Traceback" not in run("info", tmp_path).err


def _records() -> bytes:
    """Records of about 1,000 characters, so that a window holds about 400 of them."""
    texts = (f"the cat {n} was in the house. " * 36 for n in range(TOTAL))
    lines = (json.dumps({"id": str(n), "text": text}) for n, text in enumerate(texts))
    return "".join(f"{line}\n" for line in lines).encode()


def test_a_stopped_run_keeps_what_it_wrote_and_goes_on(
    run: Run, start: Start, tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C and kill -9 in the middle of indexing: each next run encodes only the rest.

    The pipe holds less than a window, so that when 1,000,000 bytes are through, the first two
    windows (400,000 characters each) were drawn, and so the first was written.
    """
    records, location = _records(), tmp_path / "loc"
    words = ("index", "-", "--to", location, "--model", tiny, "--id-field", "id", "--json")

    stopped, out, err = _stopped(start(*words), records[:1_000_000], signal.SIGINT)
    assert (stopped, out) == (130, b"")
    assert b"run the same command again" in err.splitlines()[-1]
    with Retriever.open(location) as retriever:
        first = retriever.count()
    assert 300 < first < TOTAL

    stopped, out, _ = _stopped(start(*words), records[:1_000_000], signal.SIGKILL)
    assert (stopped, out) == (-signal.SIGKILL, b"")

    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(records)))
    report = run(*words).json
    assert report["unchanged"] >= first
    assert report["encoded"] == report["added"] == TOTAL - report["unchanged"]
    assert run("info", location, "--json").json["count"] == TOTAL


def _stopped(
    process: subprocess.Popen[bytes], fed: bytes, how: signal.Signals
) -> tuple[int, bytes, bytes]:
    assert process.stdin is not None
    process.stdin.write(fed)
    process.stdin.flush()
    process.send_signal(how)
    out, err = process.communicate()
    return process.returncode, out, err


def test_what_the_encoder_says_of_a_long_wait_is_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    logger = logging.getLogger("sbert_retriever.encoder")
    with _own_notes():
        logger.info("compiled it in %.1f s", 3.14)
    logger.info("and nothing of this later")
    assert capsys.readouterr().err == "sbert-retriever: compiled it in 3.1 s\n"
    assert not logger.handlers
