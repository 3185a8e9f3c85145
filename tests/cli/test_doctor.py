from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from qdrant_client import models

from sbert_retriever import BiEncoder, Passage, Retriever
from sbert_retriever.doctor import Check, examine
from sbert_retriever.errors import StoreAccessError
from sbert_retriever.index.points import draft
from sbert_retriever.testing import HashEncoder

Run = Callable[..., Any]


def found(checks: list[Check]) -> dict[str, str]:
    return {check.name: check.status for check in checks}


def the(checks: list[Check], name: str) -> Check:
    (check,) = [check for check in checks if check.name == name]
    return check


def test_a_healthy_collection(run: Run, animals: Path) -> None:
    outcome = run("doctor", animals, "--json")
    assert outcome.code == 0
    assert outcome.json["healthy"] is True
    names = [check["name"] for check in outcome.json["checks"]]
    assert names == [
        "versions", "disk and memory", "collection", "engine", "contract", "index", "vectors",
        "passages", "model", "device", "truncation", "search",
    ]  # fmt: skip
    assert {check["status"] for check in outcome.json["checks"]} == {"ok"}
    assert "qdrant-edge-py 0.9" in outcome.json["checks"][0]["finding"]


def test_it_changes_nothing(animals: Path) -> None:
    def texts() -> dict[str, bytes]:
        return {p.name: p.read_bytes() for p in animals.glob("*/collection.json")}

    before = texts()
    examine(animals)
    assert texts() == before
    assert [path.name for path in animals.iterdir()] == ["default"]


def test_fault_the_contract_is_of_another_model(run: Run, animals: Path, other: str) -> None:
    outcome = run("doctor", animals, "--model", other)
    assert outcome.code == 1
    assert "PROBLEM  model: the collection was built with" in outcome.out
    assert "sbert-retriever rebuild" in outcome.out


def test_fault_vectors_lie_outside_the_index(tmp_path: Path) -> None:
    """More unindexed vectors than the engine would leave: a load that was never finished."""
    encoder = HashEncoder(2048)
    texts = [f"word{n}" for n in range(1400)]
    with Retriever.open(tmp_path, model=encoder) as retriever:
        store = retriever.store
        drafts = [draft(Passage(text, text), store.layout) for text in texts]
        store.connection.run(store.write(drafts, encoder.encode_passages(texts)))
    check = the(examine(tmp_path), "index")
    assert check.status == "problem"
    assert "0 of 1,400 vectors" in check.finding
    assert "sbert-retriever index" in check.way_out

    with Retriever.open(tmp_path, model=encoder) as retriever:
        retriever.index([Passage("one more", "one more")])
    assert the(examine(tmp_path), "index").status == "ok"


def test_fault_most_texts_are_longer_than_the_model_reads(tmp_path: Path, tiny: str) -> None:
    long = " ".join(["cat"] * 60)
    passages = [Passage(str(n), long if n % 2 else "short cat") for n in range(40)]
    with Retriever.open(tmp_path, model=tiny) as retriever:
        retriever.index(passages, on_truncate="ignore")
    check = the(examine(tmp_path), "truncation")
    assert check.status == "problem"
    assert check.finding.startswith("50% of 40 texts")
    assert "longest: 62" in check.finding
    assert "--chunk-tokens 30" in check.way_out


def test_the_length_advised_leaves_room_for_the_prompt(tmp_path: Path, tiny: str) -> None:
    """What doctor says to pass as --chunk-tokens is what index accepts."""
    encoder = BiEncoder.load(tiny, passage_prompt="passage query text ")
    long = " ".join(["cat"] * 60)
    with Retriever.open(tmp_path, model=encoder) as retriever:
        retriever.index([Passage("a", long)], on_truncate="ignore")
    assert "--chunk-tokens 27" in the(examine(tmp_path), "truncation").way_out


def test_fault_the_description_is_damaged(run: Run, animals: Path) -> None:
    (animals / "default" / "collection.json").write_text('{"vectors": ', encoding="utf-8")
    outcome = run("doctor", animals)
    assert outcome.code == 1
    assert "PROBLEM  collection:" in outcome.out
    assert "is damaged" in outcome.out
    assert "Traceback" not in outcome.err


def test_fault_the_shard_is_gone(run: Run, animals: Path) -> None:
    (animals / "default" / "shard").rename(animals.parent / "away")
    outcome = run("doctor", animals)
    assert outcome.code == 1
    assert "PROBLEM  collection:" in outcome.out
    assert "restore the folder" in outcome.out


def test_a_refused_key_is_no_damaged_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """The advice was to restore the folder from a copy."""

    def refused(*_: object, **__: object) -> None:
        raise StoreAccessError("401: the key is refused")

    monkeypatch.setattr(Retriever, "open", refused)
    assert the(examine("http://127.0.0.1:1"), "collection").way_out.startswith("check the key")


def test_fault_the_models_weights_are_gone(animals: Path, tiny: str, tmp_path: Path) -> None:
    Path(tiny).rename(tmp_path / "away")
    try:
        checks = examine(animals)
    finally:
        (tmp_path / "away").rename(tiny)
    assert the(checks, "model").status == "problem"
    assert tiny in the(checks, "model").finding
    assert found(checks)["passages"] == "ok"


def test_fault_a_vector_that_no_search_finds(animals: Path, plant_nan: Any) -> None:
    with Retriever.open(animals) as retriever:
        plant_nan(retriever, Passage("ghost", "boo"))
    check = the(examine(animals), "vectors")
    assert check.status == "problem"
    assert "'ghost'" in check.finding


def test_fault_passages_that_another_program_wrote(animals: Path) -> None:
    with Retriever.open(animals) as retriever:
        client = retriever.store.connection.client
        vector = {"dense": np.ones(32).tolist()}
        point = models.PointStruct(id=1, vector=vector, payload={"text": "x", "metadata": {}})
        client.upsert("default", points=[point])
    check = the(examine(animals), "passages")
    assert check.status == "warning"
    assert check.finding.startswith("1 of 4")


def test_fault_the_folder_is_held_by_another_process(
    animals: Path, environment: dict[str, str]
) -> None:
    script = (
        "import sys; from sbert_retriever import Retriever\n"
        "r = Retriever.open(sys.argv[1]); r.count(); print('held', flush=True); sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(animals)],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        check = the(examine(animals), "collection")
        holder.communicate("")
    assert check.status == "problem"
    assert f"process {holder.pid}" in check.finding


def test_a_collection_that_is_not_there_is_answered_with_those_that_are(animals: Path) -> None:
    check = the(examine(animals, collection_name="docs"), "collection")
    assert (check.status, check.way_out) == ("problem", "there are: 'default'")


def test_an_empty_collection_is_a_warning(run: Run, animals: Path) -> None:
    run("delete", animals, "--all", "--yes")
    outcome = run("doctor", animals)
    assert outcome.code == 0
    assert "WARNING  passages: there are none" in outcome.out


@pytest.mark.parametrize("device", ["cuda:99", "mps"])
def test_a_device_that_is_not_there(animals: Path, device: str) -> None:
    checks = examine(animals, device=device)
    assert the(checks, "model").status == "problem"
    assert device in the(checks, "model").finding
