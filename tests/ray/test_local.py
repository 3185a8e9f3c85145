"""Encoding and indexing with a real local Ray and two workers."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import ray.data
from pyarrow import parquet
from sbert_ray import Workers, encode_to_parquet, import_parquet, index

from sbert_retriever import BiEncoder, Passage, Retriever
from sbert_retriever.errors import ContractError, InputError, ModelError, ReadError
from sbert_retriever.ingest.records import read_records
from sbert_retriever.testing import HashEncoder, tiny_bert

pytestmark = [
    pytest.mark.usefixtures("two_cores"),
    # Of defaults of Ray's own, when the first dataset is made.
    pytest.mark.filterwarnings("ignore::DeprecationWarning:ray.data.context"),
]

TWO = Workers(count=2, cpus=1)
TEXTS = [f"the cat number {n} has a house and {'very ' * (n % 7)}long words" for n in range(40)]


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """Forty records of jsonl, one of them no record, ten of csv, three of parquet."""
    folder = tmp_path / "in"
    folder.mkdir()
    lines = [json.dumps({"text": text, "n": n}) for n, text in enumerate(TEXTS)]
    lines[7] = '{"text": '
    (folder / "a.jsonl").write_text("\n".join(lines), encoding="utf-8")
    rows = [f"{n},dogs and cats {n}" for n in range(10)]
    (folder / "b.csv").write_text("\n".join(["year,text", *rows]), encoding="utf-8")
    table = pa.table({"text": ["one", "two", "the cat"], "tags": [["x"], [], None]})
    parquet.write_table(table, folder / "c.parquet")
    return folder


def rows_of(folder: Path) -> dict[str, dict]:
    """Every row of every shard, by id."""
    tables = [parquet.read_table(shard) for shard in sorted(folder.glob("*.parquet"))]
    return {row["id"]: row for table in tables for row in table.to_pylist()}


@pytest.mark.skipif(sys.platform != "linux", reason="names of files are any bytes on Linux alone")
def test_a_name_that_is_not_utf8_costs_its_file_alone(tiny: Path, tmp_path: Path) -> None:
    """Its ids could not be sent between processes: the run ended, each time it was run."""
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.jsonl").write_text('{"text": "the cat"}\n', encoding="utf-8")
    odd = os.fsencode(folder / "b") + b"\xe9.jsonl"
    with open(odd, "w", encoding="utf-8") as file:
        file.write('{"text": "the dog"}\n')
    report = encode(folder, tmp_path / "out", tiny)
    assert (report.added, report.failed) == (1, 1)
    assert "is not UTF-8: rename the file" in report.failures[0].reason


def encode(source, folder, model, **options):
    settings = {"workers": TWO, "shard_rows": 16, "device": "cpu", "dtype": "float32"}
    return encode_to_parquet(source, folder, model=model, **(settings | options))


def test_shards_hold_what_one_process_gives(files: Path, tiny: Path, tmp_path: Path) -> None:
    """Ids, metadata and vectors are those of the readers and of one encoder; a bad line fails."""
    out = tmp_path / "out"
    seen = []
    report = encode(files, out, tiny, on_progress=seen.append)
    rows = rows_of(out)
    assert (report.added, report.failed, report.encoded) == (52, 1, 52)
    assert report.failures[0].id == f"{files.as_posix()}/a.jsonl#8"
    assert seen[-1].added == 52
    expected = {
        passage.id: passage
        for name in ("a.jsonl", "b.csv")
        for passage in read_records(files / name, on_failure=lambda _: None)
    }
    table = f"{files.as_posix()}/c.parquet"
    for number, (text, tags) in enumerate([("one", ["x"]), ("two", []), ("the cat", None)], 1):
        place = f"{table}#{number}"
        expected[place] = Passage(place, text, {"tags": tags}, table)
    found = {
        i: Passage(i, row["text"], json.loads(row["metadata"]), row["source"])
        for i, row in rows.items()
    }
    assert found == expected
    alone = BiEncoder.load(tiny, device="cpu", dtype="float32")
    vectors = np.array([row["vector"] for row in rows.values()], dtype=np.float32)
    wanted = alone.encode_passages([row["text"] for row in rows.values()])
    assert np.abs(vectors - wanted).max() < 1e-5
    assert not [path for path in out.iterdir() if path.suffix == ".part"]
    assert import_parquet(out, tmp_path / "index").added == 52
    with (
        Retriever.open(tmp_path / "index", model=alone) as imported,
        Retriever.open(":memory:", model=alone) as indexed,
    ):
        indexed.index(expected.values())
        left, right = (r.search("dogs and cats 3", 5) for r in (imported, indexed))
        assert [hit.passage for hit in left] == [hit.passage for hit in right]
        assert np.allclose([h.score for h in left], [h.score for h in right], atol=1e-5)


@pytest.mark.full
def test_what_is_written_is_not_encoded_again(files: Path, tiny: Path, tmp_path: Path) -> None:
    """A second run adds nothing, a third what changed, in the place of what was there."""
    out, calls = tmp_path / "out", files / "a.jsonl"
    encode(files, out, tiny)
    shards = {path.name: path.stat().st_mtime_ns for path in out.glob("*.parquet")}
    again = encode(files, out, tiny)
    assert (again.added, again.unchanged, again.encoded, again.failed) == (0, 52, 0, 1)
    assert {path.name: path.stat().st_mtime_ns for path in out.glob("*.parquet")} == shards
    lines = calls.read_text(encoding="utf-8").split("\n")
    lines[0] = json.dumps({"text": "another text", "n": 0})
    lines[7] = json.dumps({"text": "mended", "n": 7})
    calls.write_text("\n".join(lines), encoding="utf-8")
    third = encode(files, out, tiny)
    assert (third.added, third.unchanged, third.failed) == (2, 51, 0)
    # What comes back to an earlier text is written anew too: the later row is what counts.
    lines[0] = json.dumps({"text": TEXTS[0], "n": 0})
    calls.write_text("\n".join(lines), encoding="utf-8")
    assert encode(files, out, tiny).added == 1
    report = import_parquet(out, tmp_path / "index")
    assert (report.added, report.failed) == (53, 0)
    with Retriever.open(tmp_path / "index") as retriever:
        assert retriever.get([f"{calls.as_posix()}#1"])[0].text == TEXTS[0]
    assert import_parquet(out, tmp_path / "index").unchanged == 53


@pytest.mark.full
def test_a_run_that_has_not_ended_is_imported_only_when_asked(
    files: Path, tiny: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    encode(files / "b.csv", out, tiny)
    description = out / "_sbert_ray.json"
    values = json.loads(description.read_text(encoding="utf-8")) | {"finished": False}
    description.write_text(json.dumps(values), encoding="utf-8")
    with pytest.raises(InputError, match="has not come to its end"):
        import_parquet(out, tmp_path / "index")
    assert import_parquet(out, tmp_path / "index", partial=True).added == 10


@pytest.mark.full
def test_another_model_is_refused(files: Path, tiny: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    encode(files / "b.csv", out, tiny)
    other = tiny_bert(tmp_path / "other", seed=1)
    with pytest.raises(ContractError, match="weights differ"):
        encode(files / "b.csv", out, other)
    with pytest.raises(InputError, match="not shards of ours"):
        encode(files / "b.csv", files, other)


@pytest.mark.full
def test_rows_of_a_dataset_are_passages(tmp_path: Path) -> None:
    """With metadata as mappings or as JSON text, or with an id field, as records."""
    rows = [
        {"id": f"p{n}", "text": f"text {n}", "metadata": {"n": n}, "source": "here"}
        for n in range(20)
    ]
    out = tmp_path / "out"
    assert encode(ray.data.from_items(rows), out, HashEncoder(dim=16)).added == 20
    found = rows_of(out)
    assert json.loads(found["p3"]["metadata"]) == {"n": 3}
    assert found["p3"]["source"] == "here"
    own = ray.data.read_parquet(str(out)).drop_columns(["key", "vector"])
    report = encode(own, tmp_path / "wider", HashEncoder(dim=32))
    assert (report.added, report.failed) == (20, 0)
    assert rows_of(tmp_path / "wider")["p3"]["metadata"] == found["p3"]["metadata"]
    records = ray.data.from_items([{"key": n, "body": f"text {n}", "lang": "en"} for n in range(3)])
    named = {"id_field": "key", "text_field": "body"}
    encode(records, tmp_path / "records", HashEncoder(dim=16), **named)
    assert json.loads(rows_of(tmp_path / "records")["2"]["metadata"]) == {"lang": "en"}
    with pytest.raises(ReadError, match="give id_field="):
        encode(records, tmp_path / "none", HashEncoder(dim=16))


@pytest.mark.full
def test_a_server_gets_what_one_process_would_send(files: Path, server, serving) -> None:
    """Ids, payloads and contract are those of `Retriever.index`."""
    model = HashEncoder(dim=16)
    alone = serving(type(server)())
    passages = [
        passage
        for name in ("a.jsonl", "b.csv")
        for passage in read_records(files / name, on_failure=lambda _: None)
    ]
    with Retriever.open(alone.url, model=model) as retriever:
        retriever.index(passages)
    sources = [files / "a.jsonl", files / "b.csv"]
    report = index(sources, server.url, model=model, workers=TWO)
    assert (report.added, report.failed) == (49, 1)
    assert server.collections == alone.collections
    made, wanted = server.points["default"], alone.points["default"]
    assert made.keys() == wanted.keys()
    for point, values in made.items():
        assert values["payload"] == wanted[point]["payload"]
        vectors = values["vector"]["dense"], wanted[point]["vector"]["dense"]
        assert np.allclose(*vectors, atol=1e-5)


@pytest.mark.full
def test_a_server_is_sent_only_what_changed(files: Path, tiny: Path, server) -> None:
    """With the model that the collection remembers, too."""
    file, settings = files / "b.csv", {"workers": TWO, "device": "cpu", "dtype": "float32"}
    assert index(file, server.url, model=tiny, **settings).added == 10
    with file.open("a", encoding="utf-8") as lines:
        lines.write("\n10,a dog")
    again = index(file, server.url, **settings)
    assert (again.added, again.unchanged, again.encoded) == (1, 10, 1)
    assert len(server.written) == 11


@pytest.mark.full
def test_an_error_in_a_worker_keeps_its_class(files: Path, tmp_path: Path) -> None:
    class Failing(HashEncoder):
        def encode_passages(self, texts):
            raise ModelError("the weights are gone")

    with pytest.raises(ModelError, match="the weights are gone"):
        encode(files / "b.csv", tmp_path / "out", Failing(dim=16))


@pytest.mark.full
def test_vectors_that_cannot_be_stored_are_failures(files: Path, tmp_path: Path) -> None:
    class Zero(HashEncoder):
        def encode_passages(self, texts):
            return super().encode_passages(texts) * [[float("3" not in t)] for t in texts]

    report = encode(files / "b.csv", tmp_path / "out", Zero(dim=16))
    assert (report.added, [f.id.rpartition("#")[2] for f in report.failures]) == (9, ["5"])
