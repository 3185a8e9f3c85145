"""The STS sets from their files, and what is said of lines that do not fit."""

import pytest

from sbert_retriever.errors import InputError, ReadError
from sbert_retriever.evaluation.sts_sets import (
    STS_TASKS,
    read_sick_labels,
    read_sts,
    read_stsb,
)

SICK = "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment\r\n"


def test_stsb_is_csv_with_quoted_fields(file, tmp_path):
    file("stsb/stsb-en-test.csv", 'a,"b, ""c""\nd",2.5\ne,f,0\n\n')
    read = read_sts(tmp_path, "stsb")
    assert (read.left, read.right, read.gold) == (("a", "e"), ('b, "c"\nd', "f"), (2.5, 0.0))
    # The folder of the set itself will do as well.
    assert read_sts(tmp_path / "stsb", "stsb") == read


def test_a_language_that_is_not_there_names_those_that_are(file, tmp_path):
    for language in ("en", "de"):
        file(f"stsb/stsb-{language}-test.csv", "a,b,1\nc,d,2\n")
    assert read_stsb(tmp_path, "test", language="de").name == "stsb-de"
    with pytest.raises(ReadError, match="languages with that split: de, en"):
        read_sts(tmp_path, "stsb", language="fr")


def test_a_pair_that_nobody_scored_is_left_out(file, tmp_path):
    file("sts12-16/2016.a.tsv", "\tnot\tscored\n1.0\tx\ty\n")
    file("sts12-16/2016.b.tsv", '4.5\t"quotes\tstay"\n3\tnext line\x85is not\tp\n')
    with pytest.raises(ReadError, match=r"2016\.a\.tsv holds 1 pair"):
        read_sts(tmp_path, "sts16")
    file("sts12-16/2016.a.tsv", "\tnot\tscored\n1.0\tx\ty\n2\tv\tw\n")
    read = read_sts(tmp_path, "sts16")
    assert read.gold == (1.0, 2.0, 4.5, 3.0)
    assert read.left == ("x", "v", '"quotes', "next line\x85is not")


def test_scores_in_a_file_of_their_own(file, tmp_path):
    file("sts12-16/2012.MSRvid.input.txt", "a\tb\nc\td\n")
    file("sts12-16/2012.MSRvid.gs.txt", "5.000\n0.5\n")
    assert read_sts(tmp_path, "sts12").gold == (5.0, 0.5)
    file("sts12-16/2012.MSRvid.gs.txt", "5.000\n")
    with pytest.raises(ReadError, match=r"has 1 line with 1 score, and .* 2 pairs"):
        read_sts(tmp_path, "sts12")
    file("sts12-16/2012.MSRvid.gs.txt", "5.000\n1\n2\n")
    with pytest.raises(ReadError, match=r"has 3 lines with 3 scores, and .* 2 pairs"):
        read_sts(tmp_path, "sts12")


def test_an_empty_line_among_the_scores_is_a_pair_that_nobody_scored(file, tmp_path):
    """As STS15 and STS16 were published; the count of lines and of scores was compared."""
    file("sts12-16/2015.forums.input.txt", "a\tb\nc\td\ne\tf\n")
    file("sts12-16/2015.forums.gs.txt", "5.000\n\n0.5\n")
    read = read_sts(tmp_path, "sts15")
    assert (read.left, read.gold) == (("a", "e"), (5.0, 0.5))


def test_sick_has_scores_and_labels(file, tmp_path):
    file("sick/SICK_test_annotated.txt", SICK + "6\ta\tb\t3.3\tNEUTRAL\r\n7\tc\td\t1\tENTAILMENT\n")
    assert read_sts(tmp_path, "sick").gold == (3.3, 1.0)
    assert read_sick_labels(tmp_path, "test").labels == ("neutral", "entailment")


@pytest.mark.parametrize(
    ("name", "text", "task", "said"),
    [
        ("stsb/stsb-en-test.csv", "a,b,1\nc,d\n", "stsb", r"line 2: 2 fields .* expected 3"),
        ("stsb/stsb-en-test.csv", "a,b,1\nc,d,5.5\n", "stsb", "line 2: the score is 5.5, expected"),
        ("stsb/stsb-en-test.csv", "a,b,1\nc,d,nan\n", "stsb", "line 2: the score is 'nan'"),
        ("stsb/stsb-en-test.csv", "a,b,1\n\n\nc,d,7\n", "stsb", "line 4: the score is 7, expect"),
        ("stsb/stsb-en-test.csv", 'a,b,1\n"c,d,1\n', "stsb", "line 2: unexpected end of data"),
        ("stsb/stsb-en-test.csv", "", "stsb", "holds 0 pairs"),
        ("stsb/stsb-en-test.csv", b"a,b,1\n\xff,b,2\n", "stsb", "line 2: not UTF-8"),
        ("sts12-16/2013.x.tsv", "1\ta\tb\nz\ta\tb\n", "sts13", "line 2: the score is 'z'"),
        ("sts12-16/2013.x.tsv", "1\ta\n", "sts13", "line 1: 2 fields parted by tabs, expected 3"),
        ("sick/SICK_test_annotated.txt", "", "sick", "is empty"),
        (
            "sick/SICK_test_annotated.txt",
            SICK + "1\ta\tb\t0\tX\n",
            "sick",
            "line 2: the score is 0",
        ),
        ("sick/SICK_test_annotated.txt", SICK + "1\ta\n", "sick", "line 2: 2 fields, expected 5"),
        (
            "sick/SICK_test_annotated.txt",
            "sentence_A\tx\n",
            "sick",
            "line 1: no column 'sentence_B'",
        ),
    ],
)
def test_what_does_not_fit_is_refused_with_file_and_line(file, tmp_path, name, text, task, said):
    file(name, text)
    with pytest.raises(ReadError, match=said) as raised:
        read_sts(tmp_path, task)
    assert name.rpartition("/")[2] in str(raised.value)


def test_a_folder_without_the_set_is_refused(tmp_path):
    with pytest.raises(ReadError, match=r"has no stsb-\*\.csv"):
        read_sts(tmp_path, "stsb")
    with pytest.raises(InputError, match="no STS set 'sts17'"):
        read_sts(tmp_path, "sts17")


@pytest.mark.data
def test_the_published_sets_have_the_pairs_that_everyone_counts(data_dir):
    """SentEval's counts: STS13 without SMT, STS16 without what nobody scored."""
    counts = {task: len(read_sts(data_dir, task)) for task in STS_TASKS}
    assert counts == {
        "sts12": 3108,
        "sts13": 1500,
        "sts14": 3750,
        "sts15": 3000,
        "sts16": 1186,
        "stsb": 1379,
        "sick": 4927,
    }
    assert len(read_sts(data_dir, "stsb", language="fr")) == 1379
