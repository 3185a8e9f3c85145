"""Configuration of collections and payload indexes in the embedded engine's own classes."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from functools import cache
from typing import Any

import qdrant_edge as edge
from qdrant_client import models

from sbert_retriever.errors import InputError

# Qdrant's own defaults, which the engine wants spelt out.
_HNSW_M = 16
_HNSW_EF_CONSTRUCT = 100
_HNSW_FULL_SCAN_KB = 10_000


def edge_config(
    vectors_config: models.VectorParams | Mapping[str, models.VectorParams] | None = None,
    sparse_vectors_config: Mapping[str, models.SparseVectorParams] | None = None,
    *,
    hnsw_config: models.HnswConfigDiff | None = None,
    quantization_config: models.QuantizationConfig | None = None,
    on_disk_payload: bool | None = None,
) -> edge.EdgeConfig:
    """The engine's configuration from what `QdrantClient.create_collection` takes."""
    named = (
        {"": vectors_config}
        if isinstance(vectors_config, models.VectorParams)
        else vectors_config or {}
    )
    sparse = sparse_vectors_config or {}
    return edge.EdgeConfig(
        vectors={name: edge_vector_params(params) for name, params in named.items()} or None,
        sparse_vectors={n: edge_sparse_params(params) for n, params in sparse.items()} or None,
        on_disk_payload=on_disk_payload,
        hnsw_config=edge_hnsw(hnsw_config),
        quantization_config=edge_quantization(quantization_config),
    )


def edge_vector_params(params: models.VectorParams) -> edge.EdgeVectorParams:
    """Parameters of a dense vector."""
    return edge.EdgeVectorParams(
        size=params.size,
        distance=twin(edge.Distance, params.distance),
        on_disk=params.on_disk,
        memory=twin(edge.Memory, params.memory),
        multivector_config=_multivector(params.multivector_config),
        datatype=twin(edge.VectorStorageDatatype, params.datatype),
        quantization_config=edge_quantization(params.quantization_config),
        hnsw_config=edge_hnsw(params.hnsw_config),
    )


def _multivector(config: models.MultiVectorConfig | None) -> edge.MultiVectorConfig | None:
    if config is None:
        return None
    return edge.MultiVectorConfig(twin(edge.MultiVectorComparator, config.comparator))


def edge_sparse_params(params: models.SparseVectorParams) -> edge.EdgeSparseVectorParams:
    """Parameters of a sparse vector."""
    index = params.index or models.SparseIndexParams()
    return edge.EdgeSparseVectorParams(
        full_scan_threshold=index.full_scan_threshold,
        on_disk=index.on_disk,
        memory=twin(edge.Memory, index.memory),
        datatype=twin(edge.VectorStorageDatatype, index.datatype),
        modifier=twin(edge.Modifier, params.modifier),
    )


def edge_hnsw(config: models.HnswConfigDiff | None) -> edge.HnswIndexConfig | None:
    """The graph's parameters; what is unset takes Qdrant's default."""
    if config is None:
        return None
    return edge.HnswIndexConfig(
        m=_default(config.m, _HNSW_M),
        ef_construct=_default(config.ef_construct, _HNSW_EF_CONSTRUCT),
        full_scan_threshold=_default(config.full_scan_threshold, _HNSW_FULL_SCAN_KB),
        max_indexing_threads=_default(config.max_indexing_threads, 0),
        on_disk=config.on_disk,
        memory=twin(edge.Memory, config.memory),
        payload_m=config.payload_m,
        inline_storage=config.inline_storage,
    )


def _default(value: int | None, default: int) -> int:
    return default if value is None else value


def edge_quantization(config: models.QuantizationConfig | None) -> Any:
    """One of the engine's four quantisation classes."""
    if config is None:
        return None
    if isinstance(config, models.ScalarQuantization):
        return _twin_object(edge.ScalarQuantizationConfig, config.scalar, type=edge.ScalarType)
    if isinstance(config, models.ProductQuantization):
        return _twin_object(
            edge.ProductQuantizationConfig, config.product, compression=edge.CompressionRatio
        )
    if isinstance(config, models.BinaryQuantization):
        return _twin_object(
            edge.BinaryQuantizationConfig,
            config.binary,
            encoding=edge.BinaryQuantizationEncoding,
            query_encoding=edge.BinaryQuantizationQueryEncoding,
        )
    if isinstance(config, models.TurboQuantization):
        return _twin_object(
            edge.TurboQuantQuantizationConfig, config.turbo, bits=edge.TurboQuantBitSize
        )
    raise InputError(
        f"quantization_config is {type(config).__name__}, expected scalar, product, binary or "
        "turbo quantisation of qdrant_client.models"
    )


def edge_payload_schema(schema: Any) -> Any:
    """A payload index: "keyword", a `models.PayloadSchemaType` or one of its parameter classes.

    Raises:
        InputError: Anything else.
    """
    if isinstance(schema, models.TextIndexParams):
        return _text_index(schema)
    if isinstance(schema, _INDEX_PARAMS):
        return _twin_object(getattr(edge, type(schema).__name__), schema, skip=("type",))
    try:
        return twin(edge.PayloadSchemaType, models.PayloadSchemaType(schema))
    except ValueError:
        known = ", ".join(kind.value for kind in models.PayloadSchemaType)
        raise InputError(f"payload schema is {schema!r:.60}, expected one of {known}") from None


def _text_index(schema: models.TextIndexParams) -> edge.TextIndexParams:
    return edge.TextIndexParams(
        tokenizer=twin(edge.TokenizerType, schema.tokenizer),
        min_token_len=schema.min_token_len,
        max_token_len=schema.max_token_len,
        lowercase=schema.lowercase,
        ascii_folding=schema.ascii_folding,
        phrase_matching=schema.phrase_matching,
        stopwords=_stopwords(schema.stopwords),
        on_disk=schema.on_disk,
        stemmer=_stemmer(schema.stemmer),
        enable_hnsw=schema.enable_hnsw,
        memory=twin(edge.Memory, schema.memory),
        scoring=edge.TextScoringParams() if schema.scoring else None,
        nested=schema.nested,
    )


def _stopwords(words: models.Language | models.StopwordsSet | None) -> Any:
    if isinstance(words, models.StopwordsSet):
        languages = {twin(edge.Language, language) for language in words.languages or ()}
        return edge.StopwordsSet(languages, set(words.custom or ()))
    return twin(edge.Language, words)


def _stemmer(stemmer: models.StemmingAlgorithm | None) -> Any:
    if isinstance(stemmer, models.SnowballParams):
        return edge.SnowballParams(twin(edge.SnowballLanguage, stemmer.language))
    return edge.DisabledStemmer() if stemmer is not None else None


_INDEX_PARAMS = (
    models.KeywordIndexParams,
    models.IntegerIndexParams,
    models.FloatIndexParams,
    models.GeoIndexParams,
    models.BoolIndexParams,
    models.DatetimeIndexParams,
    models.UuidIndexParams,
)


def _twin_object(kind: Any, model: Any, *, skip: tuple[str, ...] = (), **enums: Any) -> Any:
    """The engine's object with the fields of the client's; enums go to the engine's own."""
    enums["memory"] = edge.Memory
    fields = {name: getattr(model, name) for name in type(model).model_fields if name not in skip}
    return kind(**{n: twin(enums[n], v) if n in enums else v for n, v in fields.items()})


def twin(kind: Any, member: Enum | None) -> Any:
    """The engine's enum member of the same name, whatever its spelling; None for None."""
    return None if member is None else _members(kind)[_bare(str(member.value))]


@cache
def _members(kind: Any) -> dict[str, Any]:
    return {_bare(name): getattr(kind, name) for name in dir(kind) if not name.startswith("_")}


def _bare(name: str) -> str:
    return name.replace("_", "").lower()
