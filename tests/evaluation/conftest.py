"""Files to read, and models small enough to run in a moment."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from sbert_retriever import BiEncoder
from sbert_retriever.testing import tiny_bert
from sbert_retriever.types import ModelIdentity


class TableEncoder:
    """Looks each text's vector up, so that a measure's outcome is known."""

    def __init__(self, table, similarity="cosine"):
        self._table = {text: np.array(vector, dtype=np.float32) for text, vector in table.items()}
        self.dim = len(next(iter(self._table.values())))
        self.identity = ModelIdentity(name="table", dim=self.dim, similarity=similarity)
        self.asked = []

    def encode_queries(self, texts):
        return self.encode_passages(texts)

    def encode_passages(self, texts):
        given = list(texts)
        self.asked += given
        return np.array([self._table[text] for text in given]).reshape(len(given), self.dim)


@pytest.fixture
def table_encoder() -> type[TableEncoder]:
    return TableEncoder


@pytest.fixture
def file(tmp_path: Path) -> Callable[..., Path]:
    """Write a file under a folder of data; text in UTF-8, or bytes as they are."""

    def write(name: str, text: str | bytes) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8"))
        return path

    return write


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_bert(tmp_path_factory.mktemp("tiny"), normalize=False)


@pytest.fixture(scope="session")
def tiny_encoder(tiny_folder: Path) -> BiEncoder:
    return BiEncoder.load(tiny_folder, device="cpu", dtype="float32", on_truncate="ignore")
