"""An encoder for queries and one for passages: each option of the one is an option of the pair."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from sbert_retriever import BiEncoder, Passage, Retriever
from sbert_retriever.doctor import examine
from sbert_retriever.encoder.two_encoders import TwoEncoders
from sbert_retriever.errors import ModelNotFoundError, TextTooLongError
from sbert_retriever.testing import tiny_bert

TEXTS = ["cat", "one two", "a zebra in the house"]
MODULES = "sentence_transformers.models."
REVISION = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture(scope="module")
def router(tmp_path_factory) -> Path:
    """A Router of two small encoders with weights of their own, as their library saves one."""
    folder = tmp_path_factory.mktemp("router")
    structure = {}
    for seed, route in enumerate(["query", "document"]):
        tiny_bert(folder / route, seed=seed)
        structure[route] = [route, f"{route}/1_Pooling"]
    types = {
        part: MODULES + ("Pooling" if part.endswith("Pooling") else "Transformer")
        for parts in structure.values()
        for part in parts
    }
    described = {"types": types, "structure": structure, "parameters": {}}
    (folder / "router_config.json").write_text(json.dumps(described), encoding="utf-8")
    modules = [
        {"idx": 0, "name": "0", "path": "", "type": f"{MODULES}Router"},
        {"idx": 1, "name": "1", "path": "1_Normalize", "type": f"{MODULES}Normalize"},
    ]
    (folder / "modules.json").write_text(json.dumps(modules), encoding="utf-8")
    return folder


@pytest.mark.filterwarnings("ignore:dtype='int8' runs through torch")
@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_each_role_has_the_vectors_of_its_own_encoder(router: Path, dtype: str) -> None:
    both = TwoEncoders.load(router, device="cpu", dtype=dtype)
    query, passage = (
        BiEncoder.load(router / route, device="cpu", dtype=dtype) for route in ("query", "document")
    )
    np.testing.assert_allclose(both.encode_queries(TEXTS), query.encode_queries(TEXTS), atol=1e-6)
    np.testing.assert_allclose(
        both.encode_passages(TEXTS), passage.encode_passages(TEXTS), atol=1e-6
    )
    assert np.abs(both.encode_queries(TEXTS) - both.encode_passages(TEXTS)).max() > 1e-2


def test_callers_of_a_pair_are_joined_as_those_of_one(router: Path) -> None:
    assert TwoEncoders.load(router, device="cpu").joins_callers
    assert BiEncoder.joins_callers


def test_a_text_without_memory_may_go_to_the_cpu(router: Path) -> None:
    both = TwoEncoders.load(router, device="cpu", cpu_fallback=True)
    assert (both.query._runner._cpu_fallback, both.passage._runner._cpu_fallback) == (True, True)


def test_a_pair_runs_on_several_devices_and_says_so(router: Path) -> None:
    both = TwoEncoders.load(router, device=["cpu", "cpu"], dtype="float32")
    assert (both.device, both.dtype) == ("cpu,cpu", "float32")
    alone = TwoEncoders.load(router, device="cpu", dtype="float32")
    many = [f"one cat {n}" for n in range(150)]
    np.testing.assert_allclose(both.encode_passages(many), alone.encode_passages(many), atol=1e-5)


def test_what_happens_to_long_texts_is_said_by_call(router: Path) -> None:
    both, long = TwoEncoders.load(router, device="cpu"), ["cat " * 100]
    for encode in (both.encode_queries, both.encode_passages):
        assert encode(long, on_truncate="ignore").shape == (1, both.dim)
        with pytest.raises(TextTooLongError):
            encode(long, on_truncate="error")


def test_the_doctor_looks_at_a_collection_of_a_pair(router: Path, tmp_path: Path) -> None:
    """It asked a pair for its device, and to leave a warning out, as it may ask one encoder."""
    settings = {"device": "cpu", "dtype": "float32"}
    with Retriever.open(tmp_path / "pair", model=router, **settings) as retriever:
        retriever.index([Passage(text, text) for text in TEXTS])
    checks = {check.name: check for check in examine(tmp_path / "pair", **settings)}
    assert checks["device"].finding == "cpu, float32"
    assert {checks[name].status for name in ("model", "truncation")} == {"ok"}
    assert checks["search"].status != "problem"


@pytest.mark.parametrize("pooling", [None, "mean", "max"])
def test_a_pair_whose_encoders_differ_opens_by_its_contract(
    router: Path, tmp_path: Path, pooling: str | None
) -> None:
    """The questions' encoder got the passages' pooling, and the collection was refused.

    That of both may have been said: another than the folder's, or the passages' own.
    """
    model = tmp_path / "differing"
    shutil.copytree(router, model)
    file = model / "query" / "1_Pooling" / "config.json"
    config = json.loads(file.read_text(encoding="utf-8"))
    config |= {"pooling_mode_mean_tokens": False, "pooling_mode_cls_token": True}
    file.write_text(json.dumps(config), encoding="utf-8")
    settings = {"device": "cpu", "dtype": "float32"}
    both = TwoEncoders.load(model, pooling=pooling, **settings)
    with Retriever.open(tmp_path / "pair", model=both) as retriever:
        retriever.index([Passage(text, text) for text in TEXTS])
        expected = [hit.score for hit in retriever.search("one cat")]
    with Retriever.open(tmp_path / "pair", **settings) as retriever:
        found = [hit.score for hit in retriever.search("one cat")]
    assert found == pytest.approx(expected, abs=1e-5)


def test_a_pair_comes_from_a_revision_of_the_hub_s_cache(router: Path, tmp_path: Path) -> None:
    cached = tmp_path / "models--me--two"
    shutil.copytree(router, cached / "snapshots" / REVISION)
    (cached / "refs").mkdir()
    (cached / "refs" / "second").write_text(REVISION, encoding="utf-8")
    found = TwoEncoders.load(
        "me/two", revision="second", cache_dir=tmp_path, local_files_only=True, device="cpu"
    )
    assert (found.name, found.dim) == ("me/two", 32)
    with pytest.raises(ModelNotFoundError):
        TwoEncoders.load("me/two", revision="first", cache_dir=tmp_path, local_files_only=True)
