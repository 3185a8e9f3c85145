"""How a collection keeps its vectors: precision, compression, place, and copies on a cluster."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias, get_args

from qdrant_client import models

from sbert_retriever.errors import InputError, InputTypeError
from sbert_retriever.index.points import TOKENS_NAME
from sbert_retriever.types.checks import whole

Quantization: TypeAlias = Literal["int8", "product", "binary", "turbo"]
Datatype: TypeAlias = Literal["float32", "float16"]

_WHOLE = ("m", "ef_construct", "shards", "replicas", "write_consistency")
# Without it, comparing again changes nothing: the true neighbours are not among those looked at.
_OVERSAMPLING = 2.0
_ON_A_SERVER = ("shards", "replicas", "write_consistency")


@dataclass(frozen=True, kw_only=True)
class Storage:
    """How a new collection keeps its vectors. None is the engine's own.

    Args:
        quantization: A small copy of the vectors that searches look at first: "int8" (a quarter of
            the bytes), "turbo" (an eighth), "product" (a sixteenth), "binary" (a thirty-second),
            or Qdrant's own configuration. The vectors themselves stay, and the best by the copy are
            compared by them again.
        datatype: "float16" halves the vectors themselves.
        on_disk: Whether vectors stay on disk and not in memory.
        m: Links of a vector in the graph.
        ef_construct: Width of the walk when the graph is built.
        tokens: Whether the vectors of each passage's tokens are kept too, on disk in float16, so
            that late interaction compares them instead of encoding the candidates anew: width * 2
            bytes a token, about 200 KB for a passage of 256 tokens of MiniLM.
        shards: Parts of the collection on a cluster.
        replicas: Copies of each part.
        write_consistency: Copies that have to confirm a write.
        shard_by_tenant: Whether each tenant has parts of its own, which its calls alone reach;
            takes a cluster of Qdrant 1.17 or newer.

    Raises:
        InputError: A value is unknown or too small.
        InputTypeError: A number is no whole number.
    """

    quantization: Quantization | models.QuantizationConfig | None = None
    datatype: Datatype | None = None
    on_disk: bool | None = None
    m: int | None = None
    ef_construct: int | None = None
    tokens: bool = False
    shards: int | None = None
    replicas: int | None = None
    write_consistency: int | None = None
    shard_by_tenant: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.quantization, str):
            _known("quantization", self.quantization, get_args(Quantization))
        if self.datatype is not None:
            _known("datatype", self.datatype, get_args(Datatype))
        for name in _WHOLE:
            if (value := getattr(self, name)) is not None:
                whole(f"Storage.{name}", value, least=1)
        for name in ("tokens", "shard_by_tenant"):
            if not isinstance(value := getattr(self, name), bool):
                raise InputTypeError(f"Storage.{name} is {value!r}, expected True or False")

    def vector_params(self, *, size: int, distance: models.Distance) -> models.VectorParams:
        """The parameters of the dense vector."""
        hnsw = None
        if self.m is not None or self.ef_construct is not None:
            hnsw = models.HnswConfigDiff(m=self.m, ef_construct=self.ef_construct)
        return models.VectorParams(
            size=size,
            distance=distance,
            on_disk=self.on_disk,
            datatype=models.Datatype(self.datatype) if self.datatype is not None else None,
            quantization_config=_quantization(self.quantization),
            hnsw_config=hnsw,
        )

    def token_params(self, *, width: int) -> models.VectorParams:
        """The parameters of the token vectors, which no graph leads to: candidates are compared.

        Args:
            width: Of a token vector.
        """
        comparator = models.MultiVectorComparator.MAX_SIM
        return models.VectorParams(
            size=width,
            distance=models.Distance.DOT,
            on_disk=True,
            datatype=models.Datatype.FLOAT16,
            hnsw_config=models.HnswConfigDiff(m=0),
            multivector_config=models.MultiVectorConfig(comparator=comparator),
        )

    def moved(self) -> Storage:
        """The same for another place, whose nodes are others: copies and parts left out."""
        return replace(
            self, shards=None, replicas=None, write_consistency=None, shard_by_tenant=False
        )

    def cluster_params(self, *, server: bool) -> dict[str, Any]:
        """What a server is told of copies and parts.

        Raises:
            InputError: They are asked for where there is no server.
        """
        said: dict[str, Any] = {
            name: value for name in _ON_A_SERVER if (value := getattr(self, name)) is not None
        }
        if self.shard_by_tenant:
            said["shard_by_tenant"] = models.ShardingMethod.CUSTOM
        if said and not server:
            raise InputError(
                f"Storage.{next(iter(said))} is for a Qdrant server, and this collection is in "
                "this process: leave it out"
            )
        names = {
            "shards": "shard_number",
            "replicas": "replication_factor",
            "write_consistency": "write_consistency_factor",
            "shard_by_tenant": "sharding_method",
        }
        return {names[name]: value for name, value in said.items()}


def joined(
    storage: Storage | None, quantization: Quantization | models.QuantizationConfig | None
) -> Storage:
    """Both ways to say how vectors are quantised, as one.

    Raises:
        InputError: Both say it.
        InputTypeError: The storage is no `Storage`.
    """
    if storage is None:
        return Storage(quantization=quantization)
    if not isinstance(storage, Storage):
        raise InputTypeError(f"storage is {type(storage).__name__}, expected a Storage")
    if quantization is not None and storage.quantization is not None:
        raise InputError("quantization= and storage= both say how to quantise: give one of them")
    return storage if quantization is None else replace(storage, quantization=quantization)


def storage_of(
    config: models.CollectionConfig, *, vector_name: str, server: bool = False
) -> Storage:
    """How a collection that is there keeps its vectors.

    Args:
        config: Of the collection.
        vector_name: Of its dense vectors.
        server: Whether to tell of copies and parts, which mean something on a server only.

    Raises:
        KeyError: It has no vector of that name.
    """
    vectors = named_vectors(config)
    params = vectors[vector_name]
    graph = params.hnsw_config or models.HnswConfigDiff()
    half = params.datatype == models.Datatype.FLOAT16
    spread = _spread(config.params) if server else {}
    return Storage(
        quantization=params.quantization_config or config.quantization_config,
        datatype="float16" if half else None,
        on_disk=params.on_disk,
        m=graph.m or None,
        ef_construct=graph.ef_construct or None,
        tokens=TOKENS_NAME in vectors,
        **spread,
    )


def _spread(params: models.CollectionParams) -> dict[str, Any]:
    return {
        "shards": params.shard_number,
        "replicas": params.replication_factor,
        "write_consistency": params.write_consistency_factor,
        "shard_by_tenant": params.sharding_method == models.ShardingMethod.CUSTOM,
    }


def named_vectors(config: models.CollectionConfig) -> dict[str, models.VectorParams]:
    """The dense vectors of a collection; "" is the name of Qdrant's unnamed one."""
    vectors = config.params.vectors
    return {"": vectors} if isinstance(vectors, models.VectorParams) else dict(vectors or {})


def quantized_search(params: models.SearchParams | None) -> models.SearchParams:
    """Search parameters for a collection with small copies, where they leave it open.

    An exact search looks at the vectors themselves; any other looks at twice as many copies as are
    asked for, and compares those by the vectors.
    """
    asked = params or models.SearchParams()
    if asked.exact:
        chosen = models.QuantizationSearchParams(ignore=True)
    else:
        said = asked.quantization or models.QuantizationSearchParams()
        rescore = said.rescore is not False
        most = _OVERSAMPLING if said.oversampling is None and rescore else said.oversampling
        chosen = said.model_copy(update={"rescore": rescore, "oversampling": most})
    return asked.model_copy(update={"quantization": chosen})


def _quantization(
    asked: Quantization | models.QuantizationConfig | None,
) -> models.QuantizationConfig | None:
    if asked == "int8":
        int8 = models.ScalarQuantizationConfig(
            type=models.ScalarType.INT8, quantile=0.99, always_ram=True
        )
        return models.ScalarQuantization(scalar=int8)
    if asked == "product":
        product = models.ProductQuantizationConfig(
            compression=models.CompressionRatio.X16, always_ram=True
        )
        return models.ProductQuantization(product=product)
    if asked == "binary":
        return models.BinaryQuantization(binary=models.BinaryQuantizationConfig(always_ram=True))
    if asked == "turbo":
        bits = models.TurboQuantBitSize.BITS4
        turbo = models.TurboQuantQuantizationConfig(bits=bits, always_ram=True)
        return models.TurboQuantization(turbo=turbo)
    return asked


def _known(name: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        listed = ", ".join(map(repr, known))
        raise InputError(f"Storage.{name} is {value!r}, expected one of {listed}")
