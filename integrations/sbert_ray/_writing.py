"""The worker that encodes windows into shards, one file a window."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sbert_ray._answers import answers
from sbert_ray._models import Model
from sbert_ray._shards import ShardFolder, shard_name
from sbert_ray._windows import KEY_BYTES, key_of
from sbert_retriever.index.contract import Contract
from sbert_retriever.index.points import Layout, draft
from sbert_retriever.index.vectors import faulty_rows
from sbert_retriever.ingest.encoding import Encoded
from sbert_retriever.types import Failure, IndexReport, Passage


class ShardWriter:
    """An actor: loads its own encoder, and writes where everybody can read.

    Args:
        place: Of the folder.
        run: The number of this run.
        model: What to load.
        contract: What the encoder must be.
    """

    def __init__(self, *, place: str, run: int, model: Model, contract: Contract) -> None:
        self._place = place
        self._run = run
        self._model = model
        self._contract = contract
        self._ready: Any = None

    def __call__(self, batch: Mapping[str, Any]) -> dict[str, list[str]]:
        """An answer to each window."""
        return answers(batch, self._write)

    def _write(self, passages: list[Passage]) -> IndexReport:
        folder, encoder = self._opened()
        keys = [key_of(draft(passage, Layout())) for passage in passages]
        name = shard_name(self._run, keys)
        if folder.has(name):
            # A worker that died after writing was not heard of; its work is there.
            return _found(passages, keys, set(folder.keys([name])[0].tolist()))
        encoded = _distinct(encoder, [passage.text for passage in passages])
        bad = faulty_rows(encoded.vectors, score_kind=self._contract.model.similarity)
        good = [n for n in range(len(passages)) if n not in bad]
        if good:
            rows = [passages[n] for n in good]
            folder.write(name, _table(rows, [keys[n] for n in good], encoded.vectors[good]))
        failures = tuple(Failure(passages[n].id, f"its vector is {why}") for n, why in bad.items())
        return IndexReport(
            added=len(good),
            encoded=len({passage.text for passage in passages}),
            truncated=encoded.truncated,
            longest=encoded.longest,
            failures=failures,
        )

    def _opened(self) -> Any:
        if self._ready is None:
            encoder = self._model.lazy()
            encoder.bind(self._contract)
            self._ready = ShardFolder(self._place), encoder
        return self._ready


def _found(passages: list[Passage], keys: list[bytes], written: set[bytes]) -> IndexReport:
    """What is in a shard that an earlier worker wrote of a window, and what it left out."""
    # NumPy drops zero bytes at the end of what it hands out.
    left = [p for p, key in zip(passages, keys, strict=True) if key.rstrip(b"\0") not in written]
    why = "its vector is zero, NaN or infinity, and was left out as its shard was written"
    failures = tuple(Failure(passage.id, why) for passage in left)
    return IndexReport(added=len(passages) - len(left), failures=failures)


def _distinct(encoder: Any, texts: Sequence[str]) -> Encoded:
    """Vectors (n, dim) of n texts, each distinct one encoded once."""
    rows = {text: row for row, text in enumerate(dict.fromkeys(texts))}
    encoded: Encoded = encoder.encode_passages(list(rows))
    vectors = np.asarray(encoded.vectors, dtype=np.float32)[[rows[text] for text in texts]]
    return Encoded(vectors, encoded.truncated, encoded.longest)


def _table(
    passages: Sequence[Passage], keys: Sequence[bytes], vectors: npt.NDArray[np.float32]
) -> pa.Table:
    values = pa.array(np.ascontiguousarray(vectors).ravel())
    return pa.table(
        {
            "id": pa.array([p.id for p in passages], pa.string()),
            "text": pa.array([p.text for p in passages], pa.large_string()),
            "metadata": pa.array([json.dumps(p.metadata, ensure_ascii=False) for p in passages]),
            "source": pa.array([p.source for p in passages], pa.string()),
            "key": pa.array(keys, pa.binary(KEY_BYTES)),
            "vector": pa.FixedSizeListArray.from_arrays(values, vectors.shape[1]),
        }
    )
