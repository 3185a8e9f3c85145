"""Passages to parquet shards with vectors, by many workers; and from there into a collection."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from os import PathLike
from typing import TYPE_CHECKING

from sbert_ray._extra import need_pyarrow, need_ray
from sbert_ray.workers import Workers
from sbert_retriever.errors import ContractError, InputError
from sbert_retriever.index.contract import Contract
from sbert_retriever.ingest.record_fields import Fields
from sbert_retriever.lazy_encoder import LazyEncoder
from sbert_retriever.transfer.importing import import_exported
from sbert_retriever.types import Encoder, IndexReport

if TYPE_CHECKING:
    from ray.data import Dataset

    from sbert_ray._shards import ShardFolder


def encode_to_parquet(
    source: Dataset | str | PathLike[str] | Iterable[str | PathLike[str]],
    folder: str | PathLike[str],
    *,
    model: str | PathLike[str] | Encoder,
    text_field: str | Sequence[str] = "text",
    id_field: str | None = None,
    metadata_fields: Sequence[str] | None = None,
    truncate_dim: int | None = None,
    device: str = "auto",
    dtype: str = "auto",
    workers: Workers | None = None,
    shard_rows: int = 1024,
    on_progress: Callable[[IndexReport], None] | None = None,
) -> IndexReport:
    """Encode passages into parquet shards, with an actor pool of Ray Data.

    Each worker writes its own shards, and a shard is there whole or not at all. A run that was
    killed is run again to go on: passages that are in the folder are not encoded again, and those
    whose text, metadata or source changed are written anew, in the place of the earlier ones.

    Args:
        source: .jsonl, .csv and .parquet files, folders and globs of them, which every worker can
            read; or a `ray.data.Dataset`. A record of a file becomes a passage as it does for
            `sbert-retriever index`. A row of a dataset is a passage (id, text and, where it has
            them, metadata and source), or with `id_field` a record.
        folder: Where the shards go: a path that all workers share, or a URI that pyarrow knows.
        model: A packaged name, a hub id, a folder, or any `Encoder` that can be pickled. Workers
            load it for themselves.
        text_field: The field of the text; of several, those present are joined by a space.
        id_field: The field of the id; None makes "<source>#<line>" of each record of a file.
        metadata_fields: What to keep beside the text; None keeps all other fields.
        truncate_dim: How many numbers of each vector are kept.
        device: "auto", "cpu", "cuda"; for each worker.
        dtype: "auto", "float32", "bfloat16", "float16"; for each worker.
        workers: How many, and what each has.
        shard_rows: The most passages of a shard: what a worker does between two writes.
        on_progress: Called with the report so far, after each shard.

    Returns:
        `added` is what was written, `unchanged` what was there; `failures` names the records that
        cannot be used, and the rest went in.

    Raises:
        ContractError: The folder's vectors were made with another model.
        InputError: A path does not exist, or the workers do not fit.
        InterruptedRunError: Workers failed; what was written is kept.
        MissingExtraError: Ray or pyarrow is not installed.
        ModelNotFoundError: Nothing holds the model's name.

    Warns:
        TruncationWarning: Texts were longer than the model reads.
    """
    need_ray()
    from sbert_ray._cluster import running
    from sbert_ray._models import Model
    from sbert_ray._running import run, warn_of_truncation
    from sbert_ray._shards import Manifest, ShardFolder, next_run
    from sbert_ray._sources import Reading, listed, windows_of
    from sbert_ray._writing import ShardWriter

    fields = Fields.of(text_field, id_field, metadata_fields)
    rows = _at_least_one(shard_rows)
    given = listed(source)
    place = ShardFolder(folder)
    contract = _contract(model, truncate_dim)
    _hold_to(place, contract)
    sent = Model.of(model, device=device, dtype=dtype, truncate_dim=truncate_dim)
    with running(workers or Workers(), over_dataset=not isinstance(given, list)) as pool:
        how = Reading(fields=fields, size=rows, known=_known(place))
        windows = windows_of(given, how, readers=max(2, pool.count))
        place.write_manifest(Manifest(contract=contract))
        place.remove_parts()
        arguments = {
            "place": place.place,
            "run": next_run(place.shards()),
            "model": sent,
            "contract": contract,
        }
        report = run(windows, ShardWriter, arguments, pool=pool, on_progress=on_progress)
    place.write_manifest(Manifest(contract=contract, finished=True))
    warn_of_truncation(report)
    return report


def import_parquet(
    folder: str | PathLike[str],
    location: str | PathLike[str],
    *,
    collection_name: str = "default",
    api_key: str | None = None,
    partial: bool = False,
    on_progress: Callable[[IndexReport], None] | None = None,
) -> IndexReport:
    """Bring what `encode_to_parquet` wrote into a collection, vectors as they are.

    Needs neither Ray nor the model. The collection is created where it is absent; it can be killed
    and run again.

    Args:
        folder: Of the shards.
        location: A folder or a URL.
        collection_name: Which collection there.
        api_key: For a URL; None reads QDRANT_API_KEY.
        partial: Whether to take what there is of a run that has not come to its end.
        on_progress: Called with the report so far.

    Raises:
        ContractError: The collection's vectors are another model's.
        InputError: There are no shards, or the run that writes them has not come to its end.
        MissingExtraError: pyarrow is not installed.
        ReadError: The folder's description is damaged.
    """
    need_pyarrow()
    from sbert_ray._importing import open_shards

    return import_exported(
        open_shards(folder, partial=partial),
        location,
        collection_name=collection_name,
        api_key=api_key,
        on_progress=on_progress,
    )


def _at_least_one(rows: int) -> int:
    if rows < 1:
        raise InputError(f"shard_rows is {rows}, expected at least 1")
    return rows


def _contract(model: str | PathLike[str] | Encoder, truncate_dim: int | None) -> Contract:
    """What the encoder is, found out here without its weights, on whatever device."""
    encoder = LazyEncoder(model, device="cpu", dtype="float32", truncate_dim=truncate_dim)
    return Contract(model=encoder.identity)


def _hold_to(place: ShardFolder, contract: Contract) -> None:
    manifest = place.manifest()
    if manifest is not None:
        differences = manifest.contract.model.differences(contract.model)
        if differences:
            raise ContractError(
                f"the shards in {place.place} were made with {manifest.contract.model.name!r}, not "
                f"with {contract.model.name!r} ({', '.join(differences)} differ): give that model, "
                "or another folder"
            )
    elif place.shards():
        raise InputError(
            f"{place.place} holds parquet files that are not shards of ours: give another folder"
        )


def _known(place: ShardFolder) -> list[object]:
    """A reference to the keys that are written, in a list; an empty one where there are none."""
    import numpy as np
    import ray

    from sbert_ray._shards import KnownKeys, latest

    keys = place.keys(place.shards())
    if not keys:
        return []
    return [ray.put(KnownKeys(np.concatenate(keys)[latest(keys)]))]
