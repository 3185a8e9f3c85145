"""The most similar pair, both ways, and the sentences to measure it on."""

import json

import numpy as np
import pytest

from sbert_retriever.errors import InputError, ReadError
from sbert_retriever.testing import HashEncoder
from sbert_retriever.tradeoff.efficiency import _pair_number, _sampled, paper_efficiency
from sbert_retriever.tradeoff.sentences import (
    python_sentences,
    read_sentences,
    unique_sentences,
)

SIMILAR = "dogs run and bark with the people in a park"


def test_report(texts, scorer):
    report = paper_efficiency([*texts.values(), SIMILAR], HashEncoder(dim=64), scorer, sample=10)
    assert (report.sentences, report.pairs, report.sampled_pairs) == (7, 21, 10)
    assert set(report.best[:2]) == {texts["dogs"], SIMILAR}
    # The warm-up and the sample itself.
    assert len(scorer.pairs) == 20
    assert report.cross_encoder_s == pytest.approx(report.sampled_s / 10 * 21)
    low, high = report.cross_encoder_range_s
    assert low <= report.cross_encoder_s <= high
    assert report.ratio == pytest.approx(report.cross_encoder_s / report.bi_encoder_s)
    table = report.table()
    assert "about 65 h" in table
    assert "extrapolated" in table
    assert texts["dogs"] in table
    whole = json.loads(report.to_json())
    assert whole["paper"]["cross_encoder_s"] == 65 * 3600
    assert whole["extrapolated"] == ["cross_encoder_s"]


def test_the_pair_found_is_that_of_float64(minilm, scorer):
    sentences = python_sentences(60)
    report = paper_efficiency(sentences, minilm, scorer, sample=5)
    rows = minilm.encode_passages(sentences).astype(np.float64)
    scores = np.triu(rows @ rows.T, k=1)
    i, j = np.unravel_index(scores.argmax(), scores.shape)
    assert report.best[:2] == (sentences[i], sentences[j])
    assert report.best[2] == pytest.approx(scores.max(), abs=1e-12)


def test_pairs_are_numbered_without_gaps_up_to_a_million_sentences():
    n = 40
    numbered = [_pair_number(number) for number in range(n * (n - 1) // 2)]
    assert sorted(numbered) == [(i, j) for i in range(n) for j in range(i + 1, n)]
    last = 1_000_000 * 999_999 // 2 - 1
    assert _pair_number(last) == (999_998, 999_999)
    assert _pair_number(last - 999_998) == (0, 999_999)
    assert _pair_number(last - 999_999) == (999_997, 999_998)


def test_the_sample_is_of_different_pairs_and_seeded():
    texts = [str(n) for n in range(30)]
    pairs = _sampled(texts, 100, 0)
    assert len(set(pairs)) == 100
    assert all(one != other for one, other in pairs)
    assert _sampled(texts, 100, 0) == pairs
    assert len(_sampled(texts, 10_000, 0)) == 435


@pytest.mark.parametrize("wrong", [[], ["one"], ["one", "one", "two"]])
def test_sentences_must_be_different(wrong, scorer):
    with pytest.raises(InputError, match="all different"):
        paper_efficiency(wrong, HashEncoder(), scorer)
    with pytest.raises(InputError, match="sample is 0"):
        paper_efficiency(["a", "b"], HashEncoder(), scorer, sample=0)


def test_sentences_of_python_s_documentation():
    found = python_sentences(10_000)
    assert len({s.casefold() for s in found}) == 10_000
    assert all(5 <= len(s.split()) <= 60 for s in found)
    assert all(s == " ".join(s.split()) and s[-1] in ".?!" for s in found)
    assert python_sentences(50) == found[:50]
    with pytest.raises(InputError, match="give a file with one a line"):
        python_sentences(10_000_000)


def test_sentences_of_a_file_are_made_unique(tmp_path):
    path = tmp_path / "s.txt"
    path.write_bytes("\ufeffA cat.\r\n\r\na  CAT.\nA dog\u2028runs.\n".encode())
    assert read_sentences(path) == ["A cat.", "A dog runs."]
    with pytest.raises(ReadError, match="cannot be read"):
        read_sentences(tmp_path / "absent.txt")
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ReadError, match="not UTF-8"):
        read_sentences(path)
    assert list(unique_sentences([])) == []
