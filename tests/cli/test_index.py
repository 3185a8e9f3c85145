from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sbert_retriever import Retriever
from sbert_retriever.errors import CollectionNotFoundError, InputTypeError
from sbert_retriever.ingest.files import index_files
from sbert_retriever.testing import HashEncoder

Run = Callable[..., Any]


def test_records_keep_their_ids_texts_and_metadata(animals: Path) -> None:
    with Retriever.open(animals) as retriever:
        (passage,) = retriever.get(["b"])
    assert passage.text == "the dog was with people"
    assert passage.metadata == {"lang": "en", "year": 2021}
    assert passage.source is not None
    assert passage.source.endswith("animals.jsonl")


def test_a_second_run_encodes_nothing_and_changes_only_what_changed(
    run: Run, animals: Path, tmp_path: Path, write_jsonl: Any, records: Any
) -> None:
    again = ("index", tmp_path / "animals.jsonl", "--to", animals, "--id-field", "_id", "--json")
    report = run(*again).json
    assert (report["unchanged"], report["encoded"]) == (3, 0)

    changed = [{**records[0], "text": "the cat was on the house"}, {**records[1], "year": 1999}]
    write_jsonl(tmp_path / "animals.jsonl", changed)
    report = run(*again, "--prune").json
    assert (report["updated"], report["deleted"], report["encoded"]) == (2, 1, 1)


def test_a_rerun_over_records_reads_no_model_at_all(
    run: Run, animals: Path, tmp_path: Path, tiny: str
) -> None:
    Path(tiny, "model.safetensors").rename(tmp_path / "away")
    try:
        outcome = run(
            "index", tmp_path / "animals.jsonl", "--to", animals, "--id-field", "_id", "--json"
        )
    finally:
        (tmp_path / "away").rename(Path(tiny, "model.safetensors"))
    assert outcome.code == 0
    assert outcome.json["unchanged"] == 3


def test_files_folders_and_globs_go_in_and_a_bad_one_is_named(
    run: Run, tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One unreadable file must not stop the others, and the run says which and exits with 1."""
    monkeypatch.chdir(tmp_path)
    Path("docs").mkdir()
    Path("docs/a.md").write_text("# Cats\n\nthe cat was in the house\n", encoding="utf-8")
    Path("docs/b.txt").write_text("the dog was with people", encoding="utf-8")
    Path("docs/bad.txt").write_bytes(b"\x00\x01\x02binary\x00")
    Path("one.py").write_text('"""water is in the way."""\n', encoding="utf-8")

    outcome = run("index", "docs", "*.py", "--to", "loc", "--model", tiny, "--json")

    assert outcome.code == 1
    assert outcome.json["added"] == 3
    assert [failure["id"] for failure in outcome.json["failures"]] == ["docs/bad.txt"]
    assert "sbert-retriever: failed: docs/bad.txt" in outcome.err
    with Retriever.open("loc") as retriever:
        passages, _ = retriever.scroll()
    assert {passage.source for passage in passages} == {"docs/a.md", "docs/b.txt", "one.py"}


def test_prune_takes_files_that_are_gone_and_spares_all_else(
    run: Run, tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pruned folder loses the passages of deleted files; other folders and failed files don't."""
    monkeypatch.chdir(tmp_path)
    for folder in ("one", "two"):
        Path(folder).mkdir()
        for name in ("a.txt", "b.txt", "c.txt"):
            Path(folder, name).write_text(f"the {name} was in {folder}", encoding="utf-8")
    run("index", "one", "two", "--to", "loc", "--model", tiny)
    Path("one/a.txt").unlink()
    Path("one/b.txt").write_bytes(b"\x00\x00\x00")

    dry = run("index", "one", "--to", "loc", "--prune", "--dry-run", "--json")
    report = run("index", "one", "--to", "loc", "--prune", "--json")

    assert dry.json["deleted"] == report.json["deleted"] == 1
    with Retriever.open("loc") as retriever:
        sources = {passage.source for passage in retriever.scroll()[0]}
    assert sources == {"one/b.txt", "one/c.txt", "two/a.txt", "two/b.txt", "two/c.txt"}


def test_a_dry_run_of_prune_names_the_sources_that_would_lose_passages(
    run: Run, tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It said how many passages, and not whose."""
    monkeypatch.chdir(tmp_path)
    Path("docs").mkdir()
    names = [f"docs/{n:02}.txt" for n in range(12)]
    for name in (*names, "docs/stays.txt"):
        Path(name).write_text("the cat was in the house", encoding="utf-8")
    run("index", "docs", "--to", "x", "--model", tiny)
    for name in names:
        Path(name).unlink()
    outcome = run("index", "docs", "--to", "x", "--prune", "--dry-run", "--json")
    said = [line for line in outcome.err.splitlines() if "would delete from" in line]
    assert said == [
        *(f"sbert-retriever: would delete from: {name}" for name in names[:10]),
        "sbert-retriever: would delete from: 2 more (--json lists them all)",
    ]
    assert outcome.json["pruned"] == names
    outcome = run("index", "docs", "--to", "x", "--prune", "--json")
    assert (outcome.json["pruned"], outcome.json["deleted"]) == (names, 12)
    assert "would delete" not in outcome.err


def test_pruning_the_current_folder_spares_sources_that_never_were_files(
    run: Run, tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"the dog was with people")))
    run("index", "-", "--to", "loc", "--model", tiny)
    Path("a.txt").write_text("the cat was in the house", encoding="utf-8")
    report = run("index", ".", "--to", "loc", "--prune", "--json")
    assert (report.json["added"], report.json["deleted"]) == (1, 0)


def test_pruning_the_current_folder_spares_what_lies_elsewhere(
    run: Run, tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that is not mounted, or a folder beside this one, is not part of "."."""
    for folder in ("disk", "beside", "here"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a.txt").write_text(f"the cat in {folder}", encoding="utf-8")
    monkeypatch.chdir(tmp_path / "here")
    elsewhere = [str(tmp_path / "disk"), "../beside"]
    run("index", *elsewhere, ".", "--to", "../loc", "--model", tiny)
    for folder in ("disk", "beside", "here"):
        (tmp_path / folder / "a.txt").unlink()
    report = run("index", ".", "--to", "../loc", "--prune", "--json").json
    assert report["deleted"] == 1
    with Retriever.open("../loc") as retriever:
        sources = {passage.source for passage in retriever.scroll()[0]}
    assert sources == {str(tmp_path / "disk" / "a.txt"), "../beside/a.txt"}


def test_prune_spares_files_that_cannot_be_looked_at(
    run: Run, tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A path that gives an error other than "not there" has not been shown to be gone."""
    monkeypatch.chdir(tmp_path)
    Path("docs/sub").mkdir(parents=True)
    Path("docs/sub/a.txt").write_text("the cat was in the house", encoding="utf-8")
    run("index", "docs", "--to", "loc", "--model", tiny)
    Path("docs/sub/a.txt").unlink()
    Path("docs/sub").rmdir()
    Path("docs/sub").symlink_to("sub")
    assert run("index", "docs", "--to", "loc", "--prune", "--json").json["deleted"] == 0


def test_prune_spares_records_of_a_file_with_a_broken_line(
    run: Run, animals: Path, tmp_path: Path
) -> None:
    """A line that can't be read this time must not delete the passage it gave last time."""
    corpus = tmp_path / "animals.jsonl"
    lines = corpus.read_text(encoding="utf-8").splitlines()
    corpus.write_text("\n".join([lines[0], lines[1][:-3], lines[2]]), encoding="utf-8")
    outcome = run("index", corpus, "--to", animals, "--id-field", "_id", "--prune", "--json")
    assert outcome.code == 1
    assert outcome.json["deleted"] == 0
    assert "line 2" in outcome.err


def test_records_are_cut_only_when_a_size_is_given(
    run: Run, tiny: str, tmp_path: Path, write_jsonl: Any
) -> None:
    long = " ".join(["the cat was in the house."] * 20)
    corpus = write_jsonl(tmp_path / "long.jsonl", [{"id": "x", "text": long, "lang": "en"}])
    whole = run(
        "index", corpus, "--to", tmp_path / "w", "--model", tiny, "--id-field", "id", "--json"
    )
    assert whole.json["added"] == 1
    assert "1 of 1 encoded texts are longer than the model reads" in whole.err

    cut = run(
        "index", corpus, "--to", tmp_path / "c", "--model", tiny, "--chunk-tokens", "16", "--json",
        "--chunk-overlap", "0",
    )  # fmt: skip
    assert cut.json["added"] > 5
    assert cut.json["truncated"] == 0


def test_a_chunk_size_that_the_model_cannot_read_is_refused(
    run: Run, tiny: str, tmp_path: Path
) -> None:
    (tmp_path / "a.txt").write_text("the cat", encoding="utf-8")
    outcome = run(
        "index", tmp_path / "a.txt", "--to", tmp_path / "x", "--model", tiny, "--chunk-tokens", "31"
    )
    assert outcome.code == 2
    assert "at most 30" in outcome.err
    # With another model, or words, the next try would have met an empty collection of the first.
    again = run("index", tmp_path / "a.txt", "--to", tmp_path / "x", "--model", tiny, "--sparse",
                "bm25", "--json")  # fmt: skip
    assert again.json["added"] == 1
    with Retriever.open(tmp_path / "x") as retriever:
        assert retriever.info().sparse == "bm25"


def test_a_run_in_which_nothing_could_be_read_leaves_no_collection(
    run: Run, tiny: str, tmp_path: Path
) -> None:
    (tmp_path / "a.jsonl").write_text("{", encoding="utf-8")
    outcome = run("index", tmp_path / "a.jsonl", "--to", tmp_path / "x", "--model", tiny)
    assert outcome.code == 1
    info = run("info", tmp_path / "x")
    assert info.code == 1
    assert "no collection" in info.err


def test_text_and_metadata_fields_may_be_listed_or_repeated(
    run: Run, tiny: str, tmp_path: Path, write_jsonl: Any
) -> None:
    record = {"id": 7, "title": "The cat.", "body": "In the house.", "lang": "en", "n": 1}
    corpus = write_jsonl(tmp_path / "r.jsonl", [record])
    common = ("index", corpus, "--model", tiny, "--id-field", "id", "--json")
    run(*common, "--to", tmp_path / "x", "--text-field", "title,body", "--metadata-fields", "lang")
    run(
        *common, "--to", tmp_path / "y", "--text-field", "title", "--text-field", "body",
        "--metadata-fields", "",
    )  # fmt: skip
    for name, metadata in (("x", {"lang": "en"}), ("y", {})):
        with Retriever.open(tmp_path / name) as retriever:
            (passage,) = retriever.get(["7"])
        assert passage.text == "The cat. In the house."
        assert passage.metadata == metadata


def test_the_standard_input_is_a_text_or_records(
    run: Run, tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, records: Any
) -> None:
    def feed(text: str) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))

    feed("the cat was in the house")
    run("index", "-", "--to", tmp_path / "t", "--model", tiny)
    feed("".join(json.dumps(record) + "\n" for record in records))
    run("index", "-", "--to", tmp_path / "r", "--model", tiny, "--id-field", "_id")
    with Retriever.open(tmp_path / "t") as retriever:
        assert [passage.source for passage in retriever.scroll()[0]] == ["stdin"]
    with Retriever.open(tmp_path / "r") as retriever:
        assert len(retriever.get(["a", "b", "c"])) == 3


@pytest.mark.parametrize("wrong", ["missing.txt", "picture.png"])
def test_what_cannot_be_indexed_leaves_no_collection_behind(
    run: Run, tiny: str, tmp_path: Path, wrong: str
) -> None:
    (tmp_path / "picture.png").write_bytes(b"x")
    outcome = run("index", tmp_path / wrong, "--to", tmp_path / "new", "--model", tiny)
    assert outcome.code == 2
    assert wrong in outcome.err
    assert not (tmp_path / "new").exists()


def test_a_dry_run_creates_nothing(
    run: Run, tiny: str, tmp_path: Path, write_jsonl: Any, records: Any
) -> None:
    corpus = write_jsonl(tmp_path / "c.jsonl", records)
    outcome = run("index", corpus, "--to", tmp_path / "new", "--model", tiny, "--dry-run")
    assert outcome.code == 0
    assert outcome.out.startswith("dry run: 3 added")
    assert not (tmp_path / "new").exists()


def test_another_model_than_the_collections_is_refused(
    run: Run, animals: Path, tmp_path: Path, other: str
) -> None:
    outcome = run("index", tmp_path / "animals.jsonl", "--to", animals, "--model", other)
    assert outcome.code == 1
    assert "sbert-retriever rebuild" in outcome.err
    assert "Traceback" not in outcome.err


def test_fields_are_indexed_for_filtering_at_creation_and_later(
    run: Run, tiny: str, tmp_path: Path, write_jsonl: Any, records: Any
) -> None:
    corpus = write_jsonl(tmp_path / "c.jsonl", records)
    words = ("index", corpus, "--to", tmp_path / "x", "--id-field", "_id")
    assert run(*words, "--model", tiny, "--filterable", "year=integer").code == 0
    assert run(*words, "--filterable", "lang=keyword", "--filterable", "year=integer").code == 0
    with Retriever.open(tmp_path / "x") as retriever:
        assert retriever.info().filterable == {
            "_sbert.source": "keyword",
            "metadata.year": "integer",
            "metadata.lang": "keyword",
        }
    other = run(*words, "--filterable", "year=text")
    assert (other.code, "is as 'integer'" in other.err) == (2, True)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["year"], "'year' is not a field and its kind: write FIELD=KIND"),
        (["=integer"], "write FIELD=KIND"),
        (["year=number"], "'year' has the kind 'number', expected one of keyword"),
        (["year=integer", "year=text"], "'year' as 'integer' and as 'text': give one kind"),
    ],
)
def test_a_wrong_field_leaves_no_collection_behind(
    run: Run, tiny: str, tmp_path: Path, given: list[str], message: str
) -> None:
    (tmp_path / "a.txt").write_text("the cat")
    fields = [word for each in given for word in ("--filterable", each)]
    outcome = run(
        "index", tmp_path / "a.txt", "--to", tmp_path / "x", "--model", tiny, "--quiet", *fields
    )
    assert outcome.code == 2
    assert message in outcome.err
    with pytest.raises(CollectionNotFoundError):
        Retriever.open(tmp_path / "x")


def test_quiet_says_nothing_but_the_result(run: Run, animals: Path, tmp_path: Path) -> None:
    outcome = run(
        "index", tmp_path / "animals.jsonl", "--to", animals, "--id-field", "_id", "--quiet"
    )
    assert outcome.err == ""
    assert outcome.out.startswith("0 added, 0 updated, 3 unchanged")


def test_a_rerun_over_texts_needs_the_tokenizer_and_no_weights(tiny: str, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("the cat was in the house", encoding="utf-8")
    with Retriever.open(tmp_path / "x", model=tiny) as retriever:
        assert index_files(retriever, [tmp_path / "a.txt"]).added == 1
    with Retriever.open(tmp_path / "x") as retriever:
        assert index_files(retriever, [tmp_path / "a.txt"]).unchanged == 1
        encoder: Any = retriever.encoder
        assert encoder._runner._model is None


def test_an_encoder_without_a_tokenizer_indexes_records_and_refuses_texts(
    tmp_path: Path, write_jsonl: Any, records: Any
) -> None:
    corpus = write_jsonl(tmp_path / "c.jsonl", records)
    (tmp_path / "a.txt").write_text("the cat", encoding="utf-8")
    with Retriever.open(tmp_path / "x", model=HashEncoder()) as retriever:
        assert index_files(retriever, [corpus]).added == 3
        with pytest.raises(InputTypeError, match="HashEncoder has no token_offsets"):
            index_files(retriever, [tmp_path / "a.txt"])


def test_paths_are_a_list(tmp_path: Path) -> None:
    with (
        Retriever.open(tmp_path / "x", model=HashEncoder()) as retriever,
        pytest.raises(InputTypeError, match="list of paths"),
    ):
        index_files(retriever, str(tmp_path))


def _prices(answer: Any) -> dict[str, Any]:
    return {hit["id"]: hit["metadata"]["price"] for hit in answer["hits"]}


def test_prices_of_a_csv_can_be_compared_once_declared(
    run: Run, tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They were text whatever was declared, and nothing said why nothing was found."""
    monkeypatch.chdir(tmp_path)
    rows = "sku,text,price\na,the cat,499\nb,the dog,1299\nc,the house,\n"
    Path("stock.csv").write_text(rows, encoding="utf-8")
    index = ("index", "stock.csv", "--to", "x", "--id-field", "sku", "--json")
    search = ("query", "x", "the cat", "--filter", "price>=1000", "--json")
    run(*index, "--model", tiny)
    outcome = run(*search)
    assert (outcome.code, outcome.json["hits"]) == (0, [])
    said = outcome.err.splitlines()
    assert len(said) == 1
    assert "the metadata field 'price' holds text, such as '" in said[0]
    assert "--filterable price=float" in said[0]
    outcome = run("delete", "x", "--filter", "price<50")
    assert (outcome.code, outcome.out) == (0, "0 deleted\n")
    assert "'price' holds text" in outcome.err

    report = run(*index, "--filterable", "price=float").json
    assert (report["updated"], report["encoded"]) == (3, 0)
    assert _prices(run(*search).json) == {"b": 1299.0}
    # The collection remembers what was declared.
    assert run(*index).json["unchanged"] == 3
    outcome = run("delete", "x", "--filter", "price<50")
    assert (outcome.out, outcome.err) == ("0 deleted\n", "")


def test_a_value_that_is_not_there_is_no_wrong_kind(run: Run, tiny: str, tmp_path: Path) -> None:
    """FIELD=7 asks for the text too, so that nothing is wrong with it."""
    (tmp_path / "a.csv").write_text("text,year\nthe cat,1999\n", encoding="utf-8")
    run("index", tmp_path / "a.csv", "--to", tmp_path / "x", "--model", tiny)
    outcome = run("query", tmp_path / "x", "cat", "--filter", "year=7")
    assert "nothing found" in outcome.out
    assert outcome.err == ""
    assert run("query", tmp_path / "x", "cat", "--filter", "year=1999", "--json").json["hits"]


def test_deleting_by_a_field_that_no_passage_has_is_told_of(run: Run, animals: Path) -> None:
    outcome = run("delete", animals, "--filter", "langg=en")
    assert outcome.out == "0 deleted\n"
    assert "no passage has the metadata field 'langg'" in outcome.err
