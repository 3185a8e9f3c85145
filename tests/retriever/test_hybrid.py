"""Words beside meanings: sparse vectors, and both legs in one order, on every engine."""

from __future__ import annotations

import asyncio
import math
from dataclasses import replace

import numpy as np
import pytest

from sbert_retriever import Passage, Retriever
from sbert_retriever.errors import (
    ContractError,
    InputError,
    InputTypeError,
    ModelError,
    StoreRequestError,
)
from sbert_retriever.index.legs import Legs
from sbert_retriever.search.hybrid import fused
from sbert_retriever.sparse import Bm25
from sbert_retriever.sparse.bm25 import names, share_of_names
from sbert_retriever.testing import HashEncoder, TableScorer
from sbert_retriever.types import Fusion, SparseIdentity, SparseVector

PARTS = [
    Passage("pump", "spare pump for the cooling circuit of the mill", {"shelf": 1}),
    Passage("valve", "valve XK-4711 closes the cooling circuit", {"shelf": 2}),
    Passage("seal", "rubber seal", {"shelf": 2}),
    Passage("manual", "the manual of the mill and its circuit", {"shelf": 3}),
]


def ids(hits):
    return [hit.id for hit in hits]


@pytest.fixture
def parts(engine):
    retriever = engine.open(sparse="bm25")
    retriever.index(PARTS)
    return retriever


def test_an_exact_code_is_found_by_words(parts):
    hits = parts.search("XK-4711", 4, mode="sparse")
    assert ids(hits) == ["valve"]
    assert hits[0].score_kind == "bm25"
    assert hits[0].passage == PARTS[1]
    assert ids(parts.search("XK-4711", 1, mode="hybrid")) == ["valve"]


def test_the_sparse_score_is_bm25(parts):
    """Term frequency saturated and normalised by length, times the engine's own idf."""
    # "seal" is in 1 of 4 passages of the lengths that stay without stop words.
    hit = parts.search("seal", 1, mode="sparse")[0]
    idf = math.log((4 - 1 + 0.5) / (1 + 0.5) + 1)
    length, k, b, average = 2, 1.2, 0.75, 200
    tf = (1 * (k + 1)) / (1 + k * (1 - b + b * length / average))
    assert hit.score == pytest.approx(idf * tf, rel=1e-3)


def test_hybrid_is_the_default_where_there_are_words(parts, engine):
    assert {hit.score_kind for hit in parts.search("cooling circuit")} == {"fused"}
    assert {hit.score_kind for hit in parts.search("cooling circuit", mode="dense")} == {"cosine"}
    assert parts.info().sparse == "bm25"


def test_the_weighted_sum_is_that_of_both_legs(parts):
    question = "cooling circuit of the mill"
    dense = {h.id: h.score for h in parts.search(question, 10, mode="dense", exact=True)}
    sparse = {h.id: h.score for h in parts.search(question, 10, mode="sparse")}

    def spread(scores):
        low, high = min(scores.values()), max(scores.values())
        return {i: (s - low) / (high - low) for i, s in scores.items()}

    expected = {
        i: 0.7 * spread(dense).get(i, 0) + 0.3 * spread(sparse).get(i, 0) for i in dense | sparse
    }
    found = parts.search(question, 10, fusion=Fusion(method="weighted", sparse_weight=0.3))
    assert {h.id: h.score for h in found} == pytest.approx(expected, abs=1e-5)
    assert [h.score for h in found] == sorted((h.score for h in found), reverse=True)


def test_by_default_words_add_to_the_cosine(parts):
    """The best by words gets 0.15 more than its cosine, the others in proportion."""
    question = "cooling circuit of the mill"
    dense = {h.id: h.score for h in parts.search(question, 10, mode="dense", exact=True)}
    sparse = {h.id: h.score for h in parts.search(question, 10, mode="sparse")}
    best = max(sparse.values())
    expected = {i: cosine + 0.15 * sparse.get(i, 0) / best for i, cosine in dense.items()}
    found = parts.search(question, 10)
    assert {h.id: h.score for h in found} == pytest.approx(expected, abs=1e-5)
    assert [h.score for h in found] == sorted((h.score for h in found), reverse=True)


def test_rank_fusion_and_its_constant(parts):
    question = "the mill and its circuit"
    dense, sparse = (
        {h.id: rank for rank, h in enumerate(parts.search(question, 10, mode=mode), 1)}
        for mode in ("dense", "sparse")
    )
    found = parts.search(question, 10, fusion=Fusion(method="rrf", k=20, sparse_weight=0.5))
    assert {h.score_kind for h in found} == {"rrf"}
    for hit in found:
        expected = sum(0.5 / (20 + leg[hit.id]) for leg in (dense, sparse) if hit.id in leg)
        assert hit.score == pytest.approx(expected)
    by_spread = parts.search(question, 10, fusion=Fusion(method="dbsf"))
    assert {h.score_kind for h in by_spread} == {"dbsf"}


def test_weights_at_the_ends_are_one_leg_alone(parts):
    question = "valve of the mill"
    for weight, mode in ((0.0, "dense"), (1.0, "sparse")):
        found = parts.search(question, 1, fusion=Fusion(method="weighted", sparse_weight=weight))
        assert ids(found) == ids(parts.search(question, 1, mode=mode))


def test_the_filter_holds_in_both_legs(parts):
    for mode in ("dense", "sparse", "hybrid"):
        hits = parts.search("cooling circuit of the mill", 10, mode=mode, filter={"shelf": 2})
        assert {hit.metadata["shelf"] for hit in hits} == {2}


def test_a_threshold_is_on_the_scale_that_the_hits_name(parts):
    """A rank is no cosine: 0.6 keeps what has a fused score of 0.6, whatever its cosine."""
    question = "cooling circuit"
    for options in ({}, {"mode": "sparse"}, {"fusion": Fusion(method="rrf")}):
        hits = parts.search(question, 10, **options)
        least = hits[1].score
        kept = parts.search(question, 10, score_threshold=least, **options)
        assert ids(kept) == [h.id for h in hits if h.score >= least]
    assert parts.search(question, 10, fusion=Fusion(method="rrf"), score_threshold=0.6) == []


def test_a_passage_beyond_the_dense_leg_counts_with_the_last_ones_cosine():
    """What the words alone found gets the least cosine of those by meaning, and its own words."""
    both = Legs([("a", 0.9), ("b", 0.5)], [("c", 4.0), ("a", 1.0)])
    found = fused(both, Fusion(method="boost", sparse_weight=0.2))
    assert dict(found) == pytest.approx({"a": 0.9 + 0.05, "c": 0.5 + 0.2, "b": 0.5})
    assert [point for point, _ in found] == ["a", "c", "b"]


def test_words_that_no_passage_has_and_questions_without_words(parts):
    assert parts.search("zzyzx", 3, mode="sparse") == []
    assert parts.search("the of", 3, mode="sparse") == []
    assert len(parts.search("the of", 3)) == 3
    both = parts.search_batch(["the of", "seal", "zzyzx"], 2, mode="sparse")
    assert [ids(hits) for hits in both] == [[], ["seal"], []]


def test_a_batch_and_the_asynchronous_twins_give_the_same(parts):
    questions = ["cooling circuit", "XK-4711", "the of"] * 20
    single = [ids(parts.search(question, 3)) for question in questions]
    assert [ids(hits) for hits in parts.search_batch(questions, 3)] == single
    found = asyncio.run(parts.asearch_batch(questions, 3))
    assert [ids(hits) for hits in found] == single


def test_words_follow_changes_and_deletions(parts):
    parts.index([Passage("seal", "a gasket XK-4711 of copper", {"shelf": 9})])
    assert set(ids(parts.search("XK-4711", 4, mode="sparse"))) == {"seal", "valve"}
    assert parts.search("rubber", 4, mode="sparse") == []
    parts.delete(["valve"])
    assert ids(parts.search("XK-4711", 4, mode="sparse")) == ["seal"]
    report = parts.index([Passage("seal", "a gasket XK-4711 of copper", {"shelf": 10})])
    assert (report.updated, report.encoded) == (1, 0)
    hit = parts.search("XK-4711", 4, mode="sparse")[0]
    assert (hit.id, hit.metadata["shelf"]) == ("seal", 10)


def test_a_text_without_a_word_is_kept_and_found_by_meaning(engine):
    retriever = engine.open(sparse="bm25")
    retriever.index([Passage("empty", ""), Passage("stop", "the of"), Passage("seal", "seal")])
    assert retriever.count() == 3
    assert ids(retriever.search("seal", 5, mode="sparse")) == ["seal"]
    assert retriever.get(["stop"])[0].text == "the of"


NAMED = [
    Passage("parts", "join path os path join os path"),
    Passage("name", "call os.path.join once, in a long text of words"),
]


@pytest.mark.parametrize(("whole", "first"), [(True, "name"), (False, "parts")])
def test_a_name_is_a_term_as_a_whole(engine, whole, first):
    """The passage that has the name itself comes before those that have its parts."""
    retriever = engine.open(sparse=Bm25(names=whole))
    retriever.index(NAMED)
    assert retriever.search("os.path.join", 2, mode="sparse")[0].id == first


def test_a_word_of_a_million_letters_is_looked_through_once():
    """A picture in a page is such a word; tried from each of its letters it took hours."""
    word = "aGVsbG8" * 150_000
    assert names(word) == []
    assert names(f"{word} os.path.join snake_case x. a..b .c-d") == [
        "os.path.join",
        "snake_case",
        "c-d",
    ]


def test_a_question_that_is_a_name_counts_on_words_more():
    fusion = Fusion()
    weights = [
        fusion.settled(cosine=True, names=share_of_names(question)).sparse_weight
        for question in ("how do I join two paths?", "use os.path.join", "os.path.join")
    ]
    assert weights[0] == 0.15
    assert weights[1] == pytest.approx(0.15 + 0.45 * 12 / 15)
    assert weights[2] == pytest.approx(0.6)
    said = Fusion(sparse_weight=0.3).settled(cosine=True, names=1.0)
    assert said.sparse_weight == 0.3


def test_it_opens_again_with_its_own_words(lasting_engine):
    first = lasting_engine.open(sparse=Bm25(language="german", avg_len=50.0))
    first.index([Passage("haus", "Die Häuser stehen am Fluss.")])
    again = lasting_engine.open()
    assert ids(again.search("Haus", 1, mode="sparse")) == ["haus"]
    again.index([Passage("brücke", "Die Brücken am Fluss.")])
    assert ids(again.search("Brücke", 1, mode="sparse")) == ["brücke"]
    with pytest.raises(ContractError, match="open it as it is, or index"):
        lasting_engine.open(sparse="bm25")


def test_a_number_that_a_server_reads_one_unit_off_is_the_same_number(engine):
    length = 183.27272727272728
    store = engine.open(sparse=Bm25(avg_len=length)).store
    settings = {**store.sparse_identity.settings, "avg_len": math.nextafter(length, 0)}
    store.shape = replace(store.shape, sparse=replace(store.sparse_identity, settings=settings))
    store.bind_sparse(Bm25(avg_len=length))
    for other in (Bm25(avg_len=183.2727), Bm25(avg_len=length, names=False)):
        with pytest.raises(ContractError, match="words were asked for"):
            store.bind_sparse(other)


def test_a_collection_that_was_made_meanwhile_may_have_a_number_one_unit_off(engine):
    """A creation that is sent again, for want of an answer, is refused: the first one made it."""
    length, refusal = 183.27272727272728, StoreRequestError("it exists")
    store = engine.open(sparse=Bm25(avg_len=length)).store
    contract = store.connection.run(store.facts()).contract
    for other in (length, math.nextafter(length, 0), math.nextafter(length, 200)):
        asked = replace(contract, sparse=Bm25(avg_len=other).identity)
        store.connection.run(store._check_created(asked, refusal))
    for sparse in (Bm25(avg_len=183.2727).identity, None):
        with pytest.raises(ContractError, match="with other settings"):
            store.connection.run(store._check_created(replace(contract, sparse=sparse), refusal))


def test_a_collection_without_words_says_how_to_get_them(engine):
    retriever = engine.open()
    retriever.index(PARTS)
    assert retriever.info().sparse is None
    for mode in ("sparse", "hybrid"):
        with pytest.raises(InputError, match="has no sparse vectors: index its texts into a new"):
            retriever.search("mill", mode=mode)
    with pytest.raises(ContractError, match="has none: open it as it is"):
        retriever.store.bind_sparse(Bm25())


def test_a_rerank_comes_after_both_legs(parts):
    scorer = TableScorer({PARTS[2].text: 5.0, PARTS[1].text: 1.0})
    hits = parts.with_reranker(scorer).search("cooling circuit seal", 2, candidates=4)
    assert ids(hits) == ["seal", "valve"]
    assert [(h.score_kind, h.first_score_kind) for h in hits] == [("logit", "fused")] * 2


class Letters:
    """A sparse encoder of one's own: a term a letter."""

    identity = SparseIdentity(name="letters", score_kind="dot")

    def encode_queries(self, texts):
        return self.encode_passages(texts)

    def encode_passages(self, texts):
        return [
            SparseVector(sorted({ord(c) for c in text}), [1.0] * len(set(text))) for text in texts
        ]


def test_a_sparse_encoder_of_ones_own(lasting_engine):
    retriever = lasting_engine.open(sparse=Letters())
    retriever.index([Passage("abc", "abc"), Passage("xyz", "xyz")])
    hit = retriever.search("cab", 1, mode="sparse")[0]
    assert (hit.id, hit.score, hit.score_kind) == ("abc", 3.0, "dot")
    again = lasting_engine.open()
    with pytest.raises(ModelError, match="'letters', which cannot be loaded by name: open it with"):
        again.search("cab", 1, mode="sparse")
    assert ids(lasting_engine.open(sparse=Letters()).search("zz", 1, mode="sparse")) == ["xyz"]


@pytest.mark.parametrize(
    "wrong",
    [
        [SparseVector([1, 1], [1.0, 1.0])],
        [SparseVector([1], [1.0, 2.0])],
        [SparseVector([1], [math.nan])],
        [],
    ],
)
def test_sparse_vectors_that_would_be_lost_are_refused_before_anything_is_written(engine, wrong):
    class Broken(Letters):
        def encode_passages(self, texts):
            return wrong

    retriever = engine.open(sparse=Broken())
    with pytest.raises(ModelError, match="sparse"):
        retriever.index([Passage("a", "a")])
    assert retriever.count() == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mode": "words"}, "mode is 'words', expected 'dense', 'sparse', 'hybrid' or None"),
        ({"fusion": "rrf"}, "fusion is str, expected a Fusion"),
    ],
)
def test_wrong_options_are_one_sentence(parts, options, message):
    with pytest.raises((InputError, InputTypeError), match=message):
        parts.search("mill", **options)


def test_wrong_settings_are_one_sentence(tmp_path):
    with pytest.raises(InputError, match=r"Fusion\.sparse_weight is 1\.5, expected 0 to 1"):
        Fusion(sparse_weight=1.5)
    with pytest.raises(InputError, match=r"Fusion\.method is 'sum'"):
        Fusion(method="sum")
    with pytest.raises(InputError, match="BM25 cannot be made for language 'klingon'"):
        Bm25(language="klingon")
    with pytest.raises(InputError, match="b from 0 to 1"):
        Bm25(b=2)
    with pytest.raises(InputTypeError, match="sparse is int, expected 'bm25'"):
        Retriever.open(tmp_path / "x", model=HashEncoder(), sparse=3)
    assert not (tmp_path / "x").exists()


def test_fusing_is_pure_and_ties_keep_the_dense_order():
    both = Legs([("a", 0.5), ("b", 0.5)], [("c", 2.0)])
    before = ([*both.dense], [*both.sparse])
    found = fused(both, Fusion(method="weighted", sparse_weight=0.5))
    assert [point for point, _ in found] == ["a", "b", "c"]
    assert (both.dense, both.sparse) == before
    for method in ("boost", "weighted", "rrf", "dbsf"):
        fusion = Fusion(method=method).settled(cosine=True)
        assert fused(Legs([], []), fusion) == []
        assert np.isfinite([score for _, score in fused(both, fusion)]).all()


def test_where_scores_are_no_cosines_both_legs_are_set_to_one_scale(engine):
    class Long(HashEncoder):
        @property
        def identity(self):
            return replace(super().identity, similarity="dot")

    retriever = engine.open(model=Long(dim=64), sparse="bm25")
    retriever.index(PARTS)
    hits = retriever.search("cooling circuit", 2)
    assert hits[0].score == pytest.approx(1.0)
    assert hits[0].score_kind == "fused"
    with pytest.raises(InputError, match="'boost', which adds to cosines"):
        retriever.search("cooling", fusion=Fusion(method="boost"))


class Scattered(HashEncoder):
    """Wide vectors without structure, so that few of them fill ten megabytes."""

    def encode_passages(self, texts):
        rows = [np.random.default_rng(len(t)).standard_normal(self.dim) for t in texts]
        return np.array(rows, dtype=np.float32)


def test_the_graph_is_built_beside_words_too(tmp_path):
    """The engine counts sparse vectors as indexed; it is the dense ones that a graph is for."""
    passages = [Passage(f"p{n}", f"part {'x' * n}") for n in range(650)]
    with Retriever.open(tmp_path, model=Scattered(dim=4096), sparse="bm25") as retriever:
        assert retriever.info().indexed == 0
        retriever.index(passages[:20])
        assert retriever.info().indexed == 0
        retriever.index(passages)
        assert retriever.info().indexed == 650
        retriever.index([Passage("more", "one more part")])
        assert (retriever.info().count, retriever.info().indexed) == (651, 650)
    with Retriever.open(tmp_path) as retriever:
        assert retriever.info().indexed == 650


def test_words_of_deleted_passages_no_longer_count_once_it_is_tidied_up(tmp_path):
    """ln(1 + (N - n + 0.5) / (n + 0.5)) for "seal" in 2 of 400 passages, then in 1 of 150."""

    def idf(total, having):
        return math.log(1 + (total - having + 0.5) / (having + 0.5))

    passages = [Passage(f"p{n}", "seal" if n in (0, 399) else "pump") for n in range(400)]
    with Retriever.open(tmp_path, model=HashEncoder(dim=8), sparse="bm25") as retriever:
        retriever.index(passages)
        weight = Bm25().encode_passages(["seal"])[0].values[0]
        before = retriever.search("seal", 1, mode="sparse")[0].score
        assert before == pytest.approx(weight * idf(400, 2), rel=1e-5)
        retriever.delete([p.id for p in passages[150:]])
        retriever.index([passages[0]])  # enough was deleted to be worth it
        after = retriever.search("seal", 1, mode="sparse")[0].score
        assert after == pytest.approx(weight * idf(150, 1), rel=1e-5)
        retriever.delete(["p1"])
        retriever.optimize()
        last = retriever.search("seal", 1, mode="sparse")[0].score
        assert last == pytest.approx(weight * idf(149, 1), rel=1e-5)
