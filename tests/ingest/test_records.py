from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest

from sbert_retriever.errors import InputError, ReadError
from sbert_retriever.ingest import read_records
from sbert_retriever.types import Failure, Passage


def jsonl(folder: Path, *lines: object, name: str = "a.jsonl", encoding: str = "utf-8") -> Path:
    path = folder / name
    written = (line if isinstance(line, str) else json.dumps(line) for line in lines)
    path.write_text("\n".join(written) + "\n", encoding=encoding)
    return path


def sheet(folder: Path, text: str, encoding: str = "utf-8") -> Path:
    path = folder / "a.csv"
    path.write_bytes(text.encode(encoding))
    return path


def test_a_line_is_a_passage(tmp_path):
    path = jsonl(tmp_path, {"text": "Cats purr.", "lang": "en", "n": {"x": [1]}}, "", {"text": ""})
    source = path.as_posix()
    assert list(read_records(path)) == [
        Passage(f"{source}#1", "Cats purr.", {"lang": "en", "n": {"x": [1]}}, source),
        Passage(f"{source}#3", "", {}, source),
    ]


def test_the_source_may_be_said(tmp_path):
    """A file that is read on another machine, or from another folder, is the same source."""
    path = jsonl(tmp_path, {"text": "Cats purr."}, "no JSON")
    failures = []
    passages = list(read_records(path, source="docs/a.jsonl", on_failure=failures.append))
    assert passages == [Passage("docs/a.jsonl#1", "Cats purr.", {}, "docs/a.jsonl")]
    assert [failure.id for failure in failures] == ["docs/a.jsonl#2"]


def test_fields_are_named_by_the_caller(tmp_path):
    path = jsonl(
        tmp_path,
        {"_id": 7, "title": "Cats", "body": "They purr.", "lang": "en", "year": 0},
        {"_id": "b", "title": "", "body": "They bark.", "lang": None},
        {"_id": "c", "title": None, "body": "They swim."},
    )
    found = list(
        read_records(
            path, text_field=["title", "body"], id_field="_id", metadata_fields=["lang", "year"]
        )
    )
    assert [(p.id, p.text, p.metadata) for p in found] == [
        ("7", "Cats They purr.", {"lang": "en", "year": 0}),
        ("b", "They bark.", {"lang": None}),
        ("c", "They swim.", {}),
    ]


def test_no_metadata_fields_means_none(tmp_path):
    path = jsonl(tmp_path, {"text": "a", "lang": "en"})
    assert next(read_records(path, metadata_fields=[])).metadata == {}


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_encodings(tmp_path, encoding):
    path = jsonl(tmp_path, '{"text": "café\u2028au lait"}', '{"text": "b"}', encoding=encoding)
    assert [p.text for p in read_records(path)] == ["café\u2028au lait", "b"]


def test_records_that_are_not_utf8_are_noted(tmp_path, notes):
    path = jsonl(tmp_path, '{"text": "café “x”"}', encoding="cp1252")
    assert [p.text for p in read_records(path, on_note=notes.append)] == ["café “x”"]
    assert "Windows-1252" in notes[0]


BAD = [
    ('{"text": "a",}', "not JSON at column"),
    ("[1]", "list, expected an object"),
    ('{"body": "x"}', "'text' is missing"),
    ('{"text": null}', "'text' is null"),
    ('{"text": 5}', "'text' is int, expected str"),
    ('{"text": "\\ud800"}', "surrogate"),
    ('{"text": "a", "k": ' + "[" * 100_000 + "]" * 100_000 + "}", "cannot be read|nested"),
    ('{"text": "a", "k": ' + "9" * 5000 + "}", "cannot be read"),
]


@pytest.mark.parametrize(("line", "reason"), BAD)
def test_a_bad_line_is_reported_by_its_number_and_the_rest_go_on(tmp_path, line, reason):
    path = jsonl(tmp_path, {"text": "first"}, line, {"text": "third"})
    failures: list[Failure] = []
    assert [p.text for p in read_records(path, on_failure=failures.append)] == ["first", "third"]
    assert [failure.id for failure in failures] == [f"{path.as_posix()}#2"]
    with pytest.raises(ReadError, match=f"line 2: .*({reason})"):
        list(read_records(path))


@pytest.mark.parametrize("value", [None, 1.5, True, "", ["a"]])
def test_an_id_is_text_or_a_whole_number(tmp_path, value):
    path = jsonl(tmp_path, {"text": "a", "id": value})
    with pytest.raises(ReadError, match="line 1: the id field 'id' is"):
        list(read_records(path, id_field="id"))


def test_a_field_name_that_is_wrong_is_said_once_with_the_fields_there_are(tmp_path):
    path = jsonl(tmp_path, *({"text": "a", "lang": "en"} for _ in range(3)))
    failures: list[Failure] = []
    with pytest.raises(ReadError, match="no field 'body'; the fields are 'text', 'lang'"):
        list(read_records(path, text_field="body", on_failure=failures.append))
    with pytest.raises(ReadError, match="no field '_id'"):
        list(read_records(path, id_field="_id", on_failure=failures.append))
    assert failures == []


def test_where_the_text_field_is_missing_it_is_said_how_to_name_another(tmp_path):
    """Where the id field alone is missing, the text field is not to blame."""
    way_out = r"'name'; name those of the text with text_field \(in a shell, --text-field A,B\)$"
    with pytest.raises(ReadError, match=f"holds 'sku', {way_out}"):
        list(read_records(sheet(tmp_path, "sku,name\n1,chair\n")))
    with pytest.raises(ReadError, match=f"the fields are 'sku', {way_out}"):
        list(read_records(jsonl(tmp_path, {"sku": 1, "name": "chair"})))
    with pytest.raises(ReadError, match=r"the fields are 'text'$"):
        list(read_records(jsonl(tmp_path, {"text": "a"}), id_field="sku"))


@pytest.mark.parametrize("text_field", ["", [], ["a", ""]])
def test_an_empty_text_field_is_refused(tmp_path, text_field):
    with pytest.raises(InputError, match="text_field"):
        list(read_records(jsonl(tmp_path, {"text": "a"}), text_field=text_field))


def test_a_stream_is_read_as_it_is_asked_for(tmp_path):
    """The first passages come without the rest being parsed."""
    path = jsonl(tmp_path, {"text": "a"}, {"text": "b"}, "not json")
    records = read_records(path)
    assert [p.text for p in itertools.islice(records, 2)] == ["a", "b"]
    records.close()


def test_csv_rows(tmp_path):
    path = sheet(tmp_path, '\ufefftext,lang,n\r\n"Cats,\r\npurr",en,007\r\n\r\nDogs,de,\r\n')
    source = path.as_posix()
    assert list(read_records(path)) == [
        Passage(f"{source}#2", "Cats,\r\npurr", {"lang": "en", "n": "007"}, source),
        Passage(f"{source}#5", "Dogs", {"lang": "de", "n": ""}, source),
    ]


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_the_separator_is_the_one_that_makes_the_text_a_column(tmp_path, separator):
    path = sheet(tmp_path, separator.join(("id", "body")) + "\n" + separator.join(("1", "Cats")))
    (passage,) = read_records(path, text_field="body", id_field="id")
    assert (passage.id, passage.text) == ("1", "Cats")


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("Cats purr,en\nDogs,de\n", {}, "line 1: no column 'text'; the first line must name"),
        ("text,lang\na,b\n", {"id_field": "id"}, "line 1: no column 'id'"),
        ("text,lang\na,b\n", {"metadata_fields": ["year"]}, "line 1: no column 'year'"),
        ("text,a,a\nx,1,2\n", {}, "two columns are named 'a'"),
        ('text\n"open\n', {}, "line 2: not csv"),
        ("text,lang\na,b\nc\n", {}, "line 3: 1 value, expected 2"),
        ('text,lang\n"a\nb",c\nd,e,f\n', {}, "line 4: 3 values, expected 2"),
    ],
)
def test_bad_csv_names_the_line(tmp_path, text, options, message):
    with pytest.raises(ReadError, match=message):
        list(read_records(sheet(tmp_path, text), **options))


def test_a_csv_field_may_be_long(tmp_path):
    long = "x" * 131_073  # one more than the csv module takes by default
    (passage,) = read_records(sheet(tmp_path, f"text\n{long}\n"))
    assert passage.text == long


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl"])
def test_an_empty_file_gives_nothing(tmp_path, name):
    (tmp_path / name).touch()
    assert list(read_records(tmp_path / name)) == []


def test_binary_is_refused(tmp_path):
    (tmp_path / "a.jsonl").write_bytes(b'{"text": "a"}\n\0')
    with pytest.raises(ReadError, match="byte 14 is NUL"):
        list(read_records(tmp_path / "a.jsonl"))


KINDS = {"n": "integer", "price": "float", "new": "bool", "day": "datetime", "name": "keyword"}


def test_cells_of_declared_columns_are_read_as_what_they_are(tmp_path):
    header = "text,n,price,new,day,name,other\n"
    rows = "a,7, 12.5 ,Yes,2024-05-01,1,7\nb,-3,1e3,false,2024-05-01T12:30:00Z,,\nc,,,, ,x,y\n"
    found = list(read_records(sheet(tmp_path, header + rows), kinds=KINDS))
    day, time = "2024-05-01", "2024-05-01T12:30:00+00:00"
    assert [p.metadata for p in found] == [
        {"n": 7, "price": 12.5, "new": True, "day": day, "name": "1", "other": "7"},
        {"n": -3, "price": 1000.0, "new": False, "day": time, "name": "", "other": ""},
        {"n": None, "price": None, "new": None, "day": None, "name": "x", "other": "y"},
    ]


@pytest.mark.parametrize(
    ("field", "cell"),
    [
        *(("n", cell) for cell in ("7.0", "1_000", "x", "9223372036854775808", "9" * 5000)),
        *(("price", cell) for cell in ("1.299,00", "nan", "inf", "1e999", "1_0", "12 EUR")),
        *(("new", cell) for cell in ("maybe", "2")),
        *(("day", cell) for cell in ("yesterday", "01.05.2024", "2024-13-01")),
    ],
)
def test_a_cell_of_another_kind_fails_its_row_alone(tmp_path, field, cell):
    path = sheet(tmp_path, f'text;{field}\na;"{cell}"\nb;\n')
    failures: list[Failure] = []
    found = list(read_records(path, kinds=KINDS, on_failure=failures.append))
    assert [p.text for p in found] == ["b"]
    (failure,) = failures
    assert failure.id == f"{path.as_posix()}#2"
    said = f"line 2: the field '{field}' was declared filterable as {KINDS[field]}, and holds"
    assert said in failure.reason
    assert "expected" in failure.reason


def test_text_ids_and_json_stay_what_they_are_whatever_was_declared(tmp_path):
    path = sheet(tmp_path, "n,price\n07,12.50\n")
    (found,) = read_records(path, text_field="price", id_field="n", kinds=KINDS)
    assert (found.id, found.text, found.metadata) == ("07", "12.50", {})
    (found,) = read_records(jsonl(tmp_path, {"text": "a", "n": "7"}), kinds=KINDS)
    assert found.metadata == {"n": "7"}
