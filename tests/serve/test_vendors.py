"""Clients of OpenAI, LangChain, Jina and Cohere, pointed at the service."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import openai
import pytest
from langchain_openai import OpenAIEmbeddings
from openai import OpenAI

from sbert_retriever import BiEncoder, CrossEncoder

TEXTS = ["A cat purrs.", "Trains run on rails.", "Ein Satz auf Deutsch, äöü."]
CLOSE = 2e-6


@pytest.fixture
def client(served) -> Iterator[OpenAI]:
    with OpenAI(base_url=f"{served.address}/v1", api_key="none is wanted", max_retries=0) as made:
        yield made


@pytest.mark.parametrize("encoding", ["float", "base64"])
def test_openai_gets_the_library_s_vectors(client: OpenAI, minilm: BiEncoder, encoding) -> None:
    answer = client.embeddings.create(model="any", input=TEXTS, encoding_format=encoding)
    rows = [each.embedding for each in answer.data]
    if encoding == "base64" and isinstance(rows[0], str):
        import base64

        rows = [np.frombuffer(base64.b64decode(row), dtype="<f4") for row in rows]
    np.testing.assert_allclose(np.array(rows), minilm.encode_passages(TEXTS), atol=CLOSE)
    assert [each.index for each in answer.data] == [0, 1, 2]
    assert answer.model == "all-MiniLM-L6-v2"
    assert answer.usage.prompt_tokens == minilm.token_counts(TEXTS, role="passage").sum()


def test_openai_s_own_default_is_read(client: OpenAI, minilm: BiEncoder) -> None:
    """The client asks for base64 by itself and hands out numbers."""
    answer = client.embeddings.create(model="any", input="A cat purrs.")
    row = np.array(answer.data[0].embedding)
    np.testing.assert_allclose(row, minilm.encode_passages(TEXTS[:1])[0], atol=CLOSE)


def test_dimensions_are_the_first_ones_at_length_1(client: OpenAI) -> None:
    short = BiEncoder.load("all-MiniLM-L6-v2", device="cpu", dtype="float32", truncate_dim=64)
    answer = client.embeddings.create(model="any", input=TEXTS, dimensions=64)
    rows = np.array([each.embedding for each in answer.data])
    np.testing.assert_allclose(rows, short.encode_passages(TEXTS), atol=CLOSE)
    with pytest.raises(openai.BadRequestError, match="vectors have 384"):
        client.embeddings.create(model="any", input=TEXTS, dimensions=500)


def test_openai_lists_the_models(client: OpenAI) -> None:
    names = [model.id for model in client.models.list()]
    assert names == ["all-MiniLM-L6-v2", "ms-marco-MiniLM-L12-v2"]


def test_token_numbers_and_nothing_are_refused(client: OpenAI) -> None:
    """A client that sends numbers of another model's tokens is told what to change."""
    for numbers in ([1, 2, 3], [[1, 2], [3]]):
        with pytest.raises(openai.BadRequestError, match="check_embedding_ctx_length=False"):
            client.embeddings.create(model="any", input=numbers)
    with pytest.raises(openai.BadRequestError, match="input is empty"):
        client.embeddings.create(model="any", input=[])


def test_langchain_openai_gets_the_library_s_vectors(served, minilm: BiEncoder) -> None:
    embeddings = OpenAIEmbeddings(
        model="all-MiniLM-L6-v2",
        base_url=f"{served.address}/v1",
        api_key="none is wanted",
        check_embedding_ctx_length=False,
    )
    passages = np.array(embeddings.embed_documents(TEXTS))
    np.testing.assert_allclose(passages, minilm.encode_passages(TEXTS), atol=CLOSE)
    query = np.array(embeddings.embed_query("which animal purrs?"))
    expected = minilm.encode_queries(["which animal purrs?"])[0]
    np.testing.assert_allclose(query, expected, atol=CLOSE)


def test_a_wrong_key_is_an_authentication_error(locked) -> None:
    wrong = OpenAI(base_url=f"{locked.address}/v1", api_key="sk-wrong", max_retries=0)
    with wrong, pytest.raises(openai.AuthenticationError, match="missing or wrong"):
        wrong.embeddings.create(model="any", input="a")


DOCUMENTS = [
    "Berlin is well known for its museums.",
    {
        "text": "Berlin had a population of 3,520,031 registered inhabitants in an area of 891.82 "
        "square kilometers."
    },
    "Bread is baked.",
]
QUESTION = "How many people live in Berlin?"


@pytest.mark.parametrize("path", ["/rerank", "/v1/rerank", "/v2/rerank"])
def test_a_rerank_gives_the_cross_encoder_s_probabilities(
    served, path: str, cross_encoder: CrossEncoder
) -> None:
    body = {"model": "rerank-v3.5", "query": QUESTION, "documents": DOCUMENTS, "top_n": 2}
    found = served.post(path, {**body, "return_documents": True}).json()
    texts = [each if isinstance(each, str) else each["text"] for each in DOCUMENTS]
    logits = cross_encoder.score([(QUESTION, text) for text in texts]).astype(float)
    assert [each["index"] for each in found["results"]] == [1, 0]
    for each in found["results"]:
        expected = 1 / (1 + np.exp(-logits[each["index"]]))
        assert each["relevance_score"] == pytest.approx(expected, abs=1e-5)
        assert each["document"]["text"] == texts[each["index"]]
    assert found["model"] == "ms-marco-MiniLM-L12-v2"
    assert found["usage"]["total_tokens"] > 40
    assert "document" not in served.post(path, body).json()["results"][0]


def test_a_rerank_without_documents_is_refused(served) -> None:
    for body in ({"query": "a", "documents": []}, {"query": "a"}, {"documents": ["a"]}):
        assert served.post("/rerank", body).status_code == 422
