"""One folder in one process: a shard whose engine comes and goes, and who makes it first."""

import threading

import pytest

from sbert_retriever import Passage, Retriever
from sbert_retriever.errors import ContractError, StoreClosedError, StoreRequestError
from sbert_retriever.index import embedded
from sbert_retriever.index.edge import shard as edge_shard
from sbert_retriever.testing import HashEncoder

PASSAGES = [Passage(f"p{i}", f"text {i}") for i in range(5)]


def open_folder(folder, dim=64):
    return Retriever.open(folder, model=HashEncoder(dim=dim))


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


@pytest.mark.parametrize("dim", [64, 32])
def test_two_who_make_one_folder_at_the_same_time(tmp_path, monkeypatch, dim):
    """The second comes while the first has made the shard, and not yet said what it is.

    It shares what the first made, or is told that this is for another model; it had written its
    own description over the first's.
    """
    outcomes, threads = [], []
    write = embedded.write_description

    def second():
        try:
            with open_folder(tmp_path, dim) as retriever:
                outcomes.append(retriever.index(PASSAGES).added)
        except ContractError:
            outcomes.append("another model")

    def written(place, description):
        if not threads:
            threads.append(threading.Thread(target=second))
            threads[0].start()
            threads[0].join(0.5)  # it waits for us, if all is well
        write(place, description)

    monkeypatch.setattr(embedded, "write_description", written)
    with open_folder(tmp_path) as first:
        threads[0].join()
        assert outcomes == ([5] if dim == 64 else ["another model"])
        assert first.store.dim == 64
        assert first.count() == (5 if dim == 64 else 0)
    with open_folder(tmp_path) as again:
        again.index(PASSAGES)
        assert again.count() == 5


def test_a_creation_that_failed_half_way_holds_nothing(tmp_path, monkeypatch):
    def full(place, description):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(embedded, "write_description", full)
        with pytest.raises(Exception, match="No space left"):
            open_folder(tmp_path)
    assert not edge_shard._open.keys() & {(tmp_path / "default").resolve()}
    with open_folder(tmp_path, 32) as retriever:
        assert retriever.index(PASSAGES).added == 5
