"""Token vectors that lie beside a passage's own: late interaction without encoding anew."""

from __future__ import annotations

import numpy as np
import pytest
from qdrant_client import models

from sbert_retriever import BiEncoder, Passage, Profile, Retriever
from sbert_retriever.errors import InputError, InputTypeError
from sbert_retriever.index.storage import Storage
from sbert_retriever.testing import HashEncoder, tiny_bert
from sbert_retriever.transfer import copy_collection

WIDTH = 8
# Unit vectors, so that two words are alike where they are the same, and else by 0.
NAMES = ["red", "blue", "green", "round", "square", "flat"]
WORDS = {name: np.eye(WIDTH)[n] for n, name in enumerate(NAMES)}
PASSAGES = [
    Passage("both", "red round flat flat flat flat"),
    Passage("one", "red red red"),
    Passage("none", "green square"),
]
QUESTION = "red round"
LATE = Profile(candidates=10, rerank_depth=0, late=10)


class WordTokens(HashEncoder):
    """One vector a word, and a count of the passages that it was asked to encode."""

    def __init__(self) -> None:
        super().__init__(dim=32)
        self.passages = 0

    def encode_tokens(self, texts, *, role):
        texts = list(texts)
        self.passages += len(texts) * (role == "passage")
        return [
            np.array([WORDS.get(w, np.eye(WIDTH)[7]) for w in text.split()], dtype=np.float32)
            for text in texts
        ]


@pytest.fixture
def encoder():
    return WordTokens()


@pytest.fixture
def kept(engine, encoder):
    retriever = engine.open(model=encoder, storage=Storage(tokens=True))
    retriever.index(PASSAGES)
    return retriever


def scores(hits):
    return {hit.id: hit.score for hit in hits}


def test_stored_token_vectors_answer_without_encoding_a_passage(kept, encoder):
    """Each word of the question finds itself or nothing: 2, 1 and 0."""
    before = encoder.passages
    hits = kept.search(QUESTION, 3, profile=LATE)
    assert [hit.id for hit in hits] == ["both", "one", "none"]
    assert scores(hits) == {"both": 2.0, "one": 1.0, "none": 0.0}
    assert {hit.score_kind for hit in hits} == {"maxsim"}
    assert {hit.first_score_kind for hit in hits} == {"cosine"}
    assert encoder.passages == before
    assert kept.info().tokens


async def test_an_event_loop_gets_the_same(kept):
    found = await kept.asearch_batch([QUESTION, "square"], 3, profile=LATE)
    assert [hits[0].id for hits in found] == ["both", "none"]
    assert scores(found[0]) == {"both": 2.0, "one": 1.0, "none": 0.0}


def test_a_changed_text_changes_its_token_vectors_and_new_metadata_keeps_them(kept, encoder):
    kept.index([Passage("one", "round"), Passage("none", "green square", {"kind": "shape"})])
    before = encoder.passages
    assert scores(kept.search("round square", 3, profile=LATE)) == {
        "both": 1.0,
        "one": 1.0,
        "none": 1.0,
    }
    assert encoder.passages == before


def test_without_stored_ones_candidates_are_encoded_and_score_alike(engine, encoder):
    retriever = engine.open(model=encoder)
    retriever.index(PASSAGES)
    assert not retriever.info().tokens
    hits = retriever.search(QUESTION, 3, profile=LATE)
    assert scores(hits) == {"both": 2.0, "one": 1.0, "none": 0.0}
    assert encoder.passages == 3


def test_more_passages_than_are_encoded_at_once(kept):
    """Token vectors are made for a few passages at a time."""
    many = [Passage(f"p{n}", f"{'round ' * (n % 3)}flat") for n in range(100)]
    report = kept.index(many)
    assert report.added == 100
    assert kept.count() == 103
    hits = kept.search("round flat", 100, profile=Profile(candidates=103, rerank_depth=0, late=103))
    found = scores(hits)
    assert all(found[f"p{n}"] == (2.0 if n % 3 else 1.0) for n in range(100) if f"p{n}" in found)
    assert [hit.score for hit in hits] == sorted(found.values(), reverse=True)


def test_vectors_that_are_read_are_the_passages_own(kept, encoder):
    store = kept.store
    vector = store.connection.run(store.vector("one"))
    assert vector == pytest.approx(encoder.encode_passages(["red red red"])[0], abs=1e-6)
    assert kept.similar("both", 2)


def test_an_encoder_without_token_vectors_is_refused_before_anything_is_made(tmp_path):
    with pytest.raises(InputError, match="HashEncoder gives none: use a BiEncoder"):
        Retriever.open(tmp_path, model=HashEncoder(), storage=Storage(tokens=True))
    assert not (tmp_path / "default").exists()
    with pytest.raises(InputTypeError, match=r"Storage\.tokens is 1, expected True or False"):
        Storage(tokens=1)


def test_a_copy_keeps_how_vectors_are_kept(tmp_path):
    """Token vectors are made again, by the collection's own model."""
    model = tiny_bert(tmp_path / "model")
    storage = Storage(tokens=True, quantization="turbo", datatype="float16", m=8)
    with Retriever.open(tmp_path / "a", model=model, storage=storage) as original:
        original.index(PASSAGES)
        expected = original.search(QUESTION, 3, profile=LATE)
    copy_collection(tmp_path / "a", tmp_path / "b")
    with Retriever.open(tmp_path / "b") as copy:
        assert copy.store.connection.run(copy.store.facts()).storage == Storage(
            tokens=True,
            quantization=models.TurboQuantization(
                turbo=models.TurboQuantQuantizationConfig(
                    bits=models.TurboQuantBitSize.BITS4, always_ram=True
                )
            ),
            datatype="float16",
            m=8,
        )
        rows = copy.encoder.encode_tokens([QUESTION], role="query")[0]
        kept = copy.store.connection.run(copy.store.token_scores(rows, ["both", "one", "none"]))
        found = copy.search(QUESTION, 3, profile=LATE)
    assert scores(found) == pytest.approx(scores(expected), abs=1e-3)
    assert scores(found) == pytest.approx(kept, abs=1e-6)


def test_vectors_cut_when_they_are_indexed(tmp_path):
    model = tiny_bert(tmp_path / "model")
    how = {"device": "cpu", "dtype": "float32"}
    with Retriever.open(tmp_path / "a", model=model, truncate_dim=8, **how) as retriever:
        retriever.index(PASSAGES)
        assert retriever.info().dim == 8
        stored = retriever.store.connection.run(retriever.store.vector("one"))
    whole = BiEncoder.load(model, **how).encode_passages(["red red red"])[0]
    assert stored == pytest.approx(whole[:8] / np.linalg.norm(whole[:8]), abs=1e-5)
    with Retriever.open(tmp_path / "a", **how) as retriever:
        assert retriever.encoder.dim == 8
        assert retriever.search("red red red", 1)[0].score == pytest.approx(1.0, abs=1e-5)
    with pytest.raises(InputError, match="truncate_dim goes with a model's name"):
        Retriever.open(tmp_path / "a", truncate_dim=8)
