"""A collection copied between places and models, killed half-way, and checked at the end."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from qdrant_client import QdrantClient, models

from sbert_retriever import Passage, Retriever
from sbert_retriever.errors import (
    CollectionNotFoundError,
    ContractError,
    InputError,
    StoreError,
)
from sbert_retriever.testing import HashEncoder, tiny_bert
from sbert_retriever.transfer import copy_collection
from sbert_retriever.transfer.copying import _target_key
from sbert_retriever.transfer.places import connected

KILLED = """
import os, signal, sys
from sbert_retriever.transfer import copy_collection

def stop(report):
    if report.added >= 512:
        os.kill(os.getpid(), signal.SIGKILL)

copy_collection(sys.argv[1], sys.argv[2], on_progress=stop)
"""


class StopError(Exception):
    """Ends a copy half-way where the engine lives in this process."""


def stop(report):
    if report.added >= 512:
        raise StopError


DIRECTIONS = ["folder-folder", "folder-local", "local-folder", "local-local"]


@pytest.fixture
def ends(request, tmp_path):
    made = {"folder": lambda n: tmp_path / str(n), "local": lambda _: QdrantClient(":memory:")}
    return [made[kind](n) for n, kind in enumerate(request.param.split("-"))]


@pytest.mark.parametrize("ends", DIRECTIONS, indirect=True)
def test_a_copy_is_the_same_and_says_so(corpus, ends):
    source, target = ends
    corpus.fill(source)
    report = copy_collection(source, target)
    assert (report.index.added, report.index.encoded, report.index.failed) == (331, 0, 0)
    assert (report.checked.count, report.checked.searches) == (331, 100)
    assert report.checked.largest <= 1e-5
    assert "checked: 331 passages on both sides" in str(report)
    assert "100 searches equal" in str(report)
    corpus.assert_equal(source, target)


@pytest.mark.parametrize("ends", DIRECTIONS, indirect=True)
def test_a_copy_stopped_half_way_goes_on(corpus, ends):
    source, target = ends
    corpus.fill(source, 1500)
    with pytest.raises(StopError):
        copy_collection(source, target, on_progress=stop)
    report = copy_collection(source, target)
    assert report.index.unchanged >= 512
    assert report.index.added + report.index.unchanged == 1651
    corpus.assert_equal(source, target)


def test_a_copy_killed_half_way_goes_on(corpus, tmp_path, run_killed):
    """SIGKILL in a real process, folder to folder: the second run writes only the rest."""
    corpus.fill(tmp_path / "a", 1500)
    run_killed(KILLED, tmp_path / "a", tmp_path / "b")
    with Retriever.open(tmp_path / "b") as retriever:
        assert 512 <= retriever.count() < 1651
    report = copy_collection(tmp_path / "a", tmp_path / "b")
    assert report.index.unchanged >= 512
    assert (report.checked.count, report.checked.searches) == (1651, 100)
    corpus.assert_equal(tmp_path / "a", tmp_path / "b")


def test_killed_between_the_collection_and_its_fields_the_next_run_makes_them(folder, tmp_path):
    """A collection whose payload indexes were not all created is completed."""
    with Retriever.open(tmp_path / "b", model=HashEncoder()) as retriever:
        assert "metadata.lang" not in retriever.info().filterable
    copy_collection(folder, tmp_path / "b")
    with Retriever.open(tmp_path / "b") as retriever:
        assert retriever.info().filterable == {
            "_sbert.source": "keyword",
            "metadata.lang": "keyword",
            "metadata.year": "integer",
        }


def test_filters_answer_alike(corpus, folder, tmp_path):
    copy_collection(folder, tmp_path / "b")
    wanted = {"lang": "de", "year": {"gte": 2010}}
    expected = {
        p.id
        for p in corpus.passages()
        if p.metadata.get("lang") == "de" and p.metadata["year"] >= 2010
    }
    with Retriever.open(tmp_path / "b", model=HashEncoder()) as retriever:
        hits = retriever.search("moon", k=331, filter=wanted)
        assert {hit.id for hit in hits} == expected


def test_no_model_is_loaded_where_vectors_are_kept(tmp_path):
    """The model's folder may be gone: the vectors are enough."""
    model = tiny_bert(tmp_path / "model")
    with Retriever.open(tmp_path / "a", model=model) as retriever:
        retriever.index([Passage("1", "the cat"), Passage("2", "a dog")])
    model.rename(tmp_path / "gone")
    report = copy_collection(tmp_path / "a", tmp_path / "b")
    assert (report.index.added, report.encoded_anew) == (2, False)


def test_to_another_model(corpus, folder, tmp_path):
    """The texts are encoded anew; contents are compared, searches cannot be."""
    report = copy_collection(folder, tmp_path / "b", model=HashEncoder(dim=128))
    assert report.encoded_anew
    assert report.index.added == 331
    assert (report.checked.compared, report.checked.searches) == (100, 0)
    with Retriever.open(tmp_path / "b", model=HashEncoder(dim=128)) as retriever:
        assert retriever.info().dim == 128
        assert retriever.profile == corpus.profile
        assert "metadata.lang" in retriever.info().filterable
        text = corpus.passages()[5].text
        assert retriever.search(text, k=1)[0].text == text
    again = copy_collection(folder, tmp_path / "b", model=HashEncoder(dim=128))
    assert (again.index.unchanged, again.index.encoded) == (331, 0)


def test_the_same_model_given_keeps_the_vectors(folder, tmp_path):
    report = copy_collection(folder, tmp_path / "b", model=HashEncoder())
    assert (report.index.encoded, report.checked.searches) == (0, 100)


def test_another_models_target_is_refused(folder, tmp_path):
    with Retriever.open(tmp_path / "b", model=HashEncoder(dim=32)) as retriever:
        retriever.index([Passage("mine", "precious")])
    with pytest.raises(ContractError, match="--model HashEncoder"):
        copy_collection(folder, tmp_path / "b")
    with Retriever.open(tmp_path / "b") as retriever:
        assert retriever.count() == 1


@pytest.mark.parametrize(("ours", "theirs"), [("bm25", None), (None, "bm25")])
def test_a_target_with_other_words_is_refused(corpus, tmp_path, ours, theirs):
    """The copy ended well, and its searches by words were gone."""
    corpus.fill(tmp_path / "a", sparse=ours)
    corpus.fill(tmp_path / "b", count=3, sparse=theirs)
    with pytest.raises(ContractError, match=f"keeps words by {theirs or 'none'}.*{ours or 'none'}"):
        copy_collection(tmp_path / "a", tmp_path / "b")
    assert copy_collection(tmp_path / "a", tmp_path / "b", to_collection_name="c").index.added


def test_what_only_the_target_has_is_named_and_pruned_when_asked(folder, tmp_path):
    copy_collection(folder, tmp_path / "b")
    with Retriever.open(tmp_path / "b", model=HashEncoder()) as retriever:
        retriever.index([Passage("stranger", "boo")])
    with pytest.raises(StoreError, match=r"331 passages .*332.*1 not in the original \('stranger'"):
        copy_collection(folder, tmp_path / "b")
    report = copy_collection(folder, tmp_path / "b", prune=True)
    assert (report.index.deleted, report.checked.count) == (1, 331)


def test_a_changed_and_a_deleted_passage_follow(corpus, folder, tmp_path):
    copy_collection(folder, tmp_path / "b")
    with Retriever.open(folder, model=HashEncoder()) as retriever:
        retriever.index([Passage("p3", "now the train")])
        retriever.delete(["p4"])
    report = copy_collection(folder, tmp_path / "b", prune=True)
    assert (report.index.updated, report.index.deleted) == (1, 1)
    corpus.assert_equal(folder, tmp_path / "b")


def test_a_copy_with_a_wrong_vector_fails_with_the_difference(folder, local):
    """Equal counts and texts are not enough: vectors changed behind our back are found."""
    copy_collection(folder, local)
    points, _ = local.scroll("default", limit=400, with_vectors=True)
    wrong = [
        models.PointVectors(id=p.id, vector={"dense": np.roll(p.vector["dense"], 1).tolist()})
        for p in points
    ]
    local.update_vectors("default", points=wrong)
    with pytest.raises(StoreError, match=r"the copy differs: the vector of 'p\d+.*' finds"):
        copy_collection(folder, local)


def test_a_passage_without_a_usable_vector_fails_the_copy_by_name(folder, local, tmp_path):
    copy_collection(folder, local)
    point = local.scroll("default", limit=1, with_payload=True)[0][0]
    local.delete_vectors("default", vectors=["dense"], points=[point.id])
    lost = point.payload["_sbert"]["id"]
    with pytest.raises(StoreError, match=rf"1 missing there.*{lost!r} has no vector"):
        copy_collection(local, tmp_path / "b")


def test_onto_itself_is_refused(corpus, folder, local, tmp_path):
    with pytest.raises(InputError, match="onto itself"):
        copy_collection(folder, folder.parent / "." / folder.name)
    link = tmp_path / "link"
    link.symlink_to(folder)
    with pytest.raises(InputError, match="onto itself"):
        copy_collection(folder, link)
    corpus.fill(local)
    with pytest.raises(InputError, match="onto itself"):
        copy_collection(local, local)
    alias = models.CreateAlias(collection_name="default", alias_name="live")
    local.update_collection_aliases([models.CreateAliasOperation(create_alias=alias)])
    with pytest.raises(InputError, match="onto itself"):
        copy_collection(local, local, to_collection_name="live")
    with pytest.raises(InputError, match="onto itself"):
        copy_collection("http://localhost:1/", "http://127.0.0.1:1", collection_name="x")


def test_another_name_at_the_same_place(corpus, folder, local):
    report = copy_collection(folder, folder, to_collection_name="second")
    assert report.checked.count == 331
    corpus.fill(local)
    assert copy_collection(local, local, to_collection_name="second").checked.count == 331


def test_nothing_there(folder, tmp_path):
    with pytest.raises(CollectionNotFoundError, match="no collection 'other'"):
        copy_collection(folder, tmp_path / "b", collection_name="other")
    assert not (tmp_path / "b").exists()


def test_an_empty_collection(tmp_path):
    Retriever.open(tmp_path / "a", model=HashEncoder()).close()
    report = copy_collection(tmp_path / "a", tmp_path / "b")
    assert str(report.checked) == "checked: 0 passages on both sides, 0 of them compared"


def test_another_programs_collection_needs_a_model(local, tmp_path):
    params = {"dense": models.VectorParams(size=64, distance=models.Distance.COSINE)}
    local.create_collection("default", vectors_config=params)
    point = models.PointStruct(id=1, vector={"dense": [1.0] * 64}, payload={"text": "the cat"})
    local.upsert("default", points=[point])
    with pytest.raises(InputError, match="--model"):
        copy_collection(local, tmp_path / "b")
    report = copy_collection(local, tmp_path / "b", model=HashEncoder())
    assert (report.index.added, report.encoded_anew) == (1, True)


def test_a_key_is_never_sent_to_a_second_server(monkeypatch, tmp_path: Path):
    """QDRANT_API_KEY is the source's where both are servers, and the only server's else."""
    monkeypatch.setenv("QDRANT_API_KEY", "secret")
    monkeypatch.delenv("QDRANT_TO_API_KEY", raising=False)
    server, folder = connected("http://one:6333"), connected(tmp_path)
    assert _target_key(server, "http://two:6333", None) == ""
    assert _target_key(server, "http://one", None) is None
    assert _target_key(folder, "http://two:6333", None) is None
    assert _target_key(server, "http://two:6333", "given") == "given"
    monkeypatch.setenv("QDRANT_TO_API_KEY", "theirs")
    assert _target_key(server, "http://two:6333", None) == "theirs"


@pytest.mark.parametrize(
    "lasting_engine", [pytest.param("server", marks=pytest.mark.server)], indirect=True
)
def test_over_a_server_and_back(corpus, folder, tmp_path, lasting_engine):
    url, name = lasting_engine.settings["location"], lasting_engine.settings["collection_name"]
    lasting_engine.open()
    assert copy_collection(folder, url, to_collection_name=name).checked.searches == 100
    copy_collection(url, tmp_path / "b", collection_name=name, to_collection_name="default")
    corpus.assert_equal(folder, tmp_path / "b")
