"""Small copies of vectors, half precision, and what a server alone can do."""

from __future__ import annotations

import zlib
from dataclasses import replace

import numpy as np
import pytest
from qdrant_client import models

from sbert_retriever import Passage, Retriever
from sbert_retriever.errors import InputError, InputTypeError, ModelError
from sbert_retriever.index.storage import Storage
from sbert_retriever.testing import HashEncoder

DIM = 64
PASSAGES = [Passage(f"p{n}", f"text {n}", {"n": n}) for n in range(400)]
QUESTIONS = [f"question {n}" for n in range(40)]


class Scattered(HashEncoder):
    """A vector of its own for each text."""

    def encode_passages(self, texts):
        rows = [np.random.default_rng(zlib.crc32(t.encode())).normal(size=DIM) for t in texts]
        matrix = np.array(rows, dtype=np.float32).reshape(len(rows), DIM)
        return matrix / np.linalg.norm(matrix, axis=1, keepdims=True)

    def encode_queries(self, texts):
        return self.encode_passages(texts)


ENCODER = Scattered(dim=DIM)
ROWS = ENCODER.encode_passages([p.text for p in PASSAGES])
TRUTH = [
    [PASSAGES[n].id for n in np.argsort(-(ROWS @ vector))[:10]]
    for vector in ENCODER.encode_queries(QUESTIONS)
]


def recall(retriever, **options):
    found = retriever.search_batch(QUESTIONS, 10, **options)
    pairs = zip(found, TRUTH, strict=True)
    return float(np.mean([len({h.id for h in hits} & set(truth)) / 10 for hits, truth in pairs]))


@pytest.mark.parametrize("kind", ["int8", "turbo", "product", "binary"])
def test_an_exact_search_looks_at_the_vectors_themselves(lasting_engine, kind):
    if kind == "turbo":
        lasting_engine.needs(1, 18)
    first = lasting_engine.open(model=ENCODER, quantization=kind)
    first.index(PASSAGES)
    for retriever in (first, lasting_engine.open(model=ENCODER)):
        assert recall(retriever, exact=True) == 1.0
        hits = retriever.search(QUESTIONS[0], 3, exact=True)
        assert [hit.id for hit in hits] == TRUTH[0][:3]


def test_comparing_again_brings_back_what_the_copies_lose(tmp_path):
    """Copies of one bit a number put the neighbours in a coarse order."""
    with Retriever.open(tmp_path, model=ENCODER, quantization="binary") as retriever:
        retriever.index(PASSAGES)
        coarse = recall(retriever, rescore=False)
        twice = recall(retriever)
        eight = recall(retriever, oversampling=8)
        # As many as there are passages.
        assert recall(retriever, oversampling=40) == 1.0
    assert coarse < twice < eight
    with Retriever.open(tmp_path, model=ENCODER) as retriever:
        assert recall(retriever) == twice


def test_more_copies_are_compared_again_without_saying_so(tmp_path):
    """`oversampling` alone rescores, as no word of it does; `rescore` alone looks at twice ten."""
    with Retriever.open(tmp_path, model=ENCODER, quantization="binary") as retriever:
        retriever.index(PASSAGES)
        assert recall(retriever, oversampling=40) == 1.0
        assert recall(retriever, oversampling=8) == recall(retriever, oversampling=8, rescore=True)
        assert recall(retriever, rescore=True) == recall(retriever, oversampling=2)
        hit = retriever.search(QUESTIONS[0], 1, oversampling=40)[0]
        assert hit.score == pytest.approx(
            float(np.max(ROWS @ ENCODER.encode_queries(QUESTIONS)[0]))
        )


def test_half_precision_keeps_the_neighbours(engine):
    retriever = engine.open(model=ENCODER, storage=Storage(datatype="float16", on_disk=True))
    retriever.index(PASSAGES)
    assert recall(retriever) > 0.98
    vector = retriever.store.connection.run(retriever.store.vector("p7"))
    assert np.abs(vector - ROWS[7]).max() < 1e-3


class Long(HashEncoder):
    """Vectors that are compared by their dot product, one of them longer than float16 goes."""

    @property
    def identity(self):
        return replace(super().identity, similarity="dot")

    def encode_passages(self, texts):
        rows = super().encode_passages(texts)
        return rows * np.array([[1e5 if text == "long" else 1.0] for text in texts], np.float32)


def test_half_precision_refuses_what_it_would_make_infinite(engine):
    """Beyond 65,504 the engine would keep an infinity, and searches would come back wrong."""
    retriever = engine.open(model=Long(dim=DIM), storage=Storage(datatype="float16"))
    given = [Passage("a", "cats purr"), Passage("b", "long"), Passage("c", "dogs bark")]
    with pytest.raises(InputError, match=r"'b' \(too large for float16"):
        retriever.index(given, strict=True)
    report = retriever.index(given)
    assert (report.added, [failure.id for failure in report.failures]) == (2, ["b"])
    assert retriever.search("dogs bark", 1)[0].id == "c"
    with pytest.raises(ModelError, match=r"query 0 .* is too large for float16"):
        retriever.search("long")
    with pytest.raises(InputError, match="the query vector is too large for float16"):
        retriever.search_by_vector([7e4] * DIM)
    assert len(retriever.search_by_vector([6e4] * DIM)) == 2


def test_the_graphs_shape_and_qdrants_own_configuration(lasting_engine):
    scalar = models.ScalarQuantizationConfig(type=models.ScalarType.INT8, quantile=0.95)
    storage = Storage(quantization=models.ScalarQuantization(scalar=scalar), m=8, ef_construct=40)
    retriever = lasting_engine.open(model=ENCODER, storage=storage)
    retriever.index(PASSAGES)
    assert recall(retriever) > 0.95


def test_what_needs_a_server_says_so(tmp_path):
    for storage in (Storage(shards=2), Storage(replicas=2), Storage(write_consistency=1)):
        with pytest.raises(InputError, match="is for a Qdrant server"):
            Retriever.open(tmp_path / "x", model=ENCODER, storage=storage)
        with pytest.raises(InputError, match="is for a Qdrant server"):
            Retriever.open(":memory:", model=ENCODER, storage=storage)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"quantization": "int4"}, "Storage.quantization is 'int4', expected one of 'int8'"),
        ({"datatype": "uint8"}, "Storage.datatype is 'uint8', expected one of 'float32'"),
        ({"m": 0}, "Storage.m is 0, expected 1 or more"),
        ({"m": 1.5}, "Storage.m is 1.5, expected a whole number"),
    ],
)
def test_wrong_settings_are_one_sentence(settings, message):
    with pytest.raises((InputError, InputTypeError), match=message):
        Storage(**settings)


def test_both_ways_to_say_it_are_one_too_many(tmp_path):
    with pytest.raises(InputError, match="both say how to quantise"):
        Retriever.open(
            tmp_path, model=ENCODER, quantization="int8", storage=Storage(quantization="int8")
        )
    with pytest.raises(InputTypeError, match="storage is str, expected a Storage"):
        Retriever.open(tmp_path, model=ENCODER, storage="int8")
    with Retriever.open(tmp_path, model=ENCODER, quantization="int8", storage=Storage(m=8)) as r:
        r.index(PASSAGES[:5])
        with pytest.raises(
            InputError, match=r"oversampling is 0\.5, expected a finite number of 1 or more"
        ):
            r.search("text", oversampling=0.5)
