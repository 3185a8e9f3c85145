"""Test collections from files, and what is said of lines that do not fit."""

import json

import pytest

from sbert_retriever import Passage
from sbert_retriever.errors import ReadError
from sbert_retriever.evaluation.read_ranking import (
    read_beir,
    read_corpus,
    read_qrels,
    read_queries,
    read_run,
    write_run,
)


def file(tmp_path, name, text):
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode("utf-8"))
    return path


def jsonl(*records):
    return "".join(json.dumps(record) + "\n" for record in records)


@pytest.fixture
def beir(tmp_path):
    corpus = jsonl(
        {"_id": "p1", "title": "Cats", "text": "They purr.", "metadata": {"lang": "en"}},
        {"_id": "p2", "text": "Dogs bark."},
    )
    file(tmp_path, "corpus.jsonl", corpus)
    queries = jsonl({"_id": "q1", "text": "who purrs"}, {"_id": "q2", "text": "not judged"})
    file(tmp_path, "queries.jsonl", queries)
    file(tmp_path, "qrels/test.tsv", "query-id\tcorpus-id\tscore\nq1\tp1\t2\nq1\tp2\t0\n")
    return tmp_path


def test_a_beir_folder(beir):
    read = read_beir(beir)
    assert list(read_corpus(read.corpus)) == [
        Passage("p1", "Cats They purr.", {"lang": "en"}),
        Passage("p2", "Dogs bark."),
    ]
    assert read.queries == {"q1": "who purrs", "q2": "not judged"}
    assert read.qrels == {"q1": {"p1": 2, "p2": 0}}
    assert read.judged == {"q1": "who purrs"}
    assert read_qrels(beir) == read.qrels
    assert read_queries(beir) == read.queries


def test_a_passage_may_be_a_title_alone(tmp_path):
    """Many articles of TREC-COVID have no abstract."""
    path = file(tmp_path, "corpus.jsonl", jsonl({"_id": "p1", "title": "Cats", "text": ""}))
    assert list(read_corpus(path)) == [Passage("p1", "Cats")]
    path = file(tmp_path, "corpus.jsonl", jsonl({"_id": "p1", "title": " ", "text": ""}))
    with pytest.raises(ReadError, match=r"corpus\.jsonl, line 1: no 'text' that holds text"):
        list(read_corpus(path))


def test_a_split_that_is_not_there_names_those_that_are(beir):
    with pytest.raises(ReadError, match=r"qrels/dev\.tsv; there are: test"):
        read_beir(beir, split="dev")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("header.tsv", "query-id\tcorpus-id\tscore\nq 1\td 1\t1\nq2\td2\t0\n"),
        ("other-header.tsv", "Query_ID\tDocument\tusefulness\nq 1\td 1\t1\nq2\td2\t0\n"),
        ("bare.tsv", "q 1\td 1\t1\r\nq2\td2\t0\r\n"),
        ("bom.tsv", "\ufeffq 1\td 1\t1.0\n\nq2\td2\t0\n"),
        (
            "lines.jsonl",
            jsonl(
                {"query_id": "q 1", "passage_id": "d 1", "score": 1},
                {"query-id": "q2", "corpus-id": "d2", "score": "0"},
            ),
        ),
    ],
)
def test_judgements_in_every_shape(tmp_path, name, text):
    assert read_qrels(file(tmp_path, name, text)) == {"q 1": {"d 1": 1}, "q2": {"d2": 0}}


def test_trec_judgements_may_be_below_0(tmp_path):
    assert read_qrels(file(tmp_path, "qrels.txt", "1 0 d1 3\n1 0 d2 -2\n")) == {
        "1": {"d1": 3, "d2": -2}
    }


def test_ids_may_hold_line_separators_of_other_alphabets(tmp_path):
    """Only a newline ends a line: an id with U+2028 or U+0085 in it stays whole."""
    path = file(tmp_path, "qrels.tsv", "q\u2028a\td\u0085b\t1\n")
    assert read_qrels(path) == {"q\u2028a": {"d\u0085b": 1}}


def test_queries_of_two_columns_and_with_numbers_as_ids(tmp_path):
    assert read_queries(file(tmp_path, "q.tsv", "1\twhat is it\n2\twhy\n")) == {
        "1": "what is it",
        "2": "why",
    }
    assert read_queries(file(tmp_path, "q.jsonl", jsonl({"id": 7, "query": "x"}))) == {"7": "x"}


def test_a_run_is_read_and_written(tmp_path):
    path = file(tmp_path, "run.txt", "1 Q0 d1 1 0.9 tag\n1 Q0 d2 2 -3e-1 tag\n2 Q0 d1 1 5 tag\n")
    assert read_run(path) == {"1": {"d1": 0.9, "d2": -0.3}, "2": {"d1": 5.0}}
    write_run(tmp_path / "out.txt", {"1": ["b", "a"]})
    assert read_run(tmp_path / "out.txt") == {"1": {"b": 2.0, "a": 1.0}}
    with pytest.raises(ReadError, match="two words"):
        write_run(tmp_path / "out.txt", {"q 1": ["a"]})


@pytest.mark.parametrize(
    ("read", "name", "text", "said"),
    [
        (read_qrels, "a.tsv", "q\td\t1\nq\td2\n", "a.tsv, line 2: 2 fields, expected 3"),
        (read_qrels, "a.tsv", "q\td\t1\nq\td2\tx\n", "line 2: the grade is 'x'"),
        (read_qrels, "a.tsv", "q\td\t1\nq\td2\t1.5\n", "line 2: the grade is '1.5'"),
        (read_qrels, "a.tsv", "q1\td1\tO\nq\td2\t1\n", "line 1: the grade is 'O'"),
        (read_qrels, "a.tsv", "q1\td1\t\nq\td2\t1\n", "line 1: the grade is ''"),
        (read_qrels, "a.tsv", "query\td1\t1x\nq\td2\t1\n", "line 1: the grade is '1x'"),
        (read_qrels, "a.txt", "q 0 d score\nq 0 d2 1\n", "line 1: the grade is 'score'"),
        (read_qrels, "a.tsv", "q\td\t1\nq\td2\tnan\n", "line 2: the grade is 'nan'"),
        (read_qrels, "a.tsv", "q\td\t1\nq\td\t2\n", "line 2: .* has grade 2, and 1 before"),
        (read_qrels, "a.txt", "a b c d e\n", "line 1: 5 fields"),
        (read_qrels, "a.tsv", "", "holds no judgement"),
        (read_qrels, "a.jsonl", '{"query_id": "q"}\n', "line 1: no 'passage_id'"),
        (read_queries, "a.jsonl", '{"_id": "1", "text": "x"}\nnot json\n', "line 2: not JSON"),
        (read_queries, "a.jsonl", "[1]\n", "line 1: list, expected an object"),
        (read_queries, "a.jsonl", '{"_id": "1", "text": " "}\n', "line 1: no 'text'"),
        (read_queries, "a.tsv", "1\tx\n1\ty\n", "line 2: query '1' is there twice"),
        (read_queries, "a.tsv", "no tab\n", "line 1: expected an id, a tab"),
        (read_queries, "a.tsv", "", "holds no query"),
        (read_run, "a.txt", "1 Q0 d1 1 0.9 t\n1 Q0 d1 2 0.8 t\n", "line 2: .* twice"),
        (read_run, "a.txt", "1 Q0 d1 1 inf t\n", "line 1: the score is 'inf'"),
        (read_run, "a.txt", "1 d1 0.5\n", "line 1: 3 fields"),
    ],
)
def test_what_does_not_fit_is_named_by_file_and_line(tmp_path, read, name, text, said):
    with pytest.raises(ReadError, match=said):
        read(file(tmp_path, name, text))


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(ReadError, match="cannot be read"):
        read_queries(tmp_path / "absent.jsonl")
    (tmp_path / "latin.tsv").write_bytes(b"1\tcaf\xe9\n")
    with pytest.raises(ReadError, match="not UTF-8"):
        read_queries(tmp_path / "latin.tsv")


@pytest.mark.data
def test_a_real_set_without_a_folder_for_its_judgements(data_dir):
    read = read_beir(data_dir / "beir-small-msmarco")
    assert len(read.judged) == 43
    assert {g for judged in read.qrels.values() for g in judged.values()} <= {0, 1, 2, 3}
    assert sum(1 for _ in read_corpus(read.corpus)) == 5000
