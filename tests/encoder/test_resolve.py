"""A name finds its folder, and an unknown one says where was looked."""

from __future__ import annotations

import shutil
from fnmatch import fnmatch
from pathlib import Path

import httpx
import pytest

from sbert_retriever import BiEncoder
from sbert_retriever.encoder import packaged, resolve
from sbert_retriever.encoder.resolve import HubOptions, locate
from sbert_retriever.errors import FallbackWarning, InputError, ModelNotFoundError
from sbert_retriever.testing import tiny_bert

OFFLINE = HubOptions(local_files_only=True)


def cached(cache: Path, repository: str, folder: Path) -> Path:
    """Put a folder into a hub cache as the hub's client does."""
    commit = "0123456789abcdef0123456789abcdef01234567"
    home = cache / f"models--{repository.replace('/', '--')}"
    snapshot = home / "snapshots" / commit
    shutil.copytree(folder, snapshot)
    (home / "refs").mkdir()
    (home / "refs" / "main").write_text(commit)
    return snapshot


@pytest.mark.parametrize(
    "name", ["all-MiniLM-L6-v2", "sentence-transformers/all-MiniLM-L6-v2", "all-minilm-l-6-v2"]
)
def test_identical_weights_answer_to_each_spelling(name):
    found = locate(name, OFFLINE)
    assert found.packaged is not None
    assert found.packaged.name == "all-MiniLM-L6-v2"
    assert found.name == name


@pytest.mark.parametrize("name", ["ms-marco-MiniLM-L12-v2", "ms-marco-MiniLM-L-12-v2"])
def test_l12_is_also_spelt_with_a_hyphen(name):
    assert locate(name, OFFLINE).folder.name == "reranker_en"


def test_a_folder_wins(tiny_folder):
    assert locate(tiny_folder).folder == tiny_folder
    assert locate(str(tiny_folder)).packaged is None


def test_a_folder_without_a_model_does_not_hide_a_package(tmp_path, monkeypatch):
    (tmp_path / "all-MiniLM-L6-v2").mkdir()
    monkeypatch.chdir(tmp_path)
    assert locate("all-MiniLM-L6-v2", OFFLINE).packaged is not None


@pytest.mark.parametrize("name", ["./absent", "/absent/model", "a/b/c", Path("absent")])
def test_a_path_that_is_absent_is_said_to_be(name):
    with pytest.raises(ModelNotFoundError, match="does not exist"):
        locate(name, OFFLINE)


def test_a_path_without_a_model_is_said_to_have_none(tmp_path):
    with pytest.raises(ModelNotFoundError, match=r"no modules\.json"):
        locate(tmp_path, OFFLINE)


def test_an_unknown_name_says_where_was_looked(tmp_path):
    options = HubOptions(cache_dir=tmp_path, local_files_only=True)
    with pytest.raises(ModelNotFoundError) as caught:
        locate("nobody/nothing", options)
    message = str(caught.value)
    for place in ("folder ", str(tmp_path), "nobody/nothing", "the hub itself was not asked"):
        assert place in message


def test_the_environment_keeps_the_network_out(monkeypatch, tmp_path):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(ModelNotFoundError, match="not asked"):
        locate("nobody/nothing", HubOptions(cache_dir=tmp_path))
    assert HubOptions(local_files_only=False).offline is False


def test_the_hubs_cache_answers(tiny_folder, tmp_path):
    snapshot = cached(tmp_path, "somebody/model", tiny_folder)
    options = HubOptions(cache_dir=tmp_path, local_files_only=True)
    assert locate("somebody/model", options).folder == snapshot
    loaded = BiEncoder.load("somebody/model", cache_dir=tmp_path, local_files_only=True)
    assert loaded.dim == 32


def test_a_name_without_owner_is_looked_for_among_sentence_transformers(tiny_folder, tmp_path):
    snapshot = cached(tmp_path, "sentence-transformers/some-model", tiny_folder)
    options = HubOptions(cache_dir=tmp_path, local_files_only=True)
    assert locate("some-model", options).folder == snapshot


def test_a_full_id_falls_back_to_near_equal_weights_with_one_warning(tmp_path):
    options = HubOptions(cache_dir=tmp_path, local_files_only=True)
    with pytest.warns(FallbackWarning, match="dequantised int8") as caught:
        found = locate("BAAI/bge-small-en-v1.5", options)
    assert len(caught) == 1
    assert found.folder.name == "bge_small_en"


def test_a_full_id_prefers_the_hubs_own_weights(tiny_folder, tmp_path):
    snapshot = cached(tmp_path, "BAAI/bge-small-en-v1.5", tiny_folder)
    options = HubOptions(cache_dir=tmp_path, local_files_only=True)
    assert locate("BAAI/bge-small-en-v1.5", options).folder == snapshot
    assert locate("bge-small-en-v1.5", options).folder.name == "bge_small_en"


def test_a_short_packaged_name_never_asks_the_hub(monkeypatch, tmp_path):
    """Even where its package is absent and the network is allowed, only the cache is read."""
    absent = packaged.PackagedModel(
        name="all-MiniLM-L6-v2",
        hub_id="sentence-transformers/all-MiniLM-L6-v2",
        package="no-such-distribution",
        inside="x",
        identical=True,
        precision="float32",
    )
    monkeypatch.setattr(packaged, "MODELS", (absent,))
    options = HubOptions(cache_dir=tmp_path, local_files_only=False)
    with pytest.raises(ModelNotFoundError, match=r"not asked.*\.\[offline\]"):
        locate("all-MiniLM-L6-v2", options)


def test_a_hub_that_stops_answering_is_a_place_that_was_looked_in(monkeypatch, tmp_path):
    """The network's own errors, with or without words, do not leave the search for a model."""

    def drop(repository, *, local_files_only, **settings):
        raise OSError if local_files_only else httpx.ReadTimeout("timed out")

    monkeypatch.setattr(resolve, "snapshot_download", drop)
    options = HubOptions(cache_dir=tmp_path, local_files_only=False)
    with pytest.raises(ModelNotFoundError, match="ReadTimeout: timed out"):
        locate("nobody/nothing", options)


def test_the_settings_of_a_colbert_model_are_fetched_with_it(monkeypatch, tmp_path):
    """Without artifact.metadata it would read other lengths than it was trained with, silently."""
    asked = []

    def fetch(repository, *, allow_patterns, local_files_only, **settings):
        if not local_files_only:
            asked.extend(allow_patterns)
        raise OSError("nothing here")

    monkeypatch.setattr(resolve, "snapshot_download", fetch)
    with pytest.raises(ModelNotFoundError):
        locate("colbert-ir/colbertv2.0", HubOptions(cache_dir=tmp_path, local_files_only=False))
    files = ("artifact.metadata", "config.json", "model.safetensors", "1_Dense/model.safetensors")
    assert all(any(fnmatch(file, pattern) for pattern in asked) for file in files)


def test_a_revision_needs_the_hubs_id():
    with pytest.raises(InputError, match="sentence-transformers/all-MiniLM-L6-v2"):
        locate("all-MiniLM-L6-v2", HubOptions(revision="abc"))
    with pytest.raises(InputError, match="empty"):
        locate("")


def test_weights_count_only_in_forms_that_are_read(tmp_path):
    assert not resolve.has_weights(tmp_path)
    tiny_bert(tmp_path)
    assert resolve.has_weights(tmp_path)
