"""Documents to passages and back, and embeddings to encoders and back, without a store."""

from __future__ import annotations

import uuid
from typing import Any

import numpy as np
import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding, Embeddings
from langchain_sbert import SBERTEmbeddings
from langchain_sbert._adapters import EmbeddingsEncoder, EncoderEmbeddings, encoder_of
from langchain_sbert._convert import (
    document,
    hits_of_documents,
    passages_of_documents,
    passages_of_texts,
)
from pydantic import BaseModel

from sbert_retriever import BiEncoder, Passage
from sbert_retriever.errors import InputTypeError, ModelError
from sbert_retriever.types import Encoder, ModelIdentity


def test_a_document_makes_the_round_trip() -> None:
    given = Document("text", id="./a.md_1", metadata={"source": "a.md", "page": 2})
    (passage,) = passages_of_documents([given], None)
    assert passage == Passage("./a.md_1", "text", {"source": "a.md", "page": 2}, "a.md")
    assert document(passage) == given


def test_a_source_that_is_no_string_is_metadata_only() -> None:
    (passage,) = passages_of_texts(["text"], [{"source": 7}], ["1"])
    assert passage == Passage("1", "text", {"source": 7}, None)


def test_a_passage_written_elsewhere_brings_its_source() -> None:
    """A file indexed from a shell has its path as source alone: a chain wants to cite it."""
    passage = Passage("notes/a.md#0", "text", {"chunk": 0}, "notes/a.md")
    made = document(passage)
    assert made.metadata == {"chunk": 0, "source": "notes/a.md"}
    assert passage.metadata == {"chunk": 0}
    (again,) = passages_of_documents([made], None)
    assert again.source == "notes/a.md"
    own = Passage("1", "text", {"source": "The Times"}, "press.csv")
    assert document(own).metadata == {"source": "The Times"}


def test_missing_ids_are_random_uuids() -> None:
    one, two, three = passages_of_documents(
        [Document("a"), Document("a"), Document("b", id="b")], None
    )
    assert uuid.UUID(one.id).version == uuid.UUID(two.id).version == 4
    assert one.id != two.id
    assert three.id == "b"


def test_ids_given_come_before_the_documents_own() -> None:
    (passage,) = passages_of_documents([Document("a", id="own")], ["given"])
    assert passage.id == "given"


def test_empty_values_are_values() -> None:
    (passage,) = passages_of_texts([""], [{}], ["1"])
    assert passage == Passage("1", "", {}, None)


def test_our_embeddings_are_their_encoder(minilm_embeddings: SBERTEmbeddings) -> None:
    encoder = encoder_of(minilm_embeddings)
    assert isinstance(encoder, BiEncoder)
    assert encoder is minilm_embeddings.encoder
    assert encoder.identity.weights


def test_foreign_embeddings_are_known_by_class_and_width() -> None:
    encoder = encoder_of(DeterministicFakeEmbedding(size=6))
    assert isinstance(encoder, Encoder)
    assert encoder.identity == ModelIdentity(name="DeterministicFakeEmbedding", dim=6)
    assert encoder.encode_passages(iter(["a", "b"])).shape == (2, 6)
    assert encoder.encode_queries(["a"]).dtype == np.float32
    assert encoder.encode_passages([]).shape == encoder.encode_queries([]).shape == (0, 6)


class Remote(BaseModel, Embeddings):
    """Embeddings that name their model and give what they are told to."""

    model: str = "text-1"
    rows: list[list[float]] = [[1.0, 0.0]]

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return self.rows

    def embed_query(self, text: str) -> list[float]:
        return [1.0, 0.0]


def test_foreign_embeddings_that_name_their_model() -> None:
    one, other = EmbeddingsEncoder(Remote()), EmbeddingsEncoder(Remote(model="text-2"))
    assert one.identity == ModelIdentity(name="Remote(text-1)", dim=2)
    assert one.identity.differences(other.identity) == {
        "name": ("Remote(text-1)", "Remote(text-2)")
    }


def test_embeddings_that_lose_a_text_are_refused() -> None:
    """Vectors fewer than texts would slide onto the wrong texts, so none is used."""
    with pytest.raises(ModelError, match="gave 1 vectors for 2 texts"):
        EmbeddingsEncoder(Remote()).encode_passages(["a", "b"])


@pytest.mark.parametrize("rows", [None, 3, [None], ["abc"], [["a", "b"]]])
def test_embeddings_that_give_no_vectors_are_refused(rows: Any) -> None:
    class Odd(Remote):
        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            return rows  # type: ignore[no-any-return]  # that it lies is the case

        def embed_query(self, text: str) -> list[float]:
            return rows[0] if isinstance(rows, list) else rows  # type: ignore[no-any-return]

    with pytest.raises(ModelError, match="Odd gave"):
        EmbeddingsEncoder(Odd()).encode_passages(["a"])
    with pytest.raises(ModelError, match="Odd gave"):
        EmbeddingsEncoder(Odd()).dim  # noqa: B018  # it is measured when first asked for


def test_embeddings_that_change_their_width_are_refused() -> None:
    with pytest.raises(ModelError, match="3 dimensions, and its others have 2"):
        EmbeddingsEncoder(Remote(rows=[[1, 0], [1, 0, 0]])).encode_passages(["a", "b"])


@pytest.mark.parametrize("wrong", ["all-MiniLM-L6-v2", None, len])
def test_what_is_no_embeddings(wrong: Any) -> None:
    with pytest.raises(InputTypeError, match="expected LangChain Embeddings"):
        encoder_of(wrong)


def test_an_encoder_as_embeddings(minilm: BiEncoder) -> None:
    embeddings = EncoderEmbeddings(lambda: minilm)
    expected = minilm.encode_queries(["cats"])[0]
    assert embeddings.embed_query("cats") == expected.tolist()
    assert len(embeddings.embed_documents(["a", "b"])) == 2


@pytest.mark.parametrize("scores", [{"score": 0.5}, {"score": 0.5, "score_kind": "mine"}, 0.5, []])
def test_metadata_of_others_under_our_key_is_no_score(scores: object) -> None:
    """It was a KeyError, or a hit of a kind that is none; now the document has its rank."""
    (hit,) = hits_of_documents([Document("a", metadata={"_sbert": scores})])
    assert (hit.score, hit.score_kind) == (1.0, "rrf")
