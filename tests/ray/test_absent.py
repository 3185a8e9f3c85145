"""Where Ray, pyarrow or the server is absent, one clear sentence says what to do."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import sbert_ray
from sbert_ray import index

from sbert_retriever.errors import (
    CollectionNotFoundError,
    InputError,
    MissingExtraError,
    StoreUnavailableError,
)


@pytest.fixture
def one_record(tmp_path: Path) -> Path:
    file = tmp_path / "a.jsonl"
    file.write_text('{"text": "the cat"}', encoding="utf-8")
    return file


CALLS = [
    ("ray", lambda: sbert_ray.encode_to_parquet("in.jsonl", "out", model="all-MiniLM-L6-v2")),
    ("ray", lambda: sbert_ray.index("in.jsonl", "http://127.0.0.1:9", model="all-MiniLM-L6-v2")),
    ("pyarrow", lambda: sbert_ray.import_parquet("out", "index")),
]


@pytest.mark.parametrize(("package", "call"), CALLS)
def test_a_missing_package_is_named_with_the_pip_line(monkeypatch, package: str, call) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError) as caught:
        call()
    said = str(caught.value)
    assert said.startswith(f"{package} is needed to ")
    assert said.endswith('pip install ".[ray]" in the checkout of sbert-retriever')


def test_an_absent_server_is_said_before_ray_is_started(one_record: Path, tiny: Path) -> None:
    import ray

    with pytest.raises(StoreUnavailableError, match="Check that a Qdrant server runs at"):
        index(one_record, "http://127.0.0.1:9", model=tiny)
    assert not ray.is_initialized()


def test_a_collection_that_is_not_there_needs_a_model(one_record: Path, server) -> None:
    with pytest.raises(CollectionNotFoundError, match="give model= to create it"):
        index(one_record, server.url)


def test_a_folder_is_refused_with_the_way_to_fill_one(one_record: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="import_parquet"):
        index(one_record, str(tmp_path / "index"), model="all-MiniLM-L6-v2")


def test_a_misspelt_path_leaves_no_collection_behind(tmp_path: Path, tiny: Path, server) -> None:
    with pytest.raises(InputError, match="no such file or folder"):
        index(tmp_path / "nope.jsonl", server.url, model=tiny)
    assert server.collections == {}
