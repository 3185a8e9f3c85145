"""Groups and diversity: hits that are not all of one kind, on every engine."""

from __future__ import annotations

import asyncio
import random
import zlib

import numpy as np
import pytest
from qdrant_client import QdrantClient, models

from sbert_retriever import Passage, Retriever
from sbert_retriever.errors import InputError, InputTypeError, UnknownFieldWarning
from sbert_retriever.index.points import Layout
from sbert_retriever.search.diversity import mmr_order
from sbert_retriever.testing import HashEncoder, TableScorer

WORDS = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
QUESTION = "one two three four"


def made(count: int, sources: int, seed: int = 0) -> list[Passage]:
    """Passages of random words; a few sources have most of them, some have none."""
    chosen = random.Random(seed)
    passages = []
    for number in range(count):
        # Lengths differ, so that no two have the same score by words.
        text = " ".join(chosen.choices(WORDS, k=6)) + " filler" * number
        source = f"s{min(int(chosen.expovariate(0.3)), sources)}.md"
        metadata = {"lang": chosen.choice(["en", "de"]), "year": chosen.randint(2000, 2004)}
        passages.append(
            Passage(f"p{number}", text, metadata, source if chosen.random() > 0.1 else None)
        )
    return passages


PASSAGES = made(300, 20)


class Scattered(HashEncoder):
    """A vector of its own for each text, so that no two have the same score."""

    def encode_passages(self, texts):
        rows = [np.random.default_rng(zlib.crc32(t.encode())).normal(size=64) for t in texts]
        matrix = np.array(rows, dtype=np.float32).reshape(len(rows), 64)
        return matrix / np.linalg.norm(matrix, axis=1, keepdims=True)

    def encode_queries(self, texts):
        return self.encode_passages(texts)


def brute_force(ranked, value, k, size):
    """The rule in the plainest words: walk down the whole ranking."""
    groups = {}
    for hit in ranked:
        key = value(hit)
        groups.setdefault(("alone", hit.id) if key is None else ("group", key), []).append(hit)
    return [hit.id for key in list(groups)[:k] for hit in groups[key][:size]]


@pytest.fixture
def filled(engine):
    retriever = engine.open(model=Scattered(dim=64), sparse="bm25")
    retriever.index(PASSAGES)
    return retriever


@pytest.mark.parametrize(("k", "size"), [(1, 1), (3, 2), (5, 4), (12, 1), (40, 3)])
@pytest.mark.parametrize("mode", ["dense", "sparse"])
def test_groups_equal_brute_force_over_the_whole_ranking(filled, mode, k, size):
    ranked = filled.search(QUESTION, 300, mode=mode)
    for field, value in (
        ("source", lambda hit: hit.source),
        ("year", lambda hit: hit.metadata["year"]),
    ):
        found = filled.search(QUESTION, k, mode=mode, group_by=field, group_size=size)
        assert [hit.id for hit in found] == brute_force(ranked, value, k, size)


def test_a_filter_holds_in_each_group(filled):
    ranked = filled.search(QUESTION, 300, mode="dense", filter={"lang": "de"})
    found = filled.search(
        QUESTION, 6, mode="dense", group_by="source", group_size=3, filter={"lang": "de"}
    )
    assert [hit.id for hit in found] == brute_force(ranked, lambda hit: hit.source, 6, 3)
    assert {hit.metadata["lang"] for hit in found} == {"de"}


def test_groups_of_what_hybrid_search_found(filled):
    ranked = filled.search(QUESTION, 100)
    found = filled.search(QUESTION, 4, group_by="source", group_size=2)
    assert [hit.id for hit in found] == brute_force(ranked, lambda hit: hit.source, 4, 2)


def test_groups_of_what_was_reranked(filled):
    scorer = TableScorer({p.text: float(n) for n, p in enumerate(PASSAGES)})
    ranked = filled.with_reranker(scorer).search(QUESTION, 60, candidates=60)
    found = filled.with_reranker(scorer).search(
        QUESTION, 3, candidates=60, group_by="source", group_size=2
    )
    assert [hit.id for hit in found] == brute_force(ranked, lambda hit: hit.source, 3, 2)


def test_groups_by_vector_of_neighbours_and_in_an_event_loop(filled):
    vector = Scattered(dim=64).encode_queries([QUESTION])[0]
    ranked = filled.search_by_vector(vector, 300)
    expected = brute_force(ranked, lambda hit: hit.source, 5, 2)
    options = {"group_by": "source", "group_size": 2}
    assert [h.id for h in filled.search_by_vector(vector, 5, **options)] == expected
    found = asyncio.run(filled.asearch(QUESTION, 5, mode="dense", **options))
    assert [h.id for h in found] == expected
    batch = filled.search_batch([QUESTION, QUESTION], 5, mode="dense", **options)
    assert [[h.id for h in hits] for hits in batch] == [expected] * 2
    near = filled.similar("p0", 300)
    assert "p0" not in {hit.id for hit in near}
    assert len(near) == 299
    grouped = filled.similar("p0", 4, **options)
    assert [h.id for h in grouped] == brute_force(near, lambda hit: hit.source, 4, 2)


@pytest.mark.parametrize("field", ['"a.b"', "metadata.kind", "author.name", "_sbert.source"])
def test_a_field_is_named_as_in_a_filter(engine, field):
    """A name with a dot in it, a name with its prefix, a nested one: the groups are made by it."""
    retriever = engine.open()
    kinds = ["x", "x", "y"]
    retriever.index(
        Passage(f"p{n}", f"word {n}", {"a.b": kind, "kind": kind, "author": {"name": kind}}, kind)
        for n, kind in enumerate(kinds)
    )
    found = retriever.search("word", 5, group_by=field)
    assert sorted(kinds[int(hit.id[1])] for hit in found) == ["x", "y"]
    scorer = TableScorer({f"word {n}": float(n) for n in range(3)})
    reranked = retriever.with_reranker(scorer).search("word", 5, candidates=3, group_by=field)
    assert [hit.id for hit in reranked] == ["p2", "p1"]


def test_a_passage_whose_id_is_a_groups_value_is_a_group_of_its_own(engine):
    """The page itself has no `page`, and its sixty parts name it: two groups, found in the end."""
    retriever = engine.open()
    parts = [Passage(f"part {n}", f"the page, part {n}", {"page": "home"}) for n in range(60)]
    retriever.index([Passage("home", "the page"), *parts])
    found = retriever.search("the page", 2, group_by="page")
    assert len(found) == 2
    assert sorted(hit.metadata.get("page", "") for hit in found) == ["", "home"]


@pytest.mark.parametrize("options", [{"mode": "dense"}, {"mode": "sparse"}, {}, {"candidates": 9}])
def test_a_misspelt_field_to_group_by_is_said(filled, options):
    retriever = filled.with_reranker(TableScorer({}))
    with pytest.warns(UnknownFieldWarning, match="no passage has the metadata field 'langg'"):
        assert len(retriever.search(QUESTION, 3, group_by="langg", **options)) == 3


def test_a_field_that_some_passages_have_and_no_hit_is_no_misspelling(engine):
    retriever = engine.open()
    retriever.index([Passage("a", "one two"), Passage("b", "three four", {"lang": "en"})])
    assert [hit.id for hit in retriever.search("one two", 1, group_by="lang")] == ["a"]
    vector = HashEncoder(dim=64).encode_queries(["one two"])[0]
    with pytest.warns(UnknownFieldWarning, match="'lng'"):
        retriever.search_by_vector(vector, 1, group_by="lng")


def test_true_and_one_are_two_groups(engine):
    retriever = engine.open()
    values = [True, 1, "1", False, 0, None]
    retriever.index([Passage(str(n), f"word {n}", {"v": v}) for n, v in enumerate(values)])
    found = retriever.search("word", 10, group_by="v")
    assert {hit.id for hit in found} == {"0", "1", "2", "3", "4", "5"}


def test_diversity_is_maximal_marginal_relevance(filled):
    """0 is the plain order, 1 looks at the variety only; between them as the formula says."""
    encoder = Scattered(dim=64)
    query = encoder.encode_queries([QUESTION])[0]
    pool = filled.search(QUESTION, 50, mode="dense")
    rows = encoder.encode_passages([hit.text for hit in pool])
    for diversity in (0.0, 0.3, 0.5, 1.0):
        order = mmr_order(query, rows, k=5, lambda_mult=1 - diversity)
        found = filled.search(QUESTION, 5, mode="dense", diversity=diversity)
        assert [hit.id for hit in found] == [pool[n].id for n in order]
    plain = filled.search(QUESTION, 5, mode="dense")
    assert filled.search(QUESTION, 5, mode="dense", diversity=0) == plain


@pytest.mark.parametrize("mode", ["dense", "hybrid"])
def test_diversity_chooses_among_what_is_above_the_threshold(filled, mode):
    """With eight hits above it, five are handed out, however unlike the others are."""
    pool = filled.search(QUESTION, 9, mode=mode)
    least = (pool[7].score + pool[8].score) / 2
    options = {"mode": mode, "diversity": 1.0, "score_threshold": least}
    found = filled.search(QUESTION, 5, **options)
    assert len(found) == 5
    assert {hit.id for hit in found} <= {hit.id for hit in pool[:8]}
    every = filled.search(QUESTION, 20, **options)
    assert {hit.id for hit in every} == {hit.id for hit in pool[:8]}


def test_diversity_in_hybrid_search_and_without_a_rerank(filled):
    scorer = TableScorer({})
    hits = filled.with_reranker(scorer).search(QUESTION, 5, diversity=0.7)
    assert len({hit.id for hit in hits}) == 5
    assert scorer.asked == []
    assert {hit.score_kind for hit in hits} == {"fused"}
    vectors = np.stack([filled._store.connection.run(filled.store.vector(h.id)) for h in hits])
    close = filled.search(QUESTION, 5)
    near = np.stack([filled._store.connection.run(filled.store.vector(h.id)) for h in close])
    assert (vectors @ vectors.T).sum() < (near @ near.T).sum()


def unlike(ranked, least, k):
    """The rule in the plainest words, by the vectors of `Scattered` in float64."""
    rows = Scattered(dim=64).encode_passages([hit.text for hit in ranked]).astype(np.float64)
    taken = []
    for n in range(len(ranked)):
        if len(taken) < k and all(rows[n] @ rows[m] < least for m in taken):
            taken.append(n)
    return [ranked[n].id for n in taken]


@pytest.mark.parametrize("mode", ["dense", "sparse"])
@pytest.mark.parametrize(("k", "least"), [(5, 0.2), (30, 0.1), (10, 2.0)])
def test_distinct_equals_brute_force_over_the_whole_ranking(filled, mode, k, least):
    ranked = filled.search(QUESTION, 300, mode=mode)
    found = filled.search(QUESTION, k, mode=mode, distinct=least)
    assert [hit.id for hit in found] == unlike(ranked, least, k)
    scores = {hit.id: hit.score for hit in ranked}
    assert all(hit.score == pytest.approx(scores[hit.id], abs=1e-6) for hit in found)


def test_distinct_among_what_hybrid_search_found(filled):
    ranked = filled.search(QUESTION, 100)
    found = filled.search(QUESTION, 5, distinct=0.1)
    assert [hit.id for hit in found] == unlike(ranked, 0.1, 5)


def test_many_copies_of_one_text_are_one_hit(engine):
    """Seventy copies are more than are looked at first for two hits."""
    retriever = engine.open()
    copies = [Passage(f"copy {n}", "one two three") for n in range(70)]
    retriever.index([*copies, Passage("other", "one two nine ten"), Passage("far", "filler")])
    texts = ["one two three", "one two nine ten"]
    assert [h.text for h in retriever.search("one two three", 2, distinct=0.99)] == texts
    vector = HashEncoder(dim=64).encode_queries(["one two three"])[0]
    assert [h.text for h in retriever.search_by_vector(vector, 2, distinct=0.99)] == texts
    assert "one two three" not in {
        h.text for h in retriever.similar("copy 0", 2, distinct=0.99)[1:]
    }
    assert len(retriever.search("one two three", 10, distinct=0.99)) == 3
    above = retriever.search("one two three", 10, distinct=0.99, score_threshold=0.99)
    assert [h.text for h in above] == texts[:1]


def test_copies_are_left_out_before_a_rerank(engine):
    copies = [Passage(f"copy {n}", "one two three") for n in range(5)]
    scorer = TableScorer({"one two three": 1.0, "one two nine": 2.0})
    retriever = engine.open(reranker=scorer)
    retriever.index([*copies, Passage("other", "one two nine")])
    found = retriever.search("one two three", 3, candidates=4, distinct=0.99)
    assert [hit.text for hit in found] == ["one two nine", "one two three"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"distinct": float("nan")}, "distinct is NaN"),
        ({"distinct": "0.9"}, "distinct is '0.9', expected a number"),
        ({"distinct": 0.9, "group_by": "source"}, "distinct and group_by each choose the hits"),
        ({"distinct": 0.9, "diversity": 0.5}, "diversity and distinct each choose the hits"),
        ({"diversity": 1.5}, "diversity is 1.5, expected 0 to 1"),
        ({"diversity": float("nan")}, "diversity is NaN"),
        ({"diversity": 0.5, "group_by": "source"}, "give one of them"),
        ({"diversity": 0.5, "mode": "sparse"}, "diversity looks at meanings"),
        ({"diversity": 0.5, "candidates": 5}, "candidates=5 asks for a rerank: give one of them"),
        ({"group_by": "tags"}, r"passage 'a' has \['x'\] there, and groups are made by texts"),
        ({"group_by": "tags[]"}, r"field 'tags\[\]' leads into a list, expected a single value"),
        ({"group_size": 0}, "group_size is 0, expected 1 or more"),
        ({"group_by": ""}, "group_by is ''"),
    ],
)
def test_what_cannot_be_done_is_said(tmp_path, options, message):
    with Retriever.open(
        tmp_path, model=HashEncoder(), sparse="bm25", reranker=TableScorer({})
    ) as retriever:
        retriever.index([Passage("a", "one two", {"tags": ["x"]})])
        with pytest.raises((InputError, InputTypeError), match=message):
            retriever.search("one", **({"profile": None} | options))


def test_what_another_program_wrote_is_grouped_by_its_own_source():
    """It keeps the source in its metadata: each hit was a group of its own, without a word."""
    client = QdrantClient(":memory:")
    params = models.VectorParams(size=64, distance=models.Distance.COSINE)
    client.create_collection("theirs", vectors_config=params)
    rows = HashEncoder(dim=64).encode_passages([f"one two {n}" for n in range(4)])
    client.upsert(
        "theirs",
        points=[
            models.PointStruct(
                id=n,
                vector=row.tolist(),
                payload={"page_content": f"one two {n}", "metadata": {"source": f"f{n % 2}"}},
            )
            for n, row in enumerate(rows)
        ],
    )
    layout = Layout(vector_name="", text_key="page_content", foreign=True)
    retriever = Retriever.open(
        client=client, model=HashEncoder(dim=64), collection_name="theirs", layout=layout
    )
    hits = retriever.search("one two", 4, group_by="source")
    assert sorted(hit.metadata["source"] for hit in hits) == ["f0", "f1"]
