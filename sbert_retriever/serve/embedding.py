"""POST /v1/embeddings, in OpenAI's shape, and GET /v1/models."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
from fastapi import APIRouter, Request, Response

from sbert_retriever.errors import InputError
from sbert_retriever.index.vectors import unit_rows
from sbert_retriever.serve.calls import Calls, StrictRoute
from sbert_retriever.serve.problems import responses
from sbert_retriever.serve.schemas import EmbeddingsAnswer, EmbeddingsRequest, ModelList
from sbert_retriever.types import Role


def embedding_routes(calls: Calls) -> APIRouter:
    """The routes that OpenAI's clients ask."""
    router = APIRouter(prefix="/v1", tags=["OpenAI"], route_class=StrictRoute)

    @router.post(
        "/embeddings",
        response_model=EmbeddingsAnswer,
        responses=responses(),
        summary="Vectors of texts",
    )
    async def embeddings(asked: EmbeddingsRequest, request: Request) -> Response:
        texts = input_texts(asked)
        calls.check_count("input", len(texts))
        calls.note(request, texts={"input": texts}, inputs=len(texts))
        return await calls.answer(lambda _: embedded(calls, asked, texts))

    @router.get(
        "/models",
        response_model=ModelList,
        responses=responses(body=False),
        summary="The models of the service",
    )
    async def models() -> Response:
        return await calls.answer(lambda _: {"object": "list", "data": _cards(calls)})

    return router


def input_texts(asked: EmbeddingsRequest) -> list[str]:
    """The texts of a request.

    Raises:
        InputError: There are none, or token numbers in their place.
    """
    if isinstance(asked.input, str):
        return [asked.input]
    texts = [item for item in asked.input if isinstance(item, str)]
    if len(texts) < len(asked.input):
        raise InputError(
            "input is token numbers, and this service reads texts: with langchain-openai pass "
            "check_embedding_ctx_length=False"
        )
    if not texts:
        raise InputError("input is empty: give a text, or a list of texts")
    return texts


def embedded(calls: Calls, asked: EmbeddingsRequest, texts: list[str]) -> dict[str, Any]:
    """Vectors in the shape that was asked for."""
    encoder = calls.service.models.encoder
    role: Role = "query" if "query" in asked.input_type else "passage"
    encode = encoder.encode_queries if role == "query" else encoder.encode_passages
    vectors = cut(encode(texts), asked.dimensions, normalized=bool(encoder.identity.normalize))
    tokens = token_count(encoder.encoder, texts, role)
    shown = _base64 if asked.encoding_format == "base64" else _numbers
    return {
        "object": "list",
        "data": [
            {"object": "embedding", "index": n, "embedding": shown(vector)}
            for n, vector in enumerate(vectors)
        ],
        "model": encoder.identity.name or "encoder",
        "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
    }


def cut(vectors: Any, dimensions: int | None, *, normalized: bool) -> Any:
    """The first dimensions of vectors (n, dim), of length 1 again where they were.

    Raises:
        InputError: There are not so many.
    """
    if dimensions is None:
        return vectors
    if dimensions > vectors.shape[1]:
        raise InputError(
            f"dimensions is {dimensions}, and the model's vectors have {vectors.shape[1]}"
        )
    short = vectors[:, :dimensions]
    if not normalized:
        return short
    return unit_rows(short)


def token_count(encoder: object, texts: list[str], role: Role) -> int:
    """Tokens of texts; words where the encoder does not tell."""
    counts = getattr(encoder, "token_counts", None)
    if counts is None:
        return sum(len(text.split()) for text in texts)
    return int(counts(texts, role=role).sum())


def _numbers(vector: Any) -> list[float]:
    numbers: list[float] = vector.tolist()
    return numbers


def _base64(vector: Any) -> str:
    return base64.b64encode(np.asarray(vector, dtype="<f4").tobytes()).decode("ascii")


def _cards(calls: Calls) -> list[dict[str, Any]]:
    models = calls.service.models
    names = [models.encoder.identity.name or "encoder", models.reranker_name]
    return [
        {"id": name, "object": "model", "created": 0, "owned_by": "sbert-retriever"}
        for name in names
    ]
