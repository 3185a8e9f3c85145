"""Scores kept from run to run."""

import json
from pathlib import Path

import numpy as np
import pytest

from sbert_retriever.errors import InputError
from sbert_retriever.tradeoff.measure import measure_tradeoff
from sbert_retriever.tradeoff.pair_file import PairFile
from sbert_retriever.tradeoff.points import Grid
from sbert_retriever.tradeoff.second_stage import RememberedScorer

PAIRS = [("cats", "cats purr"), ("cats", "dogs bark"), ("a\0b", "c"), ("a", "b\0c")]


class OtherScorer:
    def score(self, pairs):
        return np.zeros(len(list(pairs)), dtype=np.float32)


def test_scores_come_again_to_the_last_bit(tmp_path, scorer):
    path = tmp_path / "made" / "pairs.jsonl"
    scores = {pair: float(np.float32(0.1) * n) for n, pair in enumerate(PAIRS)}
    PairFile(path, scorer).keep(scores, None)
    again = PairFile(path, scorer)
    assert again.recall(PAIRS, None) == scores
    assert again.recall(PAIRS, 128) == {}
    assert again.recall([("other", "pair")], None) == {}


def test_a_file_of_another_scorer_is_begun_anew(tmp_path, scorer):
    path = tmp_path / "pairs.jsonl"
    PairFile(path, scorer).keep({PAIRS[0]: 0.5}, None)
    assert PairFile(path, OtherScorer()).recall(PAIRS, None) == {}
    assert PairFile(path, scorer).recall(PAIRS, None) == {}


@pytest.mark.parametrize(
    "content",
    [b'{"_id": "q1", "text": "cats"}\n', b"q1\tcats\n", b"\xff\xfe\x00", b"[1]\n", b"7\n"],
)
def test_a_file_of_another_kind_is_left_as_it_is(tmp_path, collection, queries, scorer, content):
    path = tmp_path / "queries.jsonl"
    path.write_bytes(content)
    with pytest.raises(InputError, match="holds no scores of pairs"):
        PairFile(path, scorer)
    with pytest.raises(InputError, match="give another path"):
        measure_tradeoff(collection, queries, scorer=scorer, pair_scores=path)
    assert path.read_bytes() == content


@pytest.mark.parametrize("method", ["exists", "open"])
def test_a_file_that_may_not_be_read_is_told_of(tmp_path, scorer, monkeypatch, method):
    """It was said to hold something else, or was a PermissionError."""
    path = tmp_path / "pairs.jsonl"
    path.touch()

    def refused(path, *args, **options):
        raise PermissionError(13, "Permission denied", str(path))

    with monkeypatch.context() as patch:
        patch.setattr(Path, method, refused)
        with pytest.raises(InputError, match=r"pairs\.jsonl cannot be read \(Permission denied\)"):
            PairFile(path, scorer)


def test_an_empty_file_is_begun(tmp_path, scorer):
    path = tmp_path / "pairs.jsonl"
    path.touch()
    PairFile(path, scorer).keep({PAIRS[0]: 0.5}, None)
    assert PairFile(path, scorer).recall(PAIRS, None) == {PAIRS[0]: 0.5}


def test_a_line_that_was_left_half_written_is_passed_over(tmp_path, scorer):
    path = tmp_path / "pairs.jsonl"
    PairFile(path, scorer).keep({PAIRS[0]: 0.5}, None)
    with path.open("a", encoding="utf-8") as file:
        file.write('{"abc": 0.')
    again = PairFile(path, scorer)
    again.keep({PAIRS[1]: 0.25}, None)
    whole = PairFile(path, scorer).recall(PAIRS, None)
    assert whole == {PAIRS[0]: 0.5, PAIRS[1]: 0.25}
    header = json.loads(path.read_text(encoding="utf-8").split("\n")[0])
    assert header == {"scorer": "SharedWords"}


def test_what_is_known_is_not_scored_again(tmp_path, scorer):
    path = tmp_path / "pairs.jsonl"
    first = RememberedScorer(scorer, path)
    scores = first.score(PAIRS[:3])
    scorer.pairs.clear()
    second = RememberedScorer(scorer, path)
    assert (second.score(PAIRS)[:3] == scores).all()
    assert scorer.pairs == [PAIRS[3]]


def test_a_second_measurement_scores_only_what_it_times(tmp_path, collection, queries, scorer):
    grid = Grid(depths=(2, 4), early_stops=(), profiles=(), everything=False, dimensions=())
    options = {"scorer": scorer, "grid": grid, "k": 3, "timed_queries": 1}
    path = tmp_path / "pairs.jsonl"
    first = measure_tradeoff(collection, queries, pair_scores=path, **options)
    before = len(scorer.pairs)
    second = measure_tradeoff(collection, queries, pair_scores=path, **options)
    assert len(scorer.pairs) - before == 2 * (2 + 4)
    assert second.answers == first.answers
