"""One folder in one process: a shard whose engine comes and goes, and who makes it first."""

import gc
import threading
from contextlib import suppress
from dataclasses import replace

import pytest

from sbert_retriever import Passage, Retriever
from sbert_retriever.errors import ContractError, StoreClosedError, StoreRequestError
from sbert_retriever.index import embedded
from sbert_retriever.index.edge import shard as edge_shard
from sbert_retriever.index.points import draft
from sbert_retriever.testing import HashEncoder
from sbert_retriever.transfer import drop_collection

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


def in_time(*targets):
    """Run functions in threads of their own, none of which may wait for ever."""
    threads = [threading.Thread(target=target, daemon=True) for target in targets]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert not any(thread.is_alive() for thread in threads)


def test_a_client_may_be_closed_while_its_index_is_built(tmp_path, monkeypatch):
    """The build counted points by looking the collection up, and who closed held that lock."""
    building, closing = threading.Event(), threading.Event()

    def apart(folder):
        building.set()
        closing.wait(10)

    monkeypatch.setattr(edge_shard, "_optimize_apart", apart)
    retriever = Retriever.open(tmp_path / "a", model=HashEncoder(dim=64), sparse="bm25")
    retriever.index(PASSAGES)
    other = []

    def build():
        with suppress(StoreClosedError):
            retriever.optimize()

    def close():
        building.wait(10)
        threading.Timer(0.2, closing.set).start()
        retriever.close()

    def another():
        # It had to wait for that build, too.
        building.wait(10)
        with open_folder(tmp_path / "b") as opened:
            other.append(closing.is_set())
            opened.index(PASSAGES)

    in_time(build, close, another)
    with open_folder(tmp_path / "a") as again:
        assert again.count() == 5


def test_a_client_that_nobody_closed_may_be_collected_while_another_is_opened(
    tmp_path, monkeypatch
):
    """What collects it gives its shard back, and waited for a lock of its own thread."""
    check_room = edge_shard.check_room

    def collecting(folder, least):
        gc.collect()
        check_room(folder, least)

    def lose():
        open_folder(tmp_path / "lost").index(PASSAGES)

    def open_another():
        with open_folder(tmp_path / "kept") as retriever:
            retriever.index(PASSAGES)

    gc.disable()
    try:
        lose()
        assert (tmp_path / "lost" / "default").resolve() in edge_shard._open
        monkeypatch.setattr(edge_shard, "check_room", collecting)
        in_time(open_another)
    finally:
        gc.enable()
    assert (tmp_path / "lost" / "default").resolve() not in edge_shard._open
    with open_folder(tmp_path / "lost") as again:
        assert again.count() == 5


def test_a_damaged_collection_can_be_dropped(tmp_path):
    """It had to be opened, to see whether another process holds it."""
    with open_folder(tmp_path) as retriever:
        retriever.index(PASSAGES)
    for file in (tmp_path / "default" / "shard").rglob("*"):
        if file.is_file():
            file.write_bytes(b"damaged")
    with pytest.raises(StoreRequestError):
        Retriever.open(tmp_path)
    assert drop_collection(tmp_path, "default") == 0
    with open_folder(tmp_path) as again:
        assert again.count() == 0


def test_what_is_deleted_while_it_is_rewritten_is_a_failure_of_its_own(engine):
    """The whole run ended, and what came after it in the run was not written."""
    retriever = engine.open()
    retriever.index(PASSAGES)
    retriever.delete(["p1"])
    store = retriever.store
    drafts = [draft(replace(p, metadata={"new": 1}), store.layout) for p in PASSAGES]
    [failure] = store.connection.run(store.rewrite(drafts))
    assert (failure.id, failure.reason[:22]) == ("p1", "it was deleted while i")
    found = {p.id: p.metadata for p in retriever.get([f"p{n}" for n in range(5)])}
    assert found == {f"p{n}": {"new": 1} for n in (0, 2, 3, 4)}
