"""Records of a parquet file, one at a time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet

from sbert_retriever.errors import ReadError
from sbert_retriever.ingest.record_fields import Record

_ROWS = 1024


def parquet_records(path: Path, source: str) -> Iterator[Record]:
    """(number of the row from 1, its values by column).

    Args:
        path: The file.
        source: What to call it in messages.

    Raises:
        ReadError: It is no parquet file, or is damaged.
    """
    number = 0
    try:
        with parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=_ROWS):
                for values in batch.to_pylist():
                    number += 1
                    yield number, values
    except (pa.ArrowException, OSError) as error:
        raise ReadError(f"{source}, after row {number}: not parquet: {error}") from error
