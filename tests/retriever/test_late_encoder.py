"""A model of its own for late interaction: what it compares, and when it takes part.

The words' vectors are known, so that each MaxSim can be counted: a word finds itself, or nothing.
"""

from __future__ import annotations

import numpy as np
import pytest

from sbert_retriever import Passage, Profile, Retriever
from sbert_retriever.encoder.colbert import ColbertEncoder
from sbert_retriever.encoder.late_interaction import maxsim
from sbert_retriever.errors import InputError, InputTypeError, ModelFormatError
from sbert_retriever.index.storage import Storage
from sbert_retriever.testing import HashEncoder, TableScorer, tiny_bert

NAMES = ["red", "blue", "round", "square", "flat", "a"]
WORDS = {name: np.eye(8, dtype=np.float32)[n] for n, name in enumerate(NAMES)}
PASSAGES = [
    Passage("both", "round red flat flat flat flat a a a"),
    Passage("one", "red a a a"),
    Passage("none", "blue square a a"),
]
QUESTION = "red round a a a"
LATE = Profile(candidates=10, rerank_depth=0, late=10)


class WordTokens:
    """One vector a word, the reverse of it for a passage's "a": bigger is not always better."""

    name = "words"

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []

    def encode_tokens(self, texts, *, role):
        texts = list(texts)
        self.asked += [(role, text) for text in texts]
        sign = {"a": -1.0 if role == "passage" else 1.0}
        return [
            np.array([WORDS[w] * sign.get(w, 1.0) for w in text.split()], dtype=np.float32)
            for text in texts
        ]


@pytest.fixture
def words():
    return WordTokens()


@pytest.fixture
def late(engine, words):
    retriever = engine.open(late_encoder=words)
    retriever.index(PASSAGES)
    return retriever


def ids(hits):
    return [hit.id for hit in hits]


def test_candidates_come_in_the_order_of_its_maxsim(late, words):
    """The first stage prefers the many "a" that both share; by tokens, "both" has two matches."""
    plain = late.search(QUESTION, 3, profile=Profile(rerank_depth=0))
    assert ids(plain)[0] == "one"
    assert not words.asked
    hits = late.search(QUESTION, 3)
    assert ids(hits) == ["both", "one", "none"]
    # Where there is a word that is unlike all others, an "a" finds 0; 2 of 5 words find themselves.
    assert [hit.score for hit in hits] == [2.0, 1.0, 0.0]
    assert {hit.score_kind for hit in hits} == {"maxsim"}
    assert {hit.first_score_kind for hit in hits} == {"cosine"}
    assert not any(hit.reranked for hit in hits)
    assert words.asked[0] == ("query", QUESTION)
    assert sorted(words.asked[1:]) == sorted(("passage", p.text) for p in PASSAGES)
    assert late.late_encoder is words


def test_how_many_a_profile_says_and_what_is_said_of_a_rerank_leaves_it_out(late, words):
    scorer = TableScorer({p.text: float(n) for n, p in enumerate(PASSAGES)})
    assert ids(late.search(QUESTION, 2, profile=LATE)) == ["both", "one"]
    reranked = late.with_reranker(scorer)
    assert reranked.late_encoder is words
    words.asked.clear()
    assert ids(reranked.search(QUESTION, 3, candidates=3)) == ["none", "one", "both"]
    assert not words.asked
    # The cross-encoder sees what late interaction put first.
    two_stages = Profile(candidates=10, late=10, rerank_depth=1)
    hits = reranked.search(QUESTION, 3, profile=two_stages)
    assert [(hit.id, hit.score_kind) for hit in hits] == [
        ("both", "logit"),
        ("one", "maxsim"),
        ("none", "maxsim"),
    ]
    words.asked.clear()
    # With both and without a profile, the first of late interaction go to the cross-encoder.
    hits = reranked.search(QUESTION, 3)
    assert all(hit.reranked and hit.first_score_kind == "cosine" for hit in hits)
    assert len(words.asked) == 4


def test_diversity_takes_its_place(late, words):
    late.search(QUESTION, 2, diversity=0.5)
    assert not words.asked


async def test_an_event_loop_and_a_batch_get_the_same(late):
    one = await late.asearch(QUESTION, 3)
    many = late.search_batch([QUESTION, "blue"], 3)
    assert ids(one) == ids(many[0]) == ["both", "one", "none"]
    assert ids(many[1])[0] == "none"
    assert many[1][0].score == 1.0


def test_words_alone_need_no_bi_encoder_for_it(tmp_path, words):
    with Retriever.open(tmp_path / "a", model=HashEncoder(), sparse="bm25") as retriever:
        retriever.index(PASSAGES)
    with Retriever.open(
        tmp_path / "a", model=HashEncoder(), sparse="bm25", late_encoder=words
    ) as retriever:
        hits = retriever.search("red round", 2, mode="sparse")
    assert ids(hits) == ["both", "one"]
    assert {hit.first_score_kind for hit in hits} == {"bm25"}


def test_kept_token_vectors_of_the_bi_encoder_are_not_compared_with_its_own(tmp_path, words):
    model = tiny_bert(tmp_path / "model")
    with Retriever.open(tmp_path / "a", model=model, storage=Storage(tokens=True)) as kept:
        kept.index(PASSAGES)
        own = kept.search(QUESTION, 3, profile=LATE)
    with Retriever.open(tmp_path / "a", late_encoder=words) as retriever:
        assert [hit.score for hit in retriever.search(QUESTION, 3)] == [2.0, 1.0, 0.0]
        assert len(words.asked) == 4
    assert [hit.score for hit in own] != [2.0, 1.0, 0.0]
    with pytest.raises(InputError, match=r"storage\.tokens keeps the token vectors of the bi-enc"):
        Retriever.open(
            tmp_path / "b", model=model, storage=Storage(tokens=True), late_encoder=words
        )
    assert not (tmp_path / "b").exists()


def test_a_checkpoint_is_loaded_by_name_and_by_a_saved_profile(tmp_path, colbert_folder):
    folder = colbert_folder()
    encoder = ColbertEncoder.load(folder, device="cpu", dtype="float32")
    query = encoder.encode_tokens([QUESTION], role="query")[0]
    made = encoder.encode_tokens([p.text for p in PASSAGES], role="passage")
    expected = {p.id: maxsim(query, rows) for p, rows in zip(PASSAGES, made, strict=True)}
    settings = {"model": HashEncoder(), "device": "cpu", "dtype": "float32"}
    with Retriever.open(tmp_path / "a", late_encoder=folder, **settings) as retriever:
        retriever.index(PASSAGES)
        hits = retriever.search(QUESTION, 3)
        assert {hit.id: hit.score for hit in hits} == pytest.approx(expected, abs=1e-4)
        assert ids(hits) == sorted(expected, key=expected.__getitem__, reverse=True)
        retriever.save_profile(
            Profile(name="mine", candidates=3, late=3, rerank_depth=0, late_encoder=str(folder))
        )
    with Retriever.open(tmp_path / "a", **settings) as again:
        assert again.late_encoder is again.encoder
        assert {h.id: h.score for h in again.search(QUESTION, 3)} == pytest.approx(
            expected, abs=1e-4
        )
        assert again.profile.late_encoder == str(folder)


def test_what_gives_no_token_vectors_is_refused_at_once(tmp_path):
    with pytest.raises(InputTypeError, match="late_encoder is HashEncoder, expected a ColBERT"):
        Retriever.open(":memory:", model=HashEncoder(), late_encoder=HashEncoder())
    with pytest.raises(InputTypeError, match="late_encoder is the class WordTokens, expected"):
        Retriever.open(":memory:", model=HashEncoder(), late_encoder=WordTokens)
    bi_encoder = tiny_bert(tmp_path / "model")
    with pytest.raises(ModelFormatError, match="is a bi-encoder, expected a ColBERT model"):
        Retriever.open(":memory:", model=HashEncoder(), late_encoder=bi_encoder)
    with pytest.raises(InputTypeError, match=r"Profile\.late_encoder is int, expected str"):
        Profile(late_encoder=1)


def test_a_colbert_folder_as_a_model_or_a_reranker_says_where_it_belongs(colbert_folder):
    folder = colbert_folder("pylate")
    with pytest.raises(ModelFormatError, match="give it as late_encoder"):
        Retriever.open(":memory:", model=folder)
    with pytest.raises(ModelFormatError, match="give it as late_encoder"):
        Retriever.open(":memory:", model=HashEncoder(), reranker=folder)
