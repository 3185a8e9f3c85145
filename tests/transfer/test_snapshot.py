"""Snapshots of a folder: equal searches after a restore, and nothing bad let in."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import shutil
import tarfile
import threading
import zlib
from pathlib import Path

import portalocker
import pytest

from sbert_retriever import Passage
from sbert_retriever.errors import (
    CollectionNotFoundError,
    InputError,
    ReadError,
    StoreError,
    StoreLockedError,
)
from sbert_retriever.index.embedded import EmbeddedClient
from sbert_retriever.testing import HashEncoder
from sbert_retriever.transfer import rebuild, restore, snapshot
from sbert_retriever.transfer.archive import opened, write_archive

KILLED = """
import os, signal, sys
from pathlib import Path
from sbert_retriever.index.embedded import EmbeddedClient
from sbert_retriever.transfer import restore
EmbeddedClient.adopt_collections = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
restore(sys.argv[1], sys.argv[2])
"""
HOLD = """
import sys
from sbert_retriever import Retriever
retriever = Retriever.open(sys.argv[1])
print("open", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def file(folder, tmp_path):
    """A snapshot of the folder."""
    target = tmp_path / "s.tar.gz"
    snapshot(folder, target)
    return target


def answers(corpus, place, name="default"):
    """What twenty questions find, by exact search and by the engine's own way."""
    with corpus.open(place, collection_name=name, model=HashEncoder()) as retriever:
        texts = [p.text for p in corpus.passages(20)]
        return [
            [(h.id, h.score) for h in hits]
            for exact in (True, False)
            for hits in retriever.search_batch(texts, k=10, exact=exact)
        ]


def left_in(folder):
    return sorted(p.name for p in folder.iterdir()) if folder.exists() else []


@pytest.mark.parametrize("name", ["s.tar.gz", "s.tar"])
def test_restored_it_gives_equal_searches(corpus, folder, tmp_path, name):
    made = snapshot(folder, tmp_path / name)
    assert made.collections == {"default": 331}
    assert made.bytes == (tmp_path / name).stat().st_size
    report = restore(tmp_path / name, tmp_path / "b")
    assert report.collections == {"default": 331}
    corpus.assert_equal(folder, tmp_path / "b")
    assert answers(corpus, tmp_path / "b") == answers(corpus, folder)
    assert left_in(tmp_path / "b") == ["collections.lock", "default"]
    with corpus.open(tmp_path / "b", model=HashEncoder()) as retriever:
        assert retriever.index(corpus.passages()).unchanged == 331
        assert "metadata.lang" in retriever.info().filterable


def test_the_graph_comes_along(corpus, tmp_path):
    """7,000 vectors, over what the engine leaves unindexed, need no second index build."""
    corpus.fill(tmp_path / "a", 6400, model=HashEncoder(dim=384))
    snapshot(tmp_path / "a", tmp_path / "s.tar")
    restore(tmp_path / "s.tar", tmp_path / "b")
    with corpus.open(tmp_path / "b") as retriever:
        assert retriever.info().indexed == retriever.count() == 7041


def test_what_is_written_while_it_is_open_is_in_it(corpus, folder, tmp_path):
    with corpus.open(folder, model=HashEncoder()) as retriever:
        retriever.index([Passage("late", "the last one")])
        snapshot(folder, tmp_path / "s.tar.gz")
        retriever.index([Passage("later", "too late")])
    restore(tmp_path / "s.tar.gz", tmp_path / "b")
    with corpus.open(tmp_path / "b") as retriever:
        assert retriever.count() == 332
        assert retriever.get(["late", "later"]) == [Passage("late", "the last one")]


def test_a_writer_in_another_thread_cannot_tear_it(corpus, folder, tmp_path):
    over, written = threading.Event(), []

    def write():
        with corpus.open(folder, model=HashEncoder()) as retriever:
            while not over.is_set():
                written.append(Passage(f"w{len(written)}", "written meanwhile"))
                retriever.index([written[-1]])

    thread = threading.Thread(target=write)
    thread.start()
    try:
        for n in range(3):
            snapshot(folder, tmp_path / f"{n}.tar.gz")
    finally:
        over.set()
        thread.join()
    for n in range(3):
        report = restore(tmp_path / f"{n}.tar.gz", tmp_path / str(n))
        with corpus.open(tmp_path / str(n)) as retriever:
            count = retriever.count()
            assert count == report.collections["default"]
            assert retriever.get([f"w{i}" for i in range(count - 331)]) == written[: count - 331]


def test_all_collections_or_one(corpus, folder, tmp_path):
    """Names of any kind, and one that a pointer leads to."""
    with corpus.open(folder, collection_name="a/b ü", model=HashEncoder()) as retriever:
        retriever.index([Passage("x", "x")])
    rebuild(folder, model=HashEncoder(dim=16), drop_old=True)
    assert snapshot(folder, tmp_path / "all.tar.gz").collections == {"a/b ü": 1, "default": 331}
    assert restore(tmp_path / "all.tar.gz", tmp_path / "b").collections == {
        "a/b ü": 1,
        "default": 331,
    }
    with corpus.open(tmp_path / "b") as retriever:
        assert retriever.info().dim == 16
    with corpus.open(tmp_path / "b", collection_name="a/b ü") as retriever:
        assert retriever.get(["x"])
    one = snapshot(folder, tmp_path / "one.tar.gz", collection_name="a/b ü")
    assert one.collections == {"a/b ü": 1}


def test_the_manifest_says_what_it_is(file):
    with opened(file) as archive:
        facts = archive.facts
    assert (facts["format"], facts["version"]) == ("sbert-retriever snapshot", 1)
    assert facts["engine"].startswith("qdrant-edge 0.")
    assert facts["collections"] == [{"name": "default", "folder": "0", "count": 331}]
    with tarfile.open(file) as tar:
        for member in tar.getmembers()[1:]:
            content = tar.extractfile(member).read()
            assert facts["files"][member.name] == {
                "size": len(content),
                "sha256": hashlib.sha256(content).hexdigest(),
            }


def test_a_collection_that_is_there_is_not_replaced_without_being_told(corpus, folder, file):
    with corpus.open(folder, model=HashEncoder()) as retriever:
        retriever.delete(["p1"])
        with pytest.raises(InputError, match="--replace"):
            restore(file, folder)
        assert retriever.count() == 330
        restore(file, folder, replace=True)
        # What is open goes on with what it opened, and takes no more writes.
        assert retriever.count() == 330
        with pytest.raises(StoreError, match="switched"):
            retriever.delete(["p2"])
    with corpus.open(folder) as retriever:
        assert retriever.count() == 331
    restore(file, folder, replace=True)
    assert len([p for p in folder.iterdir() if p.is_dir()]) == 1


def test_what_a_kill_between_moving_in_and_pointing_left_is_written_over(corpus, folder, file):
    """A folder that no name points to yet, as a replacing restore that was killed leaves it."""
    shutil.copytree(folder / "default", folder / "default+1")
    with corpus.open(folder, model=HashEncoder()) as retriever:
        retriever.delete(["p1"])
    with corpus.open(folder) as retriever:
        assert retriever.count() == 330
    restore(file, folder, replace=True)
    with corpus.open(folder) as retriever:
        assert retriever.count() == 331
    assert [p.name for p in folder.iterdir() if p.is_dir()] == ["default+1"]


def test_a_killed_restore_leaves_nothing_that_counts(corpus, file, tmp_path, run_killed):
    """SIGKILL between unpacking and putting in place: no collection, and the next run tidies up."""
    run_killed(KILLED, file, tmp_path / "b")
    client = EmbeddedClient(tmp_path / "b")
    assert client.get_collections().collections == []
    client.close()
    assert len(left_in(tmp_path / "b")) == 1
    restore(file, tmp_path / "b")
    assert left_in(tmp_path / "b") == ["collections.lock", "default"]
    corpus.assert_equal(tmp_path / "from", tmp_path / "b")


def test_another_process_that_holds_it_is_named(folder, file, start_python):
    process = start_python(HOLD, folder)
    with pytest.raises(StoreLockedError, match=f"process {process.pid}"):
        restore(file, folder, replace=True)
    with pytest.raises(StoreLockedError, match=f"process {process.pid}"):
        snapshot(folder, file)


def test_a_snapshot_that_fails_leaves_the_file_before(folder, file, tmp_path, monkeypatch):
    before = file.read_bytes()

    def fail(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(StoreError, match="cannot be written: No space"):
        write_archive(file, {}, {"0/a": folder / "default" / "collection.json"})
    assert file.read_bytes() == before
    assert not list(tmp_path.glob("*.part"))


def test_what_killed_runs_left_is_removed_and_the_part_of_one_that_lives_stays(tmp_path):
    """A snapshot a night, and each that was killed left as many gigabytes."""
    left, other = tmp_path / "s.tar.0123.part", tmp_path / "s.tar.4567.part"
    apart = tmp_path / "other.tar.0123.part"
    for part in (left, other, apart):
        part.write_bytes(b"half of a snapshot")
    member = tmp_path / "a"
    member.write_bytes(b"a file")
    with other.open("r+b") as living:
        portalocker.lock(living, portalocker.LOCK_EX | portalocker.LOCK_NB)
        assert write_archive(tmp_path / "s.tar", {}, {"0/a": member}) > 0
    assert {path.name for path in tmp_path.iterdir()} == {"s.tar", "a", other.name, apart.name}


@pytest.mark.parametrize("methods", [("is_dir",), ("open", "unlink")])
def test_a_folder_that_may_not_be_entered_takes_no_snapshot(folder, tmp_path, monkeypatch, methods):
    """Python before 3.14 raises where it looks at what lies there. Root may enter anything."""

    def refusing(method):
        def refused(path, *args, **options):
            if path.name.startswith("s.tar"):
                raise PermissionError(13, "Permission denied", str(path))
            return method(path, *args, **options)

        return refused

    for name in methods:
        monkeypatch.setattr(Path, name, refusing(getattr(Path, name)))
    with pytest.raises(StoreError, match=r"s\.tar\.gz cannot be written: Permission denied"):
        snapshot(folder, tmp_path / "s.tar.gz")


def test_odd_places(corpus, folder, tmp_path, local):
    with pytest.raises(InputError, match="collection's own folder"):
        snapshot(folder, folder / "default" / "s.tar.gz")
    with pytest.raises(InputError, match="no collection in"):
        snapshot(tmp_path / "nothing", tmp_path / "s.tar.gz")
    with pytest.raises(CollectionNotFoundError):
        snapshot(folder, tmp_path / "s.tar.gz", collection_name="other")
    with pytest.raises(StoreError, match="nowhere"):
        snapshot(folder, tmp_path / "nowhere" / "s.tar.gz")
    with pytest.raises(ReadError, match=r"none\.tar.*No such file"):
        restore(tmp_path / "none.tar", tmp_path / "b")
    corpus.fill(local)
    with pytest.raises(StoreError, match="sbert-retriever copy"):
        snapshot(local, tmp_path / "s.tar.gz", collection_name="default")
    assert not (tmp_path / "s.tar.gz").exists()


# What is damaged, and what is hostile --------------------------------------------------------


def refused(file, tmp_path, match, kind=ReadError):
    """Refused, and the place as it was: not there, or with what it held."""
    place = tmp_path / "b"
    before = left_in(place)
    with pytest.raises(kind, match=match):
        restore(file, place)
    assert left_in(place) == before
    assert not (tmp_path / "evil").exists()


@pytest.mark.full
def test_a_flipped_byte_is_found(file, tmp_path):
    """Anywhere in a compressed archive, but where it still unpacks to the very same bytes.

    (In a run of zeros, a copy from another distance gives the same zeros.)
    """
    whole, found = file.read_bytes(), 0
    for place in range(36):
        raw = bytearray(whole)
        raw[len(raw) * place // 36 + 5] ^= 0x40
        file.write_bytes(raw)
        try:
            assert gzip.decompress(raw) == gzip.decompress(whole)
        except (OSError, EOFError, zlib.error):
            refused(file, tmp_path, "damaged|truncated|cannot be read")
            found += 1
    assert found >= 3
    file.write_bytes(whole)
    restore(file, tmp_path / "b")


def test_a_flipped_byte_in_any_file_of_a_plain_archive_is_found(folder, tmp_path):
    """Without compression there is no checksum but ours: a bit of a vector, of the text, of all."""
    file = tmp_path / "s.tar"
    snapshot(folder, file)
    with tarfile.open(file) as tar:
        members = [m for m in tar.getmembers() if m.size]
    whole = file.read_bytes()
    for member in members[:: max(1, len(members) // 12)]:
        raw = bytearray(whole)
        raw[member.offset_data + member.size // 2] ^= 1
        file.write_bytes(raw)
        refused(file, tmp_path, "damaged")


@pytest.mark.parametrize("place", [0, 10, 0.001, 0.3, 0.7, 0.999])
@pytest.mark.parametrize("name", ["s.tar.gz", "s.tar"])
def test_a_truncated_archive_is_found(folder, tmp_path, name, place):
    file = tmp_path / name
    snapshot(folder, file)
    raw = file.read_bytes()
    # A plain archive ends in padding, which nothing is lost with.
    end = len(raw) - (20480 if name == "s.tar" else 0)
    file.write_bytes(raw[: place if isinstance(place, int) else int(end * place)])
    refused(file, tmp_path, "truncated|no snapshot")


def packed(tmp_path, members, *, files=None, **facts):
    """An archive with a right manifest and members of any kind."""
    contents = {m.name: c for m, c in members if c is not None}
    sums = {
        name: {"size": len(c), "sha256": hashlib.sha256(c).hexdigest()}
        for name, c in contents.items()
    }
    content = {
        "format": "sbert-retriever snapshot",
        "version": 1,
        "engine": "qdrant-edge 0.9.0",
        "collections": [{"name": "default", "folder": "0", "count": 0}],
        **facts,
        "files": sums if files is None else files,
    }
    checksum = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
    manifest = json.dumps({**content, "checksum": checksum}).encode()
    file = tmp_path / "made.tar.gz"
    with gzip.open(file, "wb") as raw, tarfile.open(fileobj=raw, mode="w") as tar:
        first = tarfile.TarInfo("manifest.json")
        first.size = len(manifest)
        tar.addfile(first, io.BytesIO(manifest))
        for member, data in members:
            member.size = len(data or b"")
            tar.addfile(member, io.BytesIO(data or b""))
    return file


def plain(name):
    return tarfile.TarInfo(name)


def special(name, kind, target=""):
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, target
    return member


@pytest.mark.parametrize(
    "name",
    [
        "../evil",
        "0/../../evil",
        "{tmp}/evil",
        "0/./evil",
        "0//evil",
        "C:evil",
        "..\\evil",
        ".",
        "0/..",
    ],
)
def test_a_path_that_leads_elsewhere_is_refused(tmp_path, name):
    name = name.replace("{tmp}", str(tmp_path))
    file = packed(tmp_path, [(plain(name), b"evil")])
    refused(file, tmp_path, "leads out of the place")


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (tarfile.SYMTYPE, "a link to"),
        (tarfile.LNKTYPE, "a link to"),
        (tarfile.CHRTYPE, "a device"),
        (tarfile.BLKTYPE, "a device"),
        (tarfile.FIFOTYPE, "a device, a pipe"),
        (tarfile.DIRTYPE, "a folder"),
        (b"S", "checksum|plain files|cannot be read"),
    ],
)
def test_what_is_no_plain_file_is_refused(tmp_path, kind, said):
    """A link in the archive, named by the manifest, through which the next file would leave."""
    members = [(special("0/x", kind, "../../.."), None), (plain("0/x/evil"), b"evil")]
    files = {
        "0/x": {"size": 0, "sha256": hashlib.sha256(b"").hexdigest()},
        "0/x/evil": {"size": 4, "sha256": hashlib.sha256(b"evil").hexdigest()},
    }
    refused(packed(tmp_path, members, files=files), tmp_path, said)


def test_a_file_that_the_manifest_does_not_name_is_refused(tmp_path):
    file = packed(tmp_path, [(plain("0/a"), b"a"), (plain("0/b"), b"b")], files={})
    refused(file, tmp_path, "manifest does not name")
    twice = packed(tmp_path, [(plain("0/a"), b"a"), (plain("0/a"), b"a")])
    refused(twice, tmp_path, "or twice")


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"version": 2}, "upgrade"),
        ({"format": "x"}, "manifest is damaged"),
        ({"collections": None}, "manifest is damaged"),
        ({"collections": [{"name": "../evil", "count": 0}]}, "cannot open|not a collection name"),
        ({"collections": [{"name": "..", "count": 0}]}, "not a collection name"),
    ],
)
def test_manifests_that_are_none(tmp_path, facts, said):
    file = packed(tmp_path, [(plain("0/a"), b"a")], **facts)
    refused(file, tmp_path, said, (ReadError, InputError, StoreError))


def test_a_manifest_that_was_edited_is_refused(tmp_path):
    """The count in a plain archive, changed by hand, with no file's checksum wrong."""
    file = packed(tmp_path, [(plain("0/a"), b"a")])
    raw = gzip.decompress(file.read_bytes()).replace(b'"count": 0', b'"count": 9')
    (tmp_path / "edited.tar").write_bytes(raw)
    refused(tmp_path / "edited.tar", tmp_path, "its checksum is wrong")


def test_what_the_engine_cannot_open_is_not_put_in_place(tmp_path):
    file = packed(tmp_path, [(plain("0/collection.json"), b"{}"), (plain("0/shard/x"), b"x")])
    refused(file, tmp_path, "cannot open what was unpacked.*Nothing was restored", StoreError)


def test_what_is_no_snapshot_is_said(tmp_path):
    other = tmp_path / "x.tar"
    with tarfile.open(other, "w") as tar:
        tar.addfile(plain("hello"))
    refused(other, tmp_path, "does not begin with a manifest")
    other.write_text('{"format": "sbert-retriever export"}\n' * 100)
    refused(other, tmp_path, "cannot be read as a snapshot")


def test_a_servers_snapshot_is_not_for_a_folder(tmp_path):
    file = packed(tmp_path, [(plain("0/qdrant.snapshot"), b"a")], engine="qdrant-server 1.16.0")
    refused(file, tmp_path, "snapshot of qdrant-server 1.16.0, and this is a folder", InputError)
