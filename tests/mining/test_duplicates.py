"""Duplicates of a collection: by hand, on every engine, and on real sentences."""

from __future__ import annotations

import csv
import math

import numpy as np
import pytest

from sbert_retriever import Passage, Retriever
from sbert_retriever.errors import InputError, InputTypeError, UnknownFieldWarning
from sbert_retriever.mining import find_clusters, find_duplicates
from sbert_retriever.testing import HashEncoder

WAYS = pytest.mark.parametrize("exact", [True, False])


def named(found):
    return [(pair.first.id, pair.second.id) for pair in found.pairs]


def unit(n, dim, seed=0):
    rows = np.random.default_rng(seed).standard_normal((n, dim))
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


@WAYS
def test_angles_by_hand(engine, fill, circle, exact) -> None:
    """0, 10, 40, 100 and 110 degrees: only neighbours 10 degrees apart have a cosine of 0.9."""
    retriever = fill(engine.open(model=HashEncoder(dim=2)), circle(0, 10, 41, 100, 110))
    found = find_duplicates(retriever, 0.9, exact=exact)
    assert sorted(named(found)) == [("p000", "p001"), ("p003", "p004")]
    assert [pair.score for pair in found.pairs] == pytest.approx(
        [math.cos(math.radians(10))] * 2, abs=1e-6
    )
    assert found.pairs[0].first.text.startswith("text of p00")
    assert found.groups == [("p000", "p001"), ("p003", "p004")]
    assert (found.found, found.passages, found.left_out, found.crowded) == (2, 5, 0, 0)
    assert found.exact is exact


@WAYS
def test_a_chain_is_one_group_though_its_ends_are_no_pair(fill, circle, exact) -> None:
    with Retriever.open(":memory:", model=HashEncoder(dim=2)) as retriever:
        fill(retriever, circle(0, 20, 40, 60, 120, 140))
        found = find_duplicates(retriever, math.cos(math.radians(21)), exact=exact)
    assert found.found == 4
    assert found.groups == [("p000", "p001", "p002", "p003"), ("p004", "p005")]


@WAYS
def test_a_filter_holds_for_both_passages(engine, fill, circle, exact) -> None:
    retriever = fill(engine.open(model=HashEncoder(dim=2)), circle(0, 1, 2, 3))
    found = find_duplicates(retriever, 0.9, filter={"even": True}, exact=exact)
    assert named(found) == [("p000", "p002")]
    assert found.passages == 2
    with pytest.warns(UnknownFieldWarning, match="'odd'") as warned:
        assert find_duplicates(retriever, 0.9, filter={"odd": 1}, exact=exact).found == 0
    assert len(warned) == 1


def test_a_tenants_passages_are_compared_with_its_own_alone(engine) -> None:
    """Two tenants' passages of one id are no pair that anything could be done about."""
    whole = engine.open()
    us, them = whole.with_tenant("us"), whole.with_tenant("them")
    us.index([Passage("a", "cats purr"), Passage("b", "cats purr")])
    them.index([Passage("a", "cats purr")])
    [pair] = find_duplicates(us).pairs
    assert (pair.first.id, pair.second.id) == ("a", "b")
    assert find_duplicates(them).found == 0
    for mine in (find_duplicates, find_clusters):
        with pytest.raises(InputError, match="has tenants, each with ids of its own"):
            mine(whole)


@WAYS
@pytest.mark.parametrize("n", [0, 1])
def test_no_duplicates_without_two_passages(engine, fill, circle, exact, n) -> None:
    retriever = fill(engine.open(model=HashEncoder(dim=2)), circle(*range(n)))
    found = find_duplicates(retriever, -1, exact=exact)
    assert (found.pairs, found.groups, found.found, found.passages) == ([], [], 0, n)


@WAYS
def test_copies_are_found_at_a_threshold_of_one(retriever, exact) -> None:
    """The cosine of a float32 vector with itself may come out a little below 1."""
    texts = ["cats purr", "trains run on rails", "Cats purr!", "cats purr", "rails rust"]
    retriever.index(Passage(f"p{n}", text) for n, text in enumerate(texts))
    found = find_duplicates(retriever, 1, exact=exact)
    assert sorted(named(found)) == [("p0", "p2"), ("p0", "p3"), ("p2", "p3")]
    assert all(1 - 1e-6 <= pair.score <= 1 for pair in found.pairs)
    assert found.groups == [("p0", "p2", "p3")]


@WAYS
def test_the_limit_cuts_the_pairs_and_neither_the_count_nor_the_groups(fill, exact) -> None:
    rows = unit(60, 4)
    with Retriever.open(":memory:", model=HashEncoder(dim=4)) as retriever:
        fill(retriever, rows)
        whole = find_duplicates(retriever, 0.9, exact=exact)
        cut = find_duplicates(retriever, 0.9, limit=3, exact=exact)
    assert whole.found == len(whole.pairs) > 20
    assert named(cut) == named(whole)[:3]
    assert (cut.found, cut.groups) == (whole.found, whole.groups)


def test_both_ways_agree_where_passages_have_many_neighbours(fill) -> None:
    """More than the first request of the index brings: it asks on."""
    rng = np.random.default_rng(2)
    rows = np.repeat(unit(3, 16), 70, axis=0) + rng.normal(0, 0.02, (210, 16))
    with Retriever.open(":memory:", model=HashEncoder(dim=16)) as retriever:
        fill(retriever, rows)
        exact, index = (find_duplicates(retriever, 0.98, exact=way) for way in (True, False))
    assert exact.found > 3 * 70 * 60 / 2
    assert (index.found, index.groups) == (exact.found, exact.groups)
    assert [pair.score for pair in index.pairs] == pytest.approx(
        [pair.score for pair in exact.pairs], abs=1e-6
    )


def test_a_crowd_beyond_what_the_index_is_asked_for_is_told_of(fill, monkeypatch) -> None:
    monkeypatch.setattr("sbert_retriever.mining.through_index.MOST_NEIGHBOURS", 50)
    n = 60
    with Retriever.open(":memory:", model=HashEncoder(dim=4)) as retriever:
        fill(retriever, np.repeat(unit(1, 4), n, axis=0), [f"p{i}" for i in range(n)])
        exact, index = (find_duplicates(retriever, limit=10, exact=way) for way in (True, False))
    assert (exact.found, exact.crowded) == (n * (n - 1) // 2, 0)
    assert index.crowded == n
    assert n < index.found < exact.found
    assert len(exact.groups) == 1
    assert len(exact.groups[0]) == n


@pytest.mark.parametrize("similarity", ["dot", "euclidean", "manhattan"])
def test_vectors_of_any_length_are_compared_by_cosine(fill, circle, similarity) -> None:
    class Measured(HashEncoder):
        @property
        def identity(self):
            from dataclasses import replace

            kinds = {"dot": "dot", "euclidean": "neg_l2", "manhattan": "neg_l1"}
            return replace(super().identity, similarity=kinds[similarity], normalize=False)

    rows = circle(0, 10, 90) * np.float32([[5], [0.1], [7]])
    with Retriever.open(":memory:", model=Measured(dim=2)) as retriever:
        fill(retriever, rows)
        found = find_duplicates(retriever, 0.9)
        assert named(found) == [("p000", "p001")]
        assert found.pairs[0].score == pytest.approx(math.cos(math.radians(10)), abs=1e-6)
        with pytest.raises(InputError, match="have every pair compared"):
            find_duplicates(retriever, 0.9, exact=False)


@pytest.mark.parametrize("threshold", [1.001, -1.1, math.nan, math.inf, 10**400])
def test_a_threshold_that_is_no_cosine_is_refused(retriever, threshold) -> None:
    with pytest.raises(InputError, match="expected a cosine, from -1 to 1"):
        find_duplicates(retriever, threshold)


def test_other_wrong_use(retriever) -> None:
    with pytest.raises(InputTypeError, match="threshold is 'high'"):
        find_duplicates(retriever, "high")
    with pytest.raises(InputError, match="limit is 0"):
        find_duplicates(retriever, 0.9, limit=0)


def sentences(data_dir):
    """All sentences of the STSb test split, each once."""
    path = data_dir / "stsb" / "stsb-en-test.csv"
    with path.open(encoding="utf-8", newline="") as file:
        pairs = [row[:2] for row in csv.reader(file)]
    return list(dict.fromkeys(text for pair in pairs for text in pair))


@pytest.mark.data
def test_stsb_equals_brute_force_in_float64(data_dir, minilm, fill, capsys) -> None:
    """The truth is the float64 cosine of the encoder's float32 vectors.

    The store keeps them at length 1 in float32, so scores may differ from the truth by 1e-6, and a
    pair whose true cosine is that near to the threshold (less 1e-6, which counts as at it) may be
    on either side. All others must be the same.
    """
    texts = sentences(data_dir)
    encoded = minilm.encode_passages(texts)
    rows = encoded.astype(np.float64)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    i, j = np.triu_indices(len(rows), k=1)
    cosines = (rows @ rows.T)[i, j]
    with Retriever.open(":memory:", model=minilm) as retriever:
        fill(retriever, encoded, [str(n) for n in range(len(texts))])
        for threshold in (0.75, 0.9, 0.97):
            found = find_duplicates(retriever, threshold, limit=1_000_000)
            got = {(int(p.first.id), int(p.second.id)): p.score for p in found.pairs}
            got = {tuple(sorted(ends)): score for ends, score in got.items()}
            edge = threshold - 1e-6
            sure = cosines >= edge + 1e-6
            possible = cosines >= edge - 1e-6
            truth = dict(zip(zip(i[possible].tolist(), j[possible].tolist(), strict=True),
                             cosines[possible].tolist(), strict=True))  # fmt: skip
            assert set(zip(i[sure].tolist(), j[sure].tolist(), strict=True)) <= set(got)
            assert set(got) <= set(truth)
            assert found.found == len(got) > 20
            assert found.exact
            assert [got[ends] for ends in got] == pytest.approx([truth[e] for e in got], abs=1e-6)
            with capsys.disabled():
                print(
                    f"\nSTSb, {len(texts)} sentences, cosine {threshold}: {len(got)} pairs in "
                    f"{len(found.groups)} groups, {int(possible.sum() - sure.sum())} at the edge",
                    end="",
                )
        index = find_duplicates(retriever, threshold, exact=False)
        recall = len(set(named(index)) & set(named(found))) / found.found
        with capsys.disabled():
            print(f"; through the index {recall:.4f} of them", end="")
        assert recall >= 0.99
