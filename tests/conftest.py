"""Fixtures that several rooms share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sbert_retriever import BiEncoder


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder of public data sets, which the project does not carry."""
    folder = os.environ.get("SBERT_RETRIEVER_DATA")
    if not folder:
        pytest.skip("SBERT_RETRIEVER_DATA is not set: no data sets to test with")
    return Path(folder)


@pytest.fixture(scope="session")
def minilm() -> BiEncoder:
    """all-MiniLM-L6-v2 in float32 on the CPU."""
    return BiEncoder.load("all-MiniLM-L6-v2", device="cpu", dtype="float32")


@pytest.fixture(scope="session")
def bge() -> BiEncoder:
    """bge-small-en-v1.5 (dequantised int8) in float32 on the CPU."""
    return BiEncoder.load("bge-small-en-v1.5", device="cpu", dtype="float32")
