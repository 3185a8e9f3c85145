"""A model small enough to run in a moment."""

from pathlib import Path

import pytest

from sbert_retriever.testing import tiny_bert


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_bert(tmp_path_factory.mktemp("tiny"), normalize=False)
