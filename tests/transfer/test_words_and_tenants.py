"""What goes along when a collection moves: its words; and what must not be mixed: its tenants."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from qdrant_client import QdrantClient

from sbert_retriever import Passage, Retriever
from sbert_retriever.errors import InputError
from sbert_retriever.ingest.exchange import export_passages
from sbert_retriever.sparse import Bm25
from sbert_retriever.testing import HashEncoder
from sbert_retriever.transfer import copy_collection, import_file, rebuild

PASSAGES = [Passage(f"p{n}", f"valve XK-{4700 + n} of the circuit") for n in range(20)]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    with Retriever.open(folder, model=HashEncoder(dim=32), sparse=Bm25(avg_len=50.0)) as retriever:
        retriever.index(PASSAGES)
    return folder


def by_words(retriever: Retriever) -> list[tuple[str, float]]:
    hits = retriever.search("XK-4711", 1, mode="sparse")
    return [(hit.id, round(hit.score, 5)) for hit in hits]


@pytest.mark.parametrize("model", [None, HashEncoder(dim=16)])
def test_a_copy_has_the_same_words(source: Path, tmp_path: Path, model: HashEncoder | None) -> None:
    with Retriever.open(source, model=HashEncoder(dim=32)) as original:
        expected = by_words(original)
    assert expected[0][0] == "p11"
    client = QdrantClient(":memory:")
    for target in (tmp_path / "target", client):
        copy_collection(source, target, model=model)
        place = {"client": target} if target is client else {"location": target}
        with Retriever.open(**place, model=model or HashEncoder(dim=32)) as copy:
            assert copy.info().sparse == "bm25"
            assert [found for found, _ in by_words(copy)] == [found for found, _ in expected]
    with Retriever.open(tmp_path / "target", model=model or HashEncoder(dim=32)) as copy:
        assert by_words(copy) == expected


def test_a_rebuilt_collection_has_the_same_words(source: Path) -> None:
    with Retriever.open(source, model=HashEncoder(dim=32)) as original:
        expected = by_words(original)
    rebuild(source, model=HashEncoder(dim=16))
    with Retriever.open(source, model=HashEncoder(dim=16)) as anew:
        assert by_words(anew) == expected


@pytest.mark.parametrize("model", [None, HashEncoder(dim=32), HashEncoder(dim=16)])
def test_an_import_makes_a_collection_with_the_same_words(
    source: Path, tmp_path: Path, model: HashEncoder | None
) -> None:
    """With a model named, the new collection was made without words, and nobody said so."""
    with Retriever.open(source, model=HashEncoder(dim=32)) as original:
        expected = by_words(original)
        export_passages(original.store, tmp_path / "all.jsonl")
    import_file(tmp_path / "all.jsonl", tmp_path / "target", model=model)
    with Retriever.open(tmp_path / "target", model=model or HashEncoder(dim=32)) as copy:
        assert copy.info().sparse == "bm25"
        assert by_words(copy) == expected


@pytest.mark.parametrize("bound", ["when opened", "later", "later, in local mode"])
def test_tenants_are_not_mixed(tmp_path: Path, bound: str) -> None:
    """One id is another passage for each tenant, and a copy by ids would keep one of them."""
    place = QdrantClient(":memory:") if bound == "later, in local mode" else tmp_path / "shared"
    where: dict[str, Any] = {"client" if bound == "later, in local mode" else "location": place}
    where["model"] = HashEncoder(dim=32)
    if bound == "when opened":
        us = Retriever.open(**where, tenant="us")
    else:
        us = Retriever.open(**where).with_tenant("us")
    with us:
        us.index(PASSAGES[:2])
        assert export_passages(us.store, tmp_path / "ours.jsonl") == 2
    mixing = pytest.raises(InputError, match="has tenants, whose passages an export would mix")
    with Retriever.open(**where) as whole, mixing:
        export_passages(whole.store, tmp_path / "all.jsonl")
    assert not (tmp_path / "all.jsonl").exists()
    with pytest.raises(InputError, match="has tenants, whose passages a copy would mix"):
        copy_collection(place, tmp_path / "copy")
    assert not (tmp_path / "copy").exists()
    with pytest.raises(InputError, match="has tenants, whose passages a rebuild would mix"):
        rebuild(place, model=HashEncoder(dim=16))
