"""Passages into a collection on a Qdrant server, by many workers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any

from sbert_ray._extra import need_ray
from sbert_ray.workers import Workers
from sbert_retriever.errors import InputError
from sbert_retriever.index.steps import RetryPolicy
from sbert_retriever.index.storage import Quantization, Storage
from sbert_retriever.ingest.record_fields import Fields
from sbert_retriever.retriever import Retriever
from sbert_retriever.sparse import Bm25, SparseSpec, as_sparse_encoder
from sbert_retriever.types import Encoder, IndexReport

if TYPE_CHECKING:
    from ray.data import Dataset

_SERVERS = ("http://", "https://")
_WINDOW = 1024


def index(
    source: Dataset | str | PathLike[str] | Iterable[str | PathLike[str]],
    location: str,
    *,
    model: str | PathLike[str] | Encoder | None = None,
    collection_name: str = "default",
    tenant: str | None = None,
    sparse: SparseSpec | None = None,
    quantization: Quantization | None = None,
    storage: Storage | None = None,
    filterable: Mapping[str, str] | None = None,
    text_field: str | Sequence[str] = "text",
    id_field: str | None = None,
    metadata_fields: Sequence[str] | None = None,
    truncate_dim: int | None = None,
    device: str = "auto",
    dtype: str = "auto",
    api_key: str | None = None,
    timeout_s: int | None = None,
    prefer_grpc: bool = False,
    grpc_port: int | None = None,
    retry: RetryPolicy | None = None,
    workers: Workers | None = None,
    on_progress: Callable[[IndexReport], None] | None = None,
) -> IndexReport:
    """Bring a collection on a server in line with passages, with an actor pool of Ray Data.

    Each worker calls `Retriever.index` on its part, so ids, payload and contract are the same, and
    a run that was killed is run again to go on: what the server holds is not encoded again. Unlike
    there, an id that occurs twice with different content is not noticed where two workers have it;
    one of the two stays.

    Args:
        source: As for `encode_to_parquet`.
        location: The server's URL. A folder is held by one process: for that, `encode_to_parquet`
            and `import_parquet`.
        model: As for `Retriever.open`; an `Encoder` must be one that can be pickled. Workers load
            it for themselves.
        collection_name: As for `Retriever.open`; created where it is absent.
        tenant: As for `Retriever.open`.
        sparse: As for `Retriever.open`; workers make it again from what the collection remembers.
        quantization: As for `Retriever.open`.
        storage: As for `Retriever.open`.
        filterable: As for `Retriever.open`.
        text_field: As for `encode_to_parquet`.
        id_field: As for `encode_to_parquet`.
        metadata_fields: As for `encode_to_parquet`.
        truncate_dim: As for `Retriever.open`.
        device: "auto", "cpu", "cuda"; for each worker.
        dtype: "auto", "float32", "bfloat16", "float16"; for each worker.
        api_key: None reads QDRANT_API_KEY, on each worker's machine. What is given is sent to
            them through Ray.
        timeout_s: As for `Retriever.open`.
        prefer_grpc: As for `Retriever.open`.
        grpc_port: As for `Retriever.open`.
        retry: As for `Retriever.open`.
        workers: How many, and what each has.
        on_progress: Called with the report so far, after each window.

    Returns:
        The sum of what the workers did.

    Raises:
        CollectionNotFoundError: There is no such collection, and no model to create it with.
        ContractError: It was built with another model.
        InputError: The location is no URL, a path does not exist, the workers do not fit, or they
            could not make `sparse` again.
        InterruptedRunError: Workers failed; what was written is kept.
        MissingExtraError: Ray is not installed.
        StoreUnavailableError: No server answers, or no longer; what was written is kept.

    Warns:
        TruncationWarning: Texts were longer than the model reads.
    """
    need_ray()
    from sbert_ray._cluster import running
    from sbert_ray._models import Model
    from sbert_ray._running import run, warn_of_truncation
    from sbert_ray._sources import Reading, listed, windows_of
    from sbert_ray._upserting import Indexer
    from sbert_retriever.ingest.files import declared_kinds

    _check_server(location)
    _check_words(sparse)
    fields = Fields.of(text_field, id_field, metadata_fields)
    settings: dict[str, Any] = {
        "collection_name": collection_name,
        "tenant": tenant,
        "api_key": api_key,
        "timeout_s": timeout_s,
        "prefer_grpc": prefer_grpc,
        "grpc_port": grpc_port,
        "retry": retry,
    }
    given = listed(source)
    sent = Model.of(model, device=device, dtype=dtype, truncate_dim=truncate_dim)
    # Made here, once. Its model's weights are not needed for that, whatever the device.
    made = Retriever.open(
        location,
        model=model,
        sparse=sparse,
        quantization=quantization,
        storage=storage,
        filterable=filterable,
        truncate_dim=truncate_dim,
        device="cpu",
        dtype="float32",
        **settings,
    )
    with made:
        kinds = {**declared_kinds(made.store), **(filterable or {})}
    with running(workers or Workers(), over_dataset=not isinstance(given, list)) as pool:
        how = Reading(fields=fields, size=_WINDOW, known=[], kinds=kinds)
        windows = windows_of(given, how, readers=max(2, pool.count))
        arguments = {"location": location, "model": sent, "settings": settings}
        report = run(windows, Indexer, arguments, pool=pool, on_progress=on_progress)
    warn_of_truncation(report)
    return report


def _check_server(location: str) -> None:
    if not isinstance(location, str) or not location.startswith(_SERVERS):
        raise InputError(
            f"location is {location!r:.80}, expected the URL of a Qdrant server, such as "
            "http://127.0.0.1:6333. A folder is held by one process: write shards with "
            "encode_to_parquet and bring them there with import_parquet"
        )


def _check_words(sparse: SparseSpec | None) -> None:
    """Refuse, before anything is created, an encoder that no worker could make again."""
    if sparse is None or isinstance(sparse, str | Bm25):
        return
    identity = as_sparse_encoder(sparse).identity
    if identity.weights is None:
        raise InputError(
            f"sparse is {identity.name!r}, an encoder that workers cannot load by its name: give "
            "'bm25', a Bm25, or a SPLADE model"
        )
