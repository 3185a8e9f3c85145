"""Another model, or another collection, under the same name, while readers go on."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest
from httpx import Headers
from qdrant_client import QdrantClient, models
from qdrant_client.http.exceptions import UnexpectedResponse

from sbert_retriever import Passage, Retriever
from sbert_retriever.errors import CollectionNotFoundError, InputError, StoreError
from sbert_retriever.index.embedded import EmbeddedClient
from sbert_retriever.testing import HashEncoder
from sbert_retriever.transfer import copy_collection, drop_collection, rebuild, switch_collection

OLD, NEW = HashEncoder(dim=64), HashEncoder(dim=128)

KILLED = """
import os, signal, sys
from sbert_retriever.testing import HashEncoder
from sbert_retriever.transfer import rebuild
rebuild(sys.argv[1], model=HashEncoder(dim=128),
        on_progress=lambda _: os.kill(os.getpid(), signal.SIGKILL))
"""


def names(place):
    client = place if isinstance(place, QdrantClient) else EmbeddedClient(place)
    found = sorted(c.name for c in client.get_collections().collections)
    if client is not place:
        client.close()
    return found


def dim(corpus, place, name="default"):
    with corpus.open(place, collection_name=name) as retriever:
        return retriever.info().dim


@pytest.fixture
def aliased(corpus, local):
    """Local mode with a collection behind the alias "live"."""
    corpus.fill(local, collection_name="v1")
    switch_collection(local, "live", "v1")
    return local


def test_rebuild_keeps_everything_and_the_old_one(corpus, folder):
    before = {i: p for i, (p, _) in corpus.contents(folder).items()}
    report = rebuild(folder, model=NEW)
    assert (report.added, report.failed) == (331, 0)
    assert (dim(corpus, folder), dim(corpus, folder, "default.old")) == (128, 64)
    assert names(folder) == ["default", "default.old"]
    assert {i: p for i, (p, _) in corpus.contents(folder).items()} == before
    with corpus.open(folder, model=NEW) as retriever:
        assert retriever.profile == corpus.profile
        assert "metadata.lang" in retriever.info().filterable
        assert retriever.index(corpus.passages()).unchanged == 331


def test_back_and_forth_and_dropped(corpus, folder):
    rebuild(folder, model=NEW)
    switch_collection(folder, "default", "default.old")
    assert (dim(corpus, folder), dim(corpus, folder, "default.old")) == (64, 128)
    switch_collection(folder, "default", "default.old")
    assert dim(corpus, folder) == 128
    assert drop_collection(folder, "default.old") == 331
    assert names(folder) == ["default"]
    assert len([p for p in folder.iterdir() if p.is_dir()]) == 1
    with pytest.raises(CollectionNotFoundError):
        drop_collection(folder, "default.old")


def test_an_old_one_is_not_dropped_without_being_told(corpus, folder):
    rebuild(folder, model=NEW)
    with pytest.raises(InputError, match=r"still kept as 'default\.old'.*--drop-old"):
        rebuild(folder, model=HashEncoder(dim=16))
    assert names(folder) == ["default", "default.old"]
    for width in (16, 32, 16):
        rebuild(folder, model=HashEncoder(dim=width), drop_old=True)
        assert names(folder) == ["default"]
        assert dim(corpus, folder) == width
    assert len([p for p in folder.iterdir() if p.is_dir()]) == 1


def test_a_killed_rebuild_leaves_the_old_collection_and_goes_on(corpus, tmp_path, run_killed):
    """Kill -9 half-way: the old one still answers, and the second run encodes only the rest."""
    corpus.fill(tmp_path / "a", 1500)
    run_killed(KILLED, tmp_path / "a")
    with corpus.open(tmp_path / "a") as retriever:
        assert (retriever.count(), retriever.info().dim) == (1651, 64)
        retriever.delete(["p0"])
    report = rebuild(tmp_path / "a", model=NEW)
    # What the first window had written.
    assert report.unchanged >= 255
    assert report.added + report.unchanged == 1650
    with corpus.open(tmp_path / "a") as retriever:
        assert (retriever.count(), retriever.info().dim) == (1650, 128)
        assert retriever.get(["p0"]) == []


def test_one_begun_with_another_model_is_begun_anew(corpus, tmp_path, run_killed):
    corpus.fill(tmp_path / "a", 1500)
    run_killed(KILLED, tmp_path / "a")
    assert rebuild(tmp_path / "a", model=HashEncoder(dim=16)).added == 1651
    assert dim(corpus, tmp_path / "a") == 16


def test_rebuild_does_not_write_over_a_collection_of_that_name(corpus, folder):
    with corpus.open(folder, collection_name="default.rebuild", model=OLD) as retriever:
        retriever.index([Passage("mine", "precious")])
    with pytest.raises(InputError, match="not made by a rebuild"):
        rebuild(folder, model=NEW)
    with corpus.open(folder, collection_name="default.rebuild") as retriever:
        assert retriever.count() == 1


class Reader(threading.Thread):
    """Asks on and on, through one retriever or through one opened for each question."""

    def __init__(self, corpus, place, name, reopen):
        super().__init__()
        self.corpus, self.place, self.name_, self.reopen = corpus, place, name, reopen
        self.over = threading.Event()
        self.answers, self.errors = [], []

    def run(self):
        try:
            if self.reopen:
                while not self.over.is_set():
                    self.ask(None)
            else:
                with self.corpus.open(self.place, collection_name=self.name_, model=OLD) as one:
                    while not self.over.is_set():
                        self.ask(one)
        except Exception as error:
            self.errors.append(error)

    def ask(self, retriever):
        opened = retriever or self.corpus.open(self.place, collection_name=self.name_)
        width = opened.info().dim
        encoder = HashEncoder(dim=width)
        passage = self.corpus.passages(20)[7]
        hits = opened.search_by_vector(encoder.encode_queries([passage.text])[0], k=3)
        self.answers.append((width, hits[0].id, round(hits[0].score, 4), opened.count()))
        if retriever is None:
            opened.close()
        time.sleep(0.002)


def read_through(corpus, place, name, switching):
    """The answers of two kinds of readers, before, during and after a switch."""
    readers = [Reader(corpus, place, name, reopen) for reopen in (False, True)]
    for reader in readers:
        reader.start()
    try:
        time.sleep(0.3)
        switching()
        time.sleep(0.3)
    finally:
        for reader in readers:
            reader.over.set()
            reader.join()
    assert [reader.errors for reader in readers] == [[], []]
    return [reader.answers for reader in readers]


def assert_one_switch(staying, reopening, count=331):
    """The open reader saw the old one throughout; the other first the old, then the new."""
    assert {width for width, *_ in staying} == {64}
    widths = [width for width, *_ in reopening]
    assert set(widths) == {64, 128}
    assert widths == sorted(widths)
    for answers in (staying, reopening):
        assert {answer[1:] for answer in answers} == {("p7", 1.0, count)}
        assert len(answers) > 5


def test_readers_of_a_folder_see_no_error_and_no_mixture(corpus, folder):
    """One thread holds the collection open, another opens it for each query, through the switch."""
    found = read_through(corpus, folder, "default", lambda: rebuild(folder, model=NEW))
    assert_one_switch(*found)


def test_readers_of_a_folder_whose_old_one_is_dropped(corpus, folder):
    """What is open goes on with the old files, which are deleted with the last close."""

    def twice():
        rebuild(folder, model=NEW, drop_old=True)

    assert_one_switch(*read_through(corpus, folder, "default", twice))
    assert names(folder) == ["default"]
    assert drop_collection(folder, "default") == 331
    assert [p for p in folder.iterdir() if p.is_dir()] == []


def test_readers_of_an_alias_see_no_error_and_no_mixture(corpus, aliased):
    found = read_through(
        corpus, aliased, "live", lambda: rebuild(aliased, model=NEW, collection_name="live")
    )
    assert_one_switch(*found)
    assert names(aliased) == ["live.rebuild", "v1"]


def test_a_writer_through_the_switch_loses_nothing(corpus, folder):
    """Writes before the switch are in the new one; after it the old name takes no more."""
    writer = corpus.open(folder, model=OLD)
    written = []

    def write(report):
        if len(written) < 3:
            passage = Passage(f"new {len(written)}", f"late {len(written)}")
            writer.index([passage])
            written.append(passage)

    rebuild(folder, model=NEW, on_progress=write)
    assert len(written) == 3
    with pytest.raises(StoreError, match="switched to another one"):
        writer.index([Passage("too late", "gone")])
    with pytest.raises(StoreError, match="switched to another one"):
        writer.save_profile(corpus.profile)
    assert writer.count() == 334
    writer.close()
    with corpus.open(folder) as retriever:
        assert retriever.info().dim == 128
        assert retriever.get([p.id for p in written]) == written
        assert retriever.count() == 334


def test_a_writer_that_never_stops_leaves_the_old_one_in_place(corpus, folder):
    writer = corpus.open(folder, model=OLD)
    count = iter(range(100))
    with pytest.raises(StoreError, match="keeps writing"):
        rebuild(
            folder,
            model=NEW,
            on_progress=lambda _: writer.index([Passage(f"new {next(count)}", "x")]),
        )
    assert writer.index([Passage("still", "fine")]).added == 1
    writer.close()
    assert dim(corpus, folder) == 64


# Servers, in the client's local mode -----------------------------------------------------


def test_an_alias_switches_and_the_old_collection_stays(corpus, aliased):
    report = rebuild(aliased, model=NEW, collection_name="live")
    assert (report.added, report.failed) == (331, 0)
    assert (dim(corpus, aliased, "live"), dim(corpus, aliased, "live.old")) == (128, 64)
    assert aliases(aliased) == {"live": "live.rebuild", "live.old": "v1"}
    switch_collection(aliased, "live", "live.old")
    assert aliases(aliased) == {"live": "v1", "live.old": "live.rebuild"}
    switch_collection(aliased, "live", "live.old")
    with pytest.raises(InputError, match="still kept"):
        rebuild(aliased, model=HashEncoder(dim=16), collection_name="live")
    rebuild(aliased, model=HashEncoder(dim=16), collection_name="live", drop_old=True)
    assert aliases(aliased) == {"live": "live.rebuild.2"}
    assert names(aliased) == ["live.rebuild.2"]
    rebuild(aliased, model=NEW, collection_name="live")
    assert aliases(aliased) == {"live": "live.rebuild", "live.old": "live.rebuild.2"}
    assert drop_collection(aliased, "live.old") == 331
    assert aliases(aliased) == {"live": "live.rebuild"}


def aliases(client):
    return {a.alias_name: a.collection_name for a in client.get_aliases().aliases}


def test_a_collections_own_name_cannot_be_switched_on_a_server(corpus, local):
    """Nothing is encoded before this is said; with an alias for the readers it works."""
    corpus.fill(local)
    with pytest.raises(InputError, match="--alias"):
        rebuild(local, model=NEW)
    assert names(local) == ["default"]
    rebuild(local, model=NEW, alias="live")
    assert aliases(local) == {"live": "live.rebuild", "live.old": "default"}
    assert dim(corpus, local, "live") == 128
    assert dim(corpus, local) == 64


def test_an_alias_is_not_for_a_folder(folder):
    with pytest.raises(InputError, match="leave the alias out"):
        rebuild(folder, model=NEW, alias="live")


def test_a_server_that_does_not_answer_is_named():
    with pytest.raises(StoreError, match="http://localhost:1"):
        rebuild("http://localhost:1", model=NEW)


def test_a_writer_behind_an_alias_is_told_of_the_switch(corpus, aliased):
    """What it wrote into the old one was acknowledged, and no reader ever saw it.

    Nor do one model's vectors go into the other's collection.
    """
    writer = corpus.open(aliased, collection_name="live", model=OLD)
    writer.index([Passage("early", "early")])
    rebuild(aliased, model=NEW, collection_name="live")
    for write in (
        lambda: writer.index([Passage("late", "late")]),
        lambda: writer.index([Passage("early", "early", {"new": 1})]),
        lambda: writer.delete(["early"]),
        lambda: writer.delete(filter={"lang": "en"}),
        writer.delete_all,
        lambda: writer.save_profile(corpus.profile),
    ):
        with pytest.raises(StoreError, match="'live' at client was switched to another one"):
            write()
    assert writer.count() == 332
    assert writer.info().collection_name == "live"
    for name in ("live", "live.old"):
        with corpus.open(aliased, collection_name=name) as retriever:
            assert retriever.count() == 332
            assert retriever.get(["early"]) == [Passage("early", "early")]


def test_who_holds_what_a_server_dropped_is_told_to_open_it_again(corpus, aliased):
    """They were told that no collection has a name which they had never heard of."""
    reader = corpus.open(aliased, collection_name="live", model=OLD)
    rebuild(aliased, model=NEW, collection_name="live", drop_old=True)
    for read in (lambda: reader.search("cat", 1), reader.count, lambda: reader.get(["p1"])):
        with pytest.raises(CollectionNotFoundError, match=r"'live' .* switched .* open it again"):
            read()
    with pytest.raises(StoreError, match="open it again"):
        reader.index([Passage("late", "late")])
    with corpus.open(aliased, collection_name="live") as again:
        assert again.count() == 331


def test_names_that_were_switched_meanwhile_are_left_as_they_are(corpus, aliased):
    """What somebody else had switched to lost its name, hours later."""
    corpus.fill(aliased, collection_name="v2")

    def meanwhile(_):
        if "v2" not in aliases(aliased).values():
            switch_collection(aliased, "live", "v2")

    with pytest.raises(StoreError, match="'live' means 'v2' by now, and meant 'v1'"):
        rebuild(aliased, model=NEW, collection_name="live", on_progress=meanwhile)
    assert aliases(aliased) == {"live": "v2", "live.old": "v1"}
    assert names(aliased) == ["live.rebuild", "v1", "v2"]


def test_what_a_rebuild_finished_is_nothing_to_write_over(corpus, folder):
    """Its mark stayed, and went along to copies: a later rebuild took those for its own."""
    rebuild(folder, model=NEW, drop_old=True)
    copy_collection(folder, folder, to_collection_name="default.rebuild")
    with pytest.raises(InputError, match="not made by a rebuild"):
        rebuild(folder, model=OLD)
    switch_collection(folder, "second", "default")
    switch_collection(folder, "default", "default.rebuild")
    switch_collection(folder, "default.rebuild", "second")
    with pytest.raises(InputError, match="not made by a rebuild"):
        rebuild(folder, model=OLD)
    assert dim(corpus, folder, "default.rebuild") == 128


# Pointers --------------------------------------------------------------------------------


def test_another_collection_takes_a_name(corpus, folder):
    with corpus.open(folder, collection_name="second", model=NEW) as retriever:
        retriever.index([Passage("other", "cut otherwise")])
    switch_collection(folder, "default", "second")
    assert names(folder) == ["default", "default.old"]
    with corpus.open(folder, collection_name="second", model=OLD) as retriever:
        retriever.index([Passage("third", "another one of that name")])
    assert names(folder) == ["default", "default.old", "second"]
    with corpus.open(folder) as retriever:
        assert retriever.get(["other"])[0].text == "cut otherwise"
    with corpus.open(folder, collection_name="second") as retriever:
        assert retriever.get(["third"])
    with pytest.raises(CollectionNotFoundError, match="no collection 'nowhere'"):
        switch_collection(folder, "default", "nowhere", drop_old=True)
    with pytest.raises(InputError, match="name another"):
        switch_collection(folder, "default", "default", drop_old=True)


def test_a_dropped_name_can_be_used_again_while_the_old_files_are_open(corpus, folder):
    reader = corpus.open(folder, model=OLD)
    drop_collection(folder, "default")
    assert names(folder) == []
    with corpus.open(folder, model=NEW) as retriever:
        retriever.index([Passage("new", "new")])
        assert (reader.count(), retriever.count()) == (331, 1)
        assert reader.search("moon")
        with pytest.raises(StoreError, match="switched"):
            reader.delete(["p1"])
    reader.close()
    with corpus.open(folder) as retriever:
        assert retriever.count() == 1
    drop_collection(folder, "default")
    assert [p for p in folder.iterdir() if p.is_dir()] == []


def test_damaged_pointers(folder):
    (folder / "collections.json").write_text("{")
    with pytest.raises(StoreError, match="damaged"):
        Retriever.open(folder)


def test_two_switches_at_once_both_happen(corpus, tmp_path):
    """Each writes the one file of pointers: neither may write over the other's entry."""
    for name in ("a", "b"):
        for suffix, encoder in (("", OLD), (".2", NEW)):
            with corpus.open(tmp_path, collection_name=name + suffix, model=encoder) as retriever:
                retriever.index([Passage("x", "x")])
    threads = [
        threading.Thread(target=switch_collection, args=(tmp_path, name, f"{name}.2"))
        for name in ("a", "b")
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert names(tmp_path) == ["a", "a.old", "b", "b.old"]
    assert [dim(corpus, tmp_path, name) for name in names(tmp_path)] == [128, 64, 128, 64]


def test_an_alias_that_is_a_key_short_of_being_listed(monkeypatch, corpus, local: QdrantClient):
    """A key for one collection may not list aliases; opening works all the same."""
    corpus.fill(local)

    def refused(**_):
        raise UnexpectedResponse(403, "Forbidden", b"{}", Headers())

    monkeypatch.setattr(local, "get_aliases", refused)
    with corpus.open(local) as retriever:
        assert retriever.count() == 331


def test_aliases_given_by_others_are_kept(corpus, aliased, tmp_path: Path):
    alias = models.CreateAlias(collection_name="v1", alias_name="theirs")
    aliased.update_collection_aliases([models.CreateAliasOperation(create_alias=alias)])
    rebuild(aliased, model=NEW, collection_name="live")
    assert aliases(aliased)["theirs"] == "v1"
