"""What travels between processes, and what workers make of it, without Ray."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet
from sbert_ray import import_parquet
from sbert_ray._answers import Tally
from sbert_ray._models import Model
from sbert_ray._shards import KnownKeys, Manifest, ShardFolder, latest, next_run, shard_name
from sbert_ray._sources import Reading, _passage, _read
from sbert_ray._upserting import Indexer
from sbert_ray._windows import Window, key_of, windows
from sbert_ray._writing import ShardWriter

from sbert_retriever import Passage, Retriever
from sbert_retriever.errors import (
    AbsentError,
    GivenUpError,
    InputError,
    MissingExtraError,
    ReadError,
    SbertError,
)
from sbert_retriever.index.contract import Contract
from sbert_retriever.index.points import Layout, draft
from sbert_retriever.ingest.record_fields import Fields
from sbert_retriever.testing import HashEncoder
from sbert_retriever.types import Failure

PASSAGES = [
    Passage("a", "Cats purr.", {"tags": ["x", None], "deep": {"0.1": 0.1 + 0.2}}, "here"),
    Passage("b", "Hunde bellen: wau \N{DOG FACE}.", {}),
]


class Counting(HashEncoder):
    """Counts the texts that it encodes, over all that are unpickled."""

    texts = 0

    def encode_passages(self, texts):
        Counting.texts += len(list(texts))
        return super().encode_passages(texts)


def test_cells_of_a_csv_are_read_as_the_kinds_that_are_declared(tmp_path: Path) -> None:
    """As `Retriever.index_files` reads them: text would replace the numbers that it wrote."""
    file = tmp_path / "stock.csv"
    file.write_text("text,price\nBell,9.5\nLock,cheap\n", encoding="utf-8")
    failures: list[Failure] = []
    how = Reading(fields=Fields.of("text", None, None), size=8, known=[], kinds={"price": "float"})
    passages = list(_read(str(file), "stock.csv", how, failures))
    assert [(p.text, p.metadata) for p in passages] == [("Bell", {"price": 9.5})]
    assert ["price" in failure.reason for failure in failures] == [True]


def writer(folder: Path, run: int = 1) -> ShardWriter:
    encoder = Counting(dim=16)
    model = Model.of(encoder, device="cpu", dtype="float32", truncate_dim=None)
    contract = Contract(model=encoder.identity)
    place = ShardFolder(folder)
    place.write_manifest(Manifest(contract=contract, finished=True))
    return ShardWriter(place=place.place, run=run, model=model, contract=contract)


def write(passages, folder: Path, run: int = 1):
    tally = Tally()
    for window in windows(passages, size=10, failures=[]):
        for answer in writer(folder, run)({"window": [window.to_bytes()]})["answer"]:
            tally.add(answer)
    return tally.report()


def key(passage: Passage) -> bytes:
    return key_of(draft(passage, Layout()))


def test_a_window_comes_back_as_it_was() -> None:
    failures = (Failure("c", "why"),)
    window = Window(passages=tuple(PASSAGES), failures=failures, unchanged=3, error=("E", "m"))
    assert Window.from_bytes(window.to_bytes()) == window


def test_windows_say_what_became_of_the_rest() -> None:
    """Known passages are counted, those that cannot be stored fail, what a reader noted comes."""
    noted = [Failure("line 1", "no JSON")]
    bad = Passage("bad", "text", {"n": float("nan")})
    given = [PASSAGES[0], bad, *PASSAGES[1:], *(Passage(f"p{n}", "x") for n in range(3))]
    made = list(windows(given, size=2, failures=noted, known={key(PASSAGES[0])}))
    assert [[p.id for p in w.passages] for w in made] == [["b", "p0"], ["p1", "p2"]]
    assert [w.unchanged for w in made] == [1, 0]
    assert [f.id for f in made[0].failures] == ["line 1", "bad"]
    assert noted == []


def test_a_reader_s_last_failure_is_not_lost() -> None:
    failures: list[Failure] = []

    def read() -> Iterator[Passage]:
        yield PASSAGES[0]
        failures.append(Failure("end", "broken off"))

    made = list(windows(read(), size=1, failures=failures))
    assert [len(w.passages) for w in made] == [1, 0]
    assert made[1].failures[0].id == "end"


@pytest.mark.parametrize("change", [{"text": "other"}, {"metadata": {}}, {"source": None}])
def test_a_key_is_of_the_id_and_of_all_content(change) -> None:
    first = PASSAGES[0]
    kept = {"text": first.text, "metadata": first.metadata, "source": first.source}
    changed = Passage(first.id, **(kept | change))
    assert key(changed)[:16] == key(first)[:16]
    assert key(changed)[16:] != key(first)[16:]


def test_of_rows_with_one_id_the_last_counts() -> None:
    def row(name: str, content: str) -> bytes:
        return name.encode().ljust(16, b"\0") + content.encode().ljust(16, b"\0")

    first = np.array([row("a", "1"), row("b", "1")], dtype="S32")
    second = np.array([row("a", "2"), row("c", "1"), row("c", "1")], dtype="S32")
    assert latest([first, second]).tolist() == [False, True, True, False, True]
    assert latest([]).tolist() == []
    known = KnownKeys(np.concatenate([first, second]))
    # Zero bytes at the end belong to a key.
    assert row("a", "2") in known
    assert row("a", "3") not in known
    assert row("z", "9") not in known


def test_a_window_that_is_done_again_is_the_same_file(tmp_path: Path, monkeypatch) -> None:
    """A worker that died after writing was not heard of: its shard is taken as it is."""
    monkeypatch.setattr(Counting, "texts", 0)
    assert (write(PASSAGES, tmp_path).added, Counting.texts) == (2, 2)
    (shard,) = tmp_path.glob("*.parquet")
    before = shard.stat().st_mtime_ns
    again = write(PASSAGES, tmp_path)
    assert (again.added, again.encoded, Counting.texts) == (2, 0, 2)
    assert [path.stat().st_mtime_ns for path in tmp_path.glob("*.parquet")] == [before]


def test_what_a_shard_that_is_done_again_left_out_is_still_a_failure(
    tmp_path: Path, monkeypatch
) -> None:
    def encode(_, texts):
        return np.array([[float(text == "good")] * 16 for text in texts], dtype=np.float32)

    monkeypatch.setattr(Counting, "encode_passages", encode)
    passages = [Passage("a", "good"), Passage("b", "zero")]
    for _ in range(2):
        report = write(passages, tmp_path)
        assert (report.added, [failure.id for failure in report.failures]) == (1, ["b"])
        assert "zero" in report.failures[0].reason


@pytest.mark.parametrize("metadata", ["[]", "0", "false", "{}", None])
def test_metadata_of_a_dataset_s_row_are_a_mapping_or_none(metadata: str | None) -> None:
    """What is none of these was taken for no metadata, and the row went in."""
    failures: list[Failure] = []
    row = {"id": "a", "text": "b", "metadata": metadata}
    found = list(_passage(row, failures))
    if metadata in ("{}", None):
        assert (found, failures) == ([Passage("a", "b", {})], [])
    else:
        assert (found, [failure.id for failure in failures]) == ([], ["a"])
        assert "expected Mapping" in failures[0].reason


def test_runs_are_numbered_and_parts_of_killed_ones_removed(tmp_path: Path) -> None:
    place = ShardFolder(tmp_path)
    names = [shard_name(run, [b"k"]) for run in (9, 10)]
    for name in names:
        (tmp_path / name).touch()
    (tmp_path / ".0123.part").touch()
    place.remove_parts()
    assert place.shards() == names
    assert next_run(names) == 11
    assert next_run([]) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == names


def test_passages_come_back_whole_and_by_uri(tmp_path: Path) -> None:
    """Metadata as they were, vectors as the encoder gave them; a folder may be named by URI."""
    write(PASSAGES, tmp_path / "out")
    report = import_parquet((tmp_path / "out").as_uri(), tmp_path / "index")
    assert report.added == 2
    encoder = HashEncoder(dim=16)
    with Retriever.open(tmp_path / "index", model=Counting(dim=16)) as retriever:
        assert retriever.get(["a", "b"]) == PASSAGES
        vectors = retriever.store.connection.run(retriever.store.vectors(["a"]))
    assert np.allclose(vectors["a"], encoder.encode_passages([PASSAGES[0].text])[0], atol=1e-6)


def test_shards_that_a_run_adds_meanwhile_are_left_for_the_next_import(
    tmp_path: Path, monkeypatch
) -> None:
    """Their keys were taken for those of other shards, which then lacked rows or ended it all."""
    out = tmp_path / "out"
    for number in range(6):
        write([Passage(f"p{number}", f"text {number}")], out)
    listed = ShardFolder.shards

    def listed_as_more_come(self: ShardFolder) -> list[str]:
        names = listed(self)
        if len(names) == 6:
            for number in range(6, 12):
                write([Passage(f"p{number}", "a"), Passage(f"q{number}", "b")], out)
        return names

    monkeypatch.setattr(ShardFolder, "shards", listed_as_more_come)
    report = import_parquet(out, tmp_path / "index", partial=True)
    assert (report.added, report.failed) == (6, 0)
    monkeypatch.undo()
    assert import_parquet(out, tmp_path / "index").added == 12


def test_a_damaged_shard_is_named_and_the_others_come_in(tmp_path: Path) -> None:
    """One that was cut ended the import before anything was written."""
    write(PASSAGES, tmp_path / "out")
    write([Passage("c", "more")], tmp_path / "out", run=2)
    first, second = sorted((tmp_path / "out").glob("*.parquet"))
    second.write_bytes(first.read_bytes()[:100])
    report = import_parquet(tmp_path / "out", tmp_path / "index")
    assert (report.added, report.failed) == (2, 1)
    assert report.failures[0].id == second.name
    assert "delete it, and encode again" in report.failures[0].reason


def test_what_a_damaged_shard_replaced_is_said_to_be_as_it_was_before(tmp_path: Path) -> None:
    """A collection that had the later text gets the earlier one back: not without a word."""
    write([Passage("a", "before")], tmp_path / "out")
    write([Passage("a", "after")], tmp_path / "out", run=2)
    assert import_parquet(tmp_path / "out", tmp_path / "index").added == 1
    first, second = sorted((tmp_path / "out").glob("*.parquet"))
    second.write_bytes(first.read_bytes()[:100])
    report = import_parquet(tmp_path / "out", tmp_path / "index")
    assert (report.updated, report.failed) == (1, 1)
    assert "What it replaced came in as earlier shards have it" in report.failures[0].reason
    with Retriever.open(tmp_path / "index", model=Counting(dim=16)) as retriever:
        assert [passage.text for passage in retriever.get(["a"])] == ["before"]


@pytest.mark.parametrize(
    ("column", "value", "says"),
    [
        ("metadata", '{"cut": ', "its metadata are no JSON"),
        ("metadata", "[1, 2]", "metadata .*is list, expected Mapping"),
        ("metadata", None, "its metadata are NoneType"),
        ("id", "", "id is empty"),
        ("text", None, "text .*is NoneType"),
    ],
)
def test_a_damaged_row_is_left_out_and_named(tmp_path: Path, column, value, says: str) -> None:
    """The rows around it come in, and so do other shards."""
    write([*PASSAGES, Passage("c", "more")], tmp_path / "out")
    write([Passage("d", "another shard")], tmp_path / "out", run=2)
    first = min((tmp_path / "out").glob("*.parquet"))
    table = parquet.read_table(first)
    values = table.column(column).to_pylist()
    values[1] = value
    field = table.schema.field(column).with_nullable(True)
    place = table.schema.get_field_index(column)
    table = table.set_column(place, field, pa.array(values, field.type))
    parquet.write_table(table, first)
    report = import_parquet(tmp_path / "out", tmp_path / "index")
    assert (report.added, report.failed) == (3, 1)
    assert report.failures[0].id == f"{first.name}#2"
    assert re.match(rf"{first.name}, row 2: .*{says}", report.failures[0].reason)
    with Retriever.open(tmp_path / "index", model=Counting(dim=16)) as retriever:
        assert {p.id for p in retriever.get(["a", "c", "d"])} == {"a", "c", "d"}


@pytest.mark.parametrize(
    ("change", "says"),
    [({"format": "another"}, "upgrade"), ({"version": 9}, "upgrade"), ({"contract": 3}, "damaged")],
)
def test_a_folder_of_another_kind_is_refused(tmp_path: Path, change, says: str) -> None:
    write(PASSAGES, tmp_path)
    file = tmp_path / "_sbert_ray.json"
    values = json.loads(file.read_text(encoding="utf-8")) | change
    file.write_text(json.dumps(values), encoding="utf-8")
    with pytest.raises(ReadError, match=says):
        import_parquet(tmp_path, tmp_path / "index")


def test_an_empty_folder_has_nothing_to_import(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="encode_to_parquet"):
        import_parquet(tmp_path / "none", tmp_path / "index")


def test_a_worker_sends_a_server_what_index_sends(server) -> None:
    """The same passages twice: new at first, then neither encoded nor written."""
    encoder = HashEncoder(dim=16)
    Retriever.open(server.url, model=encoder).close()
    model = Model.of(encoder, device="cpu", dtype="float32", truncate_dim=None)
    worker = Indexer(location=server.url, model=model, settings={"collection_name": "default"})
    tally = Tally()
    for window in [
        *windows(PASSAGES, size=1, failures=[]),
        *windows(PASSAGES, size=2, failures=[]),
    ]:
        for answer in worker({"window": [window.to_bytes()]})["answer"]:
            tally.add(answer)
    report = tally.report()
    assert (report.added, report.unchanged, report.encoded) == (2, 2, 2)
    with Retriever.open(server.url, model=encoder, collection_name="alone") as alone:
        alone.index(PASSAGES)
    assert server.points["default"] == server.points["alone"]


def test_errors_come_back_as_their_own_class() -> None:
    missing = MissingExtraError("onnx", extra="offline", purpose="read it")
    for error in (ReadError("why"), GivenUpError("why"), AbsentError("why"), missing):
        line = json.dumps({"error": [type(error).__name__, str(error)]})
        with pytest.raises(type(error)) as caught:
            Tally().add(line)
        assert str(caught.value) == str(error)
    with pytest.raises(SbertError, match="why"):
        Tally().add(json.dumps({"error": ["FromALaterVersion", "why"]}))
