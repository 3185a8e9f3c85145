"""One folder in one process: a shard whose engine comes and goes, and who makes it first."""

import pytest

from sbert_retriever import Passage, Retriever
from sbert_retriever.errors import StoreClosedError, StoreRequestError
from sbert_retriever.index.edge import shard as edge_shard
from sbert_retriever.testing import HashEncoder

PASSAGES = [Passage(f"p{i}", f"text {i}") for i in range(5)]


def open_folder(folder, **options):
    return Retriever.open(folder, model=HashEncoder(dim=64), **options)


def test_an_engine_that_could_not_be_loaded_again_is_loaded_by_the_next_who_asks(
    tmp_path, monkeypatch
):
    """It had stayed the closed one, which others in the process went on sharing."""
    with open_folder(tmp_path) as retriever, open_folder(tmp_path) as other:
        retriever.index(PASSAGES)
        shard = retriever.store.connection.client._shard("default")

        def refused(folder):
            raise StoreRequestError("no memory")

        monkeypatch.setattr(edge_shard, "_optimize_apart", lambda folder: None)
        with monkeypatch.context() as patch:
            patch.setattr(edge_shard, "_load", refused)
            with pytest.raises(StoreRequestError, match="no memory"):
                shard.optimize()
            with pytest.raises(StoreRequestError, match="no memory"):
                other.count()
        assert other.count() == 5
        with open_folder(tmp_path) as third:
            third.index([Passage("more", "text")])
        assert retriever.count() == 6
    with pytest.raises(StoreClosedError, match="open the retriever again"):
        shard.optimize()
