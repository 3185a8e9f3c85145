from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sbert_retriever import Passage, Retriever
from sbert_retriever.errors import InputError, ReadError, StoreRequestError
from sbert_retriever.index.contract import Contract
from sbert_retriever.ingest.exchange import FORMAT, ExportFile, export_passages
from sbert_retriever.testing import HashEncoder
from sbert_retriever.transfer import import_file, import_lines

Run = Callable[..., Any]

ODD = [
    Passage("./data/a.txt_1", "one", {"x": 0.1 + 0.2, "y": 5e-324, "z": 1.7976931348623157e308}),
    Passage("1", "two", {"list": [1, "1", None, True], "deep": {"a": {"b": [1.5]}}}, "s.txt"),
    Passage("ä" * 10_000, 'ünïcode \u2028 \u0085 \\ " \n\t 日本 🙂', {"schlüssel": "wért"}),
    Passage("A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11", "upper-case", {}),
    Passage("a0eebc999c0b4ef8bb6d6bb9bd380a11", "no hyphens", {"n": 2**63 - 1}),
    Passage("empty", "", {"none": None}),
]


def test_every_id_text_and_number_comes_back_exactly(tmp_path: Path) -> None:
    """Ids like numbers, uuids or paths, and floats to the last bit, make the round trip."""
    file = tmp_path / "e.jsonl"
    with Retriever.open(tmp_path / "a", model=HashEncoder()) as before:
        before.index(ODD)
        assert export_passages(before.store, file) == len(ODD)
        vectors = {p.id: before.store.connection.run(before.store.vector(p.id)) for p in ODD}

    report = import_file(file, tmp_path / "b")

    assert (report.added, report.failed, report.encoded) == (len(ODD), 0, 0)
    with Retriever.open(tmp_path / "b", model=HashEncoder()) as after:
        assert after.get([p.id for p in ODD]) == ODD
        for passage_id, vector in vectors.items():
            found = after.store.connection.run(after.store.vector(passage_id))
            np.testing.assert_allclose(found, vector, rtol=0, atol=1e-7)


def test_export_then_import_gives_equal_searches(run: Run, animals: Path, tmp_path: Path) -> None:
    run("export", animals, "-o", tmp_path / "e.jsonl")
    run("import", tmp_path / "e.jsonl", "--to", tmp_path / "copy")
    for question in ("cat", "dog and people", "water"):
        left, right = (
            run("query", location, question, "--json", "--exact").json["hits"]
            for location in (animals, tmp_path / "copy")
        )
        assert [hit["id"] for hit in left] == [hit["id"] for hit in right]
        assert [hit["score"] for hit in left] == pytest.approx(
            [hit["score"] for hit in right], abs=1e-6
        )
    assert [p.name for p in tmp_path.glob("*.part")] == []


def test_an_export_needs_no_model_and_says_what_it_is(run: Run, animals: Path, tiny: str) -> None:
    outcome = run("export", animals)
    header, *lines, end = map(json.loads, outcome.out.splitlines())
    assert header["format"] == "sbert-retriever export"
    assert header["contract"]["sbert_retriever"]["model"]["name"] == tiny
    assert {line["id"] for line in lines} == {"a", "b", "c"}
    assert all(len(line["vector"]) == 32 for line in lines)
    assert end["count"] == 3


@pytest.mark.skipif(os.name != "posix", reason="pipes and links in folders are POSIX's")
def test_an_export_into_a_pipe_or_a_link_leaves_it_one(
    run: Run, animals: Path, tmp_path: Path
) -> None:
    """`-o /dev/null` must not put a file in the place of a device, nor of a link."""
    pipe, link, file = tmp_path / "pipe", tmp_path / "link.jsonl", tmp_path / "real.jsonl"
    os.mkfifo(pipe)
    with subprocess.Popen(["cat", str(pipe)], stdout=subprocess.PIPE) as reader:
        assert run("export", animals, "-o", pipe).code == 0
        out, _ = reader.communicate()
    assert pipe.is_fifo()
    assert len(out.splitlines()) == 5

    file.write_text("old", encoding="utf-8")
    link.symlink_to(file)
    assert run("export", animals, "-o", link).code == 0
    assert link.is_symlink()
    assert file.read_bytes() == out

    outcome = run("export", animals, "-o", tmp_path)
    assert outcome.code == 1
    assert "Is a directory" in outcome.err


def test_an_import_can_be_run_again(run: Run, animals: Path, tmp_path: Path) -> None:
    run("export", animals, "-o", tmp_path / "e.jsonl")
    run("import", tmp_path / "e.jsonl", "--to", tmp_path / "copy")
    again = run("import", tmp_path / "e.jsonl", "--to", tmp_path / "copy", "--json")
    assert (again.json["unchanged"], again.json["added"]) == (3, 0)


def test_another_model_encodes_the_texts_anew(
    run: Run, animals: Path, tmp_path: Path, other: str
) -> None:
    run("export", animals, "-o", tmp_path / "e.jsonl")
    again = ("import", tmp_path / "e.jsonl", "--to", tmp_path / "o")
    outcome = run(*again, "--model", other, "--json")
    assert (outcome.json["added"], outcome.json["encoded"]) == (3, 3)
    assert run("info", tmp_path / "o", "--json").json["dim"] == 16

    refused = run(*again)
    assert refused.code == 1
    assert f"--model {other}" in refused.err


def test_a_cut_file_is_noticed_before_anything_is_written(
    run: Run, animals: Path, tmp_path: Path
) -> None:
    run("export", animals, "-o", tmp_path / "e.jsonl")
    lines = (tmp_path / "e.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    for cut in (lines[:2], [*lines[:2], lines[2][:50]]):
        (tmp_path / "cut.jsonl").write_text("".join(cut), encoding="utf-8")
        outcome = run("import", tmp_path / "cut.jsonl", "--to", tmp_path / "x")
        assert outcome.code == 1
        assert "was truncated" in outcome.err
        assert not (tmp_path / "x").exists()


def test_what_is_left_of_a_cut_file_can_be_piped_in(
    run: Run, animals: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = run("export", animals).out.splitlines(keepends=True)
    monkeypatch.setattr(sys, "stdin", io.StringIO("".join(lines[:3])))
    outcome = run("import", "-", "--to", tmp_path / "x", "--json")
    assert outcome.code == 1
    assert outcome.json["added"] == 2
    assert "line 3: the file ends here" in outcome.err


def test_bad_lines_are_named_and_the_rest_goes_in(run: Run, animals: Path, tmp_path: Path) -> None:
    header, first, second, third, end = run("export", animals).out.splitlines()
    short = json.loads(second)
    short["vector"] = short["vector"][:5]
    zero = json.loads(third)
    zero["vector"] = [0.0] * 32
    file = tmp_path / "e.jsonl"
    lines = [header, "{broken", json.dumps(short), json.dumps(zero), first, end]
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")

    outcome = run("import", file, "--to", tmp_path / "x", "--json")

    assert outcome.code == 1
    assert outcome.json["added"] == 1
    assert "line 2: not JSON" in outcome.err
    assert "line 3: its vector has the shape (5,), expected (32,)" in outcome.err
    assert "line 4: its vector is all zero" in outcome.err


def test_a_byte_that_is_no_text_costs_its_line_alone(
    run: Run, animals: Path, tmp_path: Path
) -> None:
    file = tmp_path / "e.jsonl"
    run("export", animals, "-o", file)
    file.write_bytes(file.read_bytes().replace(b"the dog", b"the d\xffg"))
    outcome = run("import", file, "--to", tmp_path / "x", "--json")
    assert outcome.code == 1
    assert (outcome.json["added"], outcome.json["failed"]) == (2, 1)
    assert "surrogate" in outcome.err


def test_a_file_that_is_not_there_is_wrong_use(run: Run, tmp_path: Path) -> None:
    outcome = run("import", tmp_path / "no.jsonl", "--to", tmp_path / "x")
    assert outcome.code == 2
    assert "no.jsonl cannot be read: No such file" in outcome.err


def test_a_lost_line_is_noticed_by_the_count(run: Run, animals: Path) -> None:
    lines = run("export", animals).out.splitlines()
    file = ExportFile([*lines[:2], *lines[3:]], "e.jsonl")
    assert len(list(file.entries())) == 2
    assert "2 passages came before the closing line, which says 3" in file.failures[0].reason


def test_numbers_that_no_float_holds_cost_their_line_alone(tmp_path: Path) -> None:
    contract = Contract(model=HashEncoder(dim=2).identity).to_metadata()
    header = {"format": FORMAT, "version": 1, "collection": "c", "dim": 2, "contract": contract}
    ids = ("huge", "large", "fine")
    vectors: tuple[list[float], ...] = ([1, 10**400], [1, 1e39], [1, 0])
    lines = [
        json.dumps({"id": i, "text": i, "vector": vector})
        for i, vector in zip(ids, vectors, strict=True)
    ]
    end = json.dumps({"end": FORMAT, "count": 3})
    file = tmp_path / "e.jsonl"
    file.write_text("\n".join([json.dumps(header), *lines, end]) + "\n", encoding="utf-8")

    report = import_file(file, tmp_path / "x")

    assert report.added == 1
    reasons = " ".join(failure.reason for failure in report.failures)
    assert "not a list of numbers" in reasons
    assert "NaN or infinity" in reasons


@pytest.mark.parametrize(
    ("first", "said"),
    [
        ("", "not JSON"),
        ("[]", "list"),
        ('{"id": "a", "text": "b"}', "sbert-retriever index"),
        ('{"format": "sbert-retriever export", "version": 2}', "upgrade"),
        ('{"format": "sbert-retriever export", "version": 1}', "damaged"),
    ],
)
def test_what_is_no_export_is_refused(first: str, said: str) -> None:
    with pytest.raises(ReadError, match=said):
        ExportFile([first], "e.jsonl")


def test_an_export_that_fails_leaves_the_old_file(tmp_path: Path, plant_nan: Any) -> None:
    """A vector with NaN can't be written; the export before must not be lost to the attempt."""
    file = tmp_path / "e.jsonl"
    file.write_text("precious", encoding="utf-8")
    with Retriever.open(tmp_path / "a", model=HashEncoder()) as retriever:
        retriever.index([Passage("a", "x")])
        plant_nan(retriever, Passage("ghost", "boo"))
        with pytest.raises(StoreRequestError, match="NaN"):
            export_passages(retriever.store, file)
    assert file.read_text(encoding="utf-8") == "precious"
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["e.jsonl"]


def test_an_export_without_a_contract_asks_for_a_model(tmp_path: Path) -> None:
    header = {"format": "sbert-retriever export", "version": 1, "collection": "x", "dim": 4}
    with pytest.raises(InputError, match="--model"):
        import_lines([json.dumps(header)], tmp_path / "x")
    assert not (tmp_path / "x").exists()
