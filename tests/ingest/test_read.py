from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import pytest

from sbert_retriever.errors import InputError, InputTypeError, ReadError
from sbert_retriever.ingest import SUFFIXES, read_passages
from sbert_retriever.types import Failure


@pytest.fixture
def folder(tmp_path: Path, pdf, word) -> Path:
    """One real file for each suffix."""
    (tmp_path / "a.txt").write_text("Plain cats purr.")
    (tmp_path / "a.md").write_text("# Cats\n\nMarkdown cats purr.")
    (tmp_path / "a.rst").write_text("Cats\n====\n\nStructured cats purr.")
    (tmp_path / "a.html").write_text("<title>Cats</title><p>Marked cats purr.")
    (tmp_path / "a.htm").write_text("<h1>Cats</h1><p>Old cats purr.")
    (tmp_path / "a.py").write_text('"""Coded cats purr."""\n')
    (tmp_path / "a.jsonl").write_text('{"text": "Recorded cats purr."}\n')
    (tmp_path / "a.csv").write_text("text,lang\nTabled cats purr.,en\n")
    pdf(tmp_path / "a.pdf", ["Printed cats purr."])
    word(tmp_path / "a.docx")
    return tmp_path


class Run:
    """What one run gave and told."""

    def __init__(self, paths: list, token_offsets, **options) -> None:
        self.failures: list[Failure] = []
        self.notes: list[str] = []
        self.sources: list[str] = []
        found = read_passages(
            paths,
            token_offsets=token_offsets,
            **{"max_tokens": 50, **options},
            on_failure=self.failures.append,
            on_note=self.notes.append,
            on_source=self.sources.append,
        )
        self.passages = list(found)


def test_one_file_of_each_suffix(folder, token_offsets):
    run = Run([folder], token_offsets)
    assert {Path(p.source).suffix for p in run.passages} == SUFFIXES
    assert all("cats" in p.text.lower() for p in run.passages if "docx" not in p.source)
    assert run.sources == sorted(p.as_posix() for p in folder.iterdir())
    assert not run.failures
    assert not run.notes
    assert len({p.id for p in run.passages}) == len(run.passages)


def test_what_cannot_be_read_is_reported_and_the_rest_go_in(folder, token_offsets, encrypted):
    encrypted(folder, "secret")
    (folder / "plain.pdf").unlink()
    (folder / "b.txt").write_bytes(b"\0")
    (folder / "c.txt").write_bytes(b"caf\xe9")
    (folder / "d.txt").touch()
    (folder / "e.png").touch()
    (folder / "f.png").touch()
    (folder / "g.txt").symlink_to("nowhere")
    (folder / "h.jsonl").write_text('{"text": "one"}\nnot json\n{"text": "three"}\n')
    (folder / ".hidden.txt").write_text("hidden")
    (folder / "loop").symlink_to(folder, target_is_directory=True)
    run = Run([folder], token_offsets)
    root = folder.as_posix()
    assert [(f.id, f.reason.split(": ")[0].removeprefix(root)) for f in run.failures] == [
        (f"{root}/b.txt", "/b.txt is not text"),
        (f"{root}/encrypted.pdf", "/encrypted.pdf is encrypted"),
        (f"{root}/g.txt", "/g.txt cannot be opened"),
        (f"{root}/h.jsonl#2", "/h.jsonl, line 2"),
    ]
    assert run.notes == [
        f"{root}/c.txt is not UTF-8 (byte 3): it was read as Windows-1252",
        f"{root}/d.txt is empty",
        "skipped 2 files of other types: 2 .png",
    ]
    assert {"one", "three", "café"} <= {p.text for p in run.passages}
    assert f"{root}/d.txt" in run.sources
    assert f"{root}/h.jsonl" not in run.sources
    assert f"{root}/b.txt" not in run.sources


def test_without_a_place_for_failures_the_first_raises(folder, token_offsets):
    (folder / "b.txt").write_bytes(b"\0")
    with pytest.raises(ReadError, match=r"b\.txt is not text"):
        list(read_passages([folder], token_offsets=token_offsets, max_tokens=50))


def test_a_records_file_is_not_chunked_unless_asked(folder, token_offsets):
    path = folder / "a.jsonl"
    path.write_text('{"text": "One two three. Four five six.", "id": "x", "lang": "en"}\n' * 2)
    (first, _) = Run([path], token_offsets, max_tokens=5, id_field="id").passages
    assert first.text == "One two three. Four five six."
    chunks = Run([path], token_offsets, max_tokens=5, id_field="id", chunk_records=True).passages
    assert [p.text for p in chunks[:2]] == ["One two three.", "Four five six."]
    assert all(p.id.startswith("x#") for p in chunks)
    assert chunks[0].metadata == {"lang": "en", "start": 0, "end": 14, "parent": "x#section-0"}
    assert {p.source for p in chunks} == {path.as_posix()}


def test_the_standard_input_is_text_or_records(token_offsets):
    run = Run(["-"], token_offsets, stdin=io.BytesIO(b"Cats purr."))
    assert [(p.text, p.source) for p in run.passages] == [("Cats purr.", "stdin")]
    lines = io.BytesIO(b'\xef\xbb\xbf{"text": "Cats"}\n{"text": 1}\n{"text": "Dogs"}')
    run = Run(["-"], token_offsets, stdin=lines, stdin_format="jsonl")
    assert [(p.id, p.text) for p in run.passages] == [("stdin#1", "Cats"), ("stdin#3", "Dogs")]
    assert [f.id for f in run.failures] == ["stdin#2"]
    assert not lines.closed


def test_records_on_the_standard_input_must_be_utf8(token_offsets):
    lines = io.BytesIO(b'{"text": "caf\xe9"}\n')
    run = Run(["-"], token_offsets, stdin=lines, stdin_format="jsonl")
    assert "stdin" in run.failures[0].reason
    assert run.passages == []


def test_the_same_path_written_twice_is_read_once(folder, token_offsets, monkeypatch):
    monkeypatch.chdir(folder)
    run = Run(["./a.txt", "a.txt", folder / "a.txt"], token_offsets)
    assert [p.source for p in run.passages] == ["a.txt"]


@pytest.mark.parametrize(
    ("paths", "options", "error"),
    [
        (["missing"], {}, InputError),
        (["-", "-"], {}, InputError),
        ("a.txt", {}, InputTypeError),
        ([], {"overlap_tokens": 50}, InputError),
        ([], {"text_field": ""}, InputError),
    ],
)
def test_wrong_use_is_refused_before_any_work(paths, options, error, token_offsets):
    with pytest.raises(error):
        read_passages(paths, token_offsets=token_offsets, **{"max_tokens": 50, **options})


def test_files_are_opened_one_at_a_time(folder, token_offsets):
    passages = read_passages([folder], token_offsets=token_offsets, max_tokens=50)
    next(passages)
    (folder / "a.txt").write_text("Changed while the run goes on.")
    assert "Changed while the run goes on." in {p.text for p in passages}


def test_importing_the_readers_loads_no_format_library():
    heavy = "{'markitdown', 'pypdfium2', 'torch', 'qdrant_client', 'bs4'}"
    code = f"import sys, sbert_retriever.ingest; print({heavy} & set(sys.modules))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "set()"


@pytest.mark.skipif(sys.platform != "linux", reason="only there any bytes make a name")
def test_a_file_whose_name_is_not_utf8_is_reported_once(tmp_path, token_offsets):
    """Its name could be no id; each of its passages would be refused for itself."""
    (tmp_path / "caf\udce9.txt").write_text("A sentence. " * 100)
    (tmp_path / "fine.txt").write_text("One.")
    failures: list[Failure] = []
    passages = read_passages(
        [tmp_path], token_offsets=token_offsets, max_tokens=10, on_failure=failures.append
    )
    assert [passage.text for passage in passages] == ["One."]
    assert len(failures) == 1
    assert "is not UTF-8: rename the file" in failures[0].reason


def test_one_file_of_another_type_is_no_files(tmp_path, token_offsets, notes):
    (tmp_path / "a.png").touch()
    list(
        read_passages([tmp_path], token_offsets=token_offsets, max_tokens=64, on_note=notes.append)
    )
    assert notes == ["skipped 1 file of other types: 1 .png"]
