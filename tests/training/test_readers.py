"""Readers of training data: what they give, and errors that name file and line."""

from __future__ import annotations

import json
import sys

import pytest

from sbert_retriever.errors import InputError, InputTypeError, MissingExtraError, ReadError
from sbert_retriever.training import TrainData
from sbert_retriever.training.readers import Example, read_examples

STS_COLUMNS = {"first": 0, "second": 1, "score": 2}


def sts(path: str, **settings) -> list[Example]:
    return read_examples(
        TrainData(kind="sts", files=(path,), header=False, columns=STS_COLUMNS, **settings)
    )


def test_scores_are_scaled_to_0_to_1(write) -> None:
    path = write("sts.csv", 'a plane,"a plane, flying",5.0\nx,y,2.5\n')
    assert sts(path) == [Example(("a plane", "a plane, flying"), 1.0), Example(("x", "y"), 0.5)]
    sick = write("sick.tsv", "x\ty\t1\n")
    assert sts(sick, score_range=(1.0, 5.0))[0].target == 0.0


def test_a_tab_separated_file_keeps_its_quotes_and_odd_line_breaks(write) -> None:
    """A published set holds a lone quotation mark and a U+0085 inside its sentences."""
    path = write("sts.tsv", 'He said "no\tto\x85him\t3\r\nx\ty\t1\r\n')
    assert sts(path)[0].texts == ('He said "no', "to\x85him")


def test_a_byte_order_mark_is_no_part_of_the_first_column(write) -> None:
    path = write("nli.tsv", "\ufeffPremise\tHypothesis\tLabel\nx\ty\tentailment\n")
    columns = {"first": "Premise", "second": "Hypothesis", "label": "Label"}
    data = TrainData(kind="nli", files=(path,), columns=columns)
    assert read_examples(data, labels=("contradiction", "entailment"))[0].target == 1


def test_a_quoted_line_break_counts_in_the_line_numbers(write) -> None:
    path = write("sts.csv", '"two\nlines",y,1\nx,y,9\n')
    with pytest.raises(ReadError, match=r"sts\.csv, line 3: the score is 9, expected 0 to 5"):
        sts(path)


def test_snli_as_published(write) -> None:
    """A pair on which annotators disagreed has the label "-" and is skipped."""
    lines = [
        {"sentence1": "a", "sentence2": "b", "gold_label": "-", "pairID": "1"},
        {"sentence1": "c", "sentence2": "d", "gold_label": "neutral", "pairID": "2"},
    ]
    path = write("snli_1.0_train.jsonl", "".join(json.dumps(x) + "\n" for x in lines))
    data = TrainData(kind="nli", files=(path,))
    labels = ("contradiction", "entailment", "neutral")
    assert read_examples(data, labels=labels) == [Example(("c", "d"), 2)]


def test_each_positive_of_a_ranking_gets_negatives_in_turn() -> None:
    row = {"query": "q", "positive": ["p1", "p2"], "negatives": ["n1", "n2", "n3"]}
    data = TrainData(kind="ranking", rows=(row,))
    assert [e.texts for e in read_examples(data, negatives=2)] == [
        ("q", "p1", "n1", "n2"),
        ("q", "p2", "n3", "n1"),
    ]
    assert read_examples(data, negatives=0)[0].texts == ("q", "p1")


def test_rows_out_of_a_generator_are_there_as_often_as_they_are_asked_for() -> None:
    """Read once for the examples and once for the hash by which a run is known again."""
    data = TrainData(kind="texts", rows=({"text": text} for text in "ab"))
    assert [read_examples(data) for _ in range(2)] == [[Example(("a",)), Example(("b",))]] * 2
    assert TrainData(kind="texts", rows={"text": "a"}).rows == ({"text": "a"},)


@pytest.mark.parametrize("row", ["a text about text", ("first", "second"), None])
def test_what_is_no_row_is_told_by_its_number(row) -> None:
    with pytest.raises(InputTypeError, match=r"row 2 is .*, expected a mapping"):
        TrainData(kind="texts", rows=({"text": "fine"}, row))


def test_other_kinds() -> None:
    triplet = {"anchor": "a", "positive": "p", "negative": "n"}
    assert read_examples(TrainData(kind="triplets", rows=(triplet,))) == [Example(("a", "p", "n"))]
    margin = {"query": "q", "positive": "p", "negative": "n", "margin": "2.5"}
    found = read_examples(TrainData(kind="margins", rows=(margin,)))
    assert found == [Example(("q", "p", "n"), (2.5,))]
    parallel = {"source": "cat", "translation": "Katze"}
    found = read_examples(TrainData(kind="parallel", rows=(parallel,)))
    assert found == [Example(("cat", "Katze"))]
    labelled = tuple({"text": t, "label": n} for t, n in (("a", "x"), ("b", 7), ("c", "X")))
    found = read_examples(TrainData(kind="labelled", rows=labelled))
    assert [e.target for e in found] == [0, 1, 0]


def test_labelled_pairs_in_json_lines_may_have_the_names_of_the_table(write) -> None:
    """Only SNLI's own names were known there, and the table's in all other kinds of files."""
    row = {"first": "a cat", "second": "an animal", "label": "entailment"}
    data = TrainData(kind="nli", files=(write("nli.jsonl", json.dumps(row) + "\n"),))
    [example] = read_examples(data, labels=["contradiction", "entailment"])
    assert (example.texts, example.target) == (("a cat", "an animal"), 1)
    named = {"first": "premise"}
    data = TrainData(kind="nli", files=data.files, columns=named)
    with pytest.raises(ReadError, match="no column 'premise' for the first"):
        read_examples(data)


def test_parquet_reads_as_jsonl_does(write, tmp_path) -> None:
    import pyarrow as arrow
    from pyarrow import parquet

    rows = [{"query": "q", "positive": ["p"], "negatives": ["n", "m"]}] * 3
    parquet.write_table(arrow.Table.from_pylist(rows), tmp_path / "r.parquet")
    lines = write("r.jsonl", "".join(json.dumps(r) + "\n" for r in rows))
    read = [
        read_examples(TrainData(kind="ranking", files=(str(path),)), negatives=2)
        for path in (tmp_path / "r.parquet", lines)
    ]
    assert read[0] == read[1] == [Example(("q", "p", "n", "m"))] * 3


def test_a_missing_pyarrow_names_the_extra(write, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    path = write("x.parquet", "PAR1")
    with pytest.raises(MissingExtraError, match=r'"\.\[train\]"'):
        read_examples(TrainData(kind="texts", files=(path,)))


BAD = [
    ("empty.csv", "", "empty.csv, line 1: the file is empty"),
    ("blank.csv", "\n\n", "no sts example in it"),
    ("score.csv", "a,b,1\nc,d,7.5\n", "score.csv, line 2: the score is 7.5, expected 0 to 5"),
    ("word.csv", "a,b,good\n", "word.csv, line 1: the score is 'good', expected a number"),
    ("none.csv", "a,b,\n", "none.csv, line 1: the score is '', expected a number"),
    ("nan.csv", "a,b,nan\n", "nan.csv, line 1: the score is 'nan', expected a number"),
    ("text.csv", "a,b,1\n ,b,1\n", "text.csv, line 2: the first is empty"),
    ("few.csv", "a,b\n", "few.csv, line 1: there is no column '2' for the score, only 0, 1"),
    ("odd.csv", "a,b,1\na,b\n", "odd.csv, line 2: 2 columns, expected 3"),
    ("open.csv", 'a,b,1\n"a,b,1\n', "open.csv, line 2: no comma-separated line"),
]


@pytest.mark.parametrize(("name", "text", "words"), BAD, ids=[name for name, _, _ in BAD])
def test_bad_data_is_named_by_file_and_line(write, name, text, words) -> None:
    with pytest.raises(ReadError) as caught:
        sts(write(name, text))
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("{", "x.jsonl, line 2: no JSON"),
        ("[1]", "x.jsonl, line 2: a JSON list, expected an object"),
        ('{"text": 5}', "x.jsonl, line 2: the text is 5, expected a text"),
        ('{"body": "x"}', "x.jsonl, line 2: there is no column 'text' for the text, only body"),
        (r'{"text": "ok \ud83d"}', "x.jsonl, line 2: the text holds half a surrogate pair at ch"),
    ],
)
def test_bad_json_lines(write, line, words) -> None:
    path = write("x.jsonl", '{"text": "fine"}\n' + line + "\n")
    with pytest.raises(ReadError) as caught:
        read_examples(TrainData(kind="texts", files=(path,)))
    assert words in str(caught.value)


def test_a_label_never_seen(write) -> None:
    path = write("nli.tsv", "first\tsecond\tlabel\na\tb\tentailment\nc\td\tmaybe\n")
    data = TrainData(kind="nli", files=(path,))
    with pytest.raises(ReadError, match=r"nli\.tsv, line 3: the label 'maybe' is not one of"):
        read_examples(data, labels=("entailment", "neutral"))


@pytest.mark.parametrize(("label", "told"), [(None, "None"), (float("nan"), "nan")])
def test_a_label_that_is_not_there_is_no_class(label, told) -> None:
    """It became a class of its own, called "none", of all texts that nobody labelled."""
    made = ({"text": "a", "label": "x"}, {"text": "b", "label": label})
    with pytest.raises(ReadError, match=f"row 2: the label is {told}, expected a name or a number"):
        read_examples(TrainData(kind="labelled", rows=made))


def test_a_number_beyond_all_floats() -> None:
    made = ({"first": "a", "second": "b", "score": 10**400},)
    with pytest.raises(ReadError, match=r"row 1: the score is 1000.*, expected a number"):
        read_examples(TrainData(kind="sts", rows=made))


def test_another_encoding_and_a_missing_file(write) -> None:
    path = write("l.tsv", "first\tsecond\nfa\xe7ade\tb\n", encoding="latin-1")
    with pytest.raises(ReadError, match=r"l\.tsv, after line .: not utf-8"):
        read_examples(TrainData(kind="pairs", files=(path,)))
    found = read_examples(TrainData(kind="pairs", files=(path,), encoding="latin-1"))
    assert found[0].texts[0] == "fa\xe7ade"
    with pytest.raises(ReadError, match=r"l\.tsv, after line 0: not utf-16 \(.*BOM"):
        read_examples(TrainData(kind="pairs", files=(path,), encoding="utf-16"))
    with pytest.raises(ReadError, match=r"gone\.tsv does not exist"):
        read_examples(TrainData(kind="pairs", files=("gone.tsv",)))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"kind": "stsb", "files": ("a.csv",)}, "kind is 'stsb', expected one of sts"),
        ({"kind": "sts"}, "either files or rows"),
        ({"kind": "sts", "files": ("a",), "columns": {"label": 1}}, "columns name 'label'"),
        ({"kind": "sts", "files": ("a.csv",), "score_range": (5.0, 0.0)}, "score_range is"),
        ({"kind": "sts", "files": ("a.csv",), "limit": 0}, "limit is 0"),
    ],
)
def test_wrong_settings(settings, words) -> None:
    with pytest.raises(InputError) as caught:
        TrainData(**settings)
    assert words in str(caught.value)


def test_an_ending_that_says_nothing(write) -> None:
    path = write("data.dat", "a\tb\n")
    with pytest.raises(InputError, match="give format"):
        read_examples(TrainData(kind="pairs", files=(path,)))
