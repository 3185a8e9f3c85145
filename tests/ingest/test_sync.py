"""Bringing a collection in line with passages, on every engine."""

import math

import numpy as np
import pytest

from sbert_retriever import BiEncoder, Passage, Retriever
from sbert_retriever.errors import (
    InputError,
    InputTypeError,
    TextTooLongError,
    TruncationWarning,
)
from sbert_retriever.index import batches
from sbert_retriever.ingest import encoding, sync
from sbert_retriever.testing import HashEncoder, tiny_bert


class CountingEncoder(HashEncoder):
    """Remembers what it was asked to encode."""

    def __init__(self, *, dim=64):
        super().__init__(dim=dim)
        self.texts = []

    def encode_passages(self, texts):
        self.texts.extend(texts)
        return super().encode_passages(texts)


def counts(report):
    return (report.added, report.updated, report.unchanged, report.deleted, report.failed)


def passages(n, *, source="s"):
    return [Passage(f"p{i}", f"text {i}", {"i": i}, source) for i in range(n)]


def test_only_what_changed_is_encoded(engine):
    encoder = CountingEncoder()
    retriever = engine.open(model=encoder)
    assert counts(retriever.index(passages(5))) == (5, 0, 0, 0, 0)
    encoder.texts.clear()

    changed = passages(6)
    changed[1] = Passage("p1", "new words", {"i": 1}, "s")
    changed[2] = Passage("p2", "text 2", {"i": 22}, "s")
    changed[3] = Passage("p3", "text 3", {"i": 3}, "elsewhere")
    report = retriever.index(changed)

    assert counts(report) == (1, 3, 2, 0, 0)
    assert sorted(encoder.texts) == ["new words", "text 5"]
    assert report.encoded == 2
    assert retriever.get([f"p{i}" for i in range(6)]) == changed
    assert retriever.search("new words", k=1)[0].id == "p1"


def test_a_metadata_update_keeps_the_vector(retriever):
    retriever.index([Passage("a", "one two three", {"v": 1})])
    retriever.index([Passage("a", "one two three", {"v": 2})])
    hit = retriever.search("one two three", k=1)[0]
    assert hit.metadata == {"v": 2}
    assert hit.score == pytest.approx(1.0, abs=1e-5)


def test_points_removed_behind_our_back_are_added_again(retriever):
    """What is in the collection is asked of the collection, so lost points come back."""
    retriever.index(passages(3))
    client = retriever.store.connection.client
    records, _ = client.scroll(collection_name=retriever.store.collection_name, limit=10)
    client.delete(
        collection_name=retriever.store.collection_name, points_selector=[r.id for r in records]
    )
    assert retriever.count() == 0
    assert counts(retriever.index(passages(3))) == (3, 0, 0, 0, 0)
    assert retriever.count() == 3


def test_duplicate_texts_are_encoded_once(engine):
    encoder = CountingEncoder()
    retriever = engine.open(model=encoder)
    twins = [Passage(f"p{i}", ("same", "other")[i % 2]) for i in range(10)]
    report = retriever.index(twins)
    assert report.added == 10
    assert sorted(encoder.texts) == ["other", "same"]
    assert retriever.search("same", k=5)[4].score == pytest.approx(1.0, abs=1e-5)


def test_duplicate_texts_in_far_windows_are_encoded_once(engine, monkeypatch):
    monkeypatch.setattr(sync, "WINDOW_PASSAGES", 2)
    encoder = CountingEncoder()
    engine.open(model=encoder).index(Passage(f"p{i}", "same") for i in range(7))
    assert encoder.texts == ["same"]


def test_what_is_no_passage_stops_nothing_that_came_before(retriever):
    """In the window that it came in, too."""
    with pytest.raises(InputTypeError, match="item 4 is str, expected Passage"):
        retriever.index([*passages(3), "no passage", *passages(9)])
    assert sorted(p.id for p in retriever.scroll()[0]) == ["p0", "p1", "p2"]


def test_prune_spares_other_sources(retriever):
    retriever.index([*passages(4), Passage("other", "text", {}, "t"), Passage("loose", "text")])
    report = retriever.index(passages(2), prune=True)
    assert counts(report) == (0, 0, 2, 2, 0)
    assert sorted(p.id for p in retriever.scroll()[0]) == ["loose", "other", "p0", "p1"]


def test_prune_spares_what_is_there_and_cannot_be_used_now(retriever):
    """Metadata that JSON cannot carry keeps the new version out, and the old one stays."""
    retriever.index(passages(3))
    broken = Passage("p1", "new words", {"i": object()}, "s")
    report = retriever.index([passages(1)[0], broken], prune=True)
    assert counts(report) == (0, 0, 1, 1, 1)
    assert [failure.id for failure in report.failures] == ["p1"]
    assert retriever.get(["p1"]) == [passages(2)[1]]


def test_prune_of_a_source_that_was_emptied(retriever):
    retriever.index(passages(3))
    assert counts(retriever.index([], prune=True, sources=["s"])) == (0, 0, 0, 3, 0)


def test_a_dry_run_counts_and_writes_nothing(engine):
    encoder = CountingEncoder()
    retriever = engine.open(model=encoder)
    retriever.index(passages(3))
    encoder.texts.clear()
    changed = [Passage("p0", "changed", {}, "s"), Passage("new", "new", {}, "s")]
    report = retriever.index(changed, dry_run=True, prune=True)
    assert counts(report) == (1, 1, 0, 2, 0)
    assert report.dry_run
    assert encoder.texts == []
    assert retriever.get(["p0", "p1", "p2"]) == passages(3)


def test_a_generator_longer_than_a_window(retriever, monkeypatch):
    monkeypatch.setattr(sync, "WINDOW_PASSAGES", 7)
    assert retriever.index(p for p in passages(30)).added == 30
    assert retriever.count() == 30


def test_one_id_twice_with_one_content_is_one_passage(retriever):
    report = retriever.index([Passage("a", "text"), Passage("a", "text")])
    assert counts(report) == (1, 0, 1, 0, 0)


def test_one_id_twice_with_two_contents_is_reported(retriever, monkeypatch):
    monkeypatch.setattr(sync, "WINDOW_PASSAGES", 1)
    report = retriever.index([Passage("a", "first"), Passage("a", "second")])
    assert counts(report) == (1, 0, 0, 0, 1)
    assert report.failures[0].id == "a"
    assert "twice" in report.failures[0].reason
    assert retriever.get(["a"])[0].text == "first"


class BrokenEncoder(HashEncoder):
    """Gives the vector named in the text."""

    def encode_passages(self, texts):
        vectors = super().encode_passages(texts).copy()
        for row, text in enumerate(texts):
            if text in ("nan", "inf", "zero"):
                vectors[row] = {"nan": math.nan, "inf": math.inf, "zero": 0.0}[text]
        return vectors


@pytest.mark.parametrize("bad", ["nan", "inf", "zero"])
def test_a_vector_the_engine_would_lose_is_refused_by_passage(engine, bad):
    """A NaN, infinite or zero vector is reported by id, and its neighbours keep their own."""
    retriever = engine.open(model=BrokenEncoder(dim=64))
    three = [Passage("a", "cats purr"), Passage("b", bad), Passage("c", "dogs bark")]
    report = retriever.index(three)
    assert counts(report) == (2, 0, 0, 0, 1)
    assert report.failures[0].id == "b"
    assert retriever.search("cats purr", k=1)[0].id == "a"
    assert retriever.search("dogs bark", k=1)[0].id == "c"
    assert retriever.count() == 2


@pytest.mark.parametrize("bad", ["nan", "inf", "zero"])
def test_a_strict_run_writes_nothing_of_a_window_with_such_a_vector(engine, bad):
    retriever = engine.open(model=BrokenEncoder(dim=64))
    with pytest.raises(InputError, match="'b'"):
        retriever.index([Passage("a", "cats"), Passage("b", bad)], strict=True)
    assert retriever.count() == 0


def test_metadata_that_cannot_be_kept_is_reported_by_key_and_id(retriever):
    """NaN, bytes and objects in metadata are named; the other passages go in."""
    report = retriever.index(
        [
            Passage("good", "text"),
            Passage("nan", "text", {"price": math.nan}),
            Passage("bytes", "text", {"raw": b"x"}),
            Passage("object", "text", {"o": object()}),
        ]
    )
    assert counts(report) == (1, 0, 0, 0, 3)
    reasons = {failure.id: failure.reason for failure in report.failures}
    assert "price" in reasons["nan"]
    assert "raw" in reasons["bytes"]


def test_a_lone_surrogate_is_reported(retriever):
    report = retriever.index([Passage("a", "bad \ud800 text"), Passage("b", "good")])
    assert counts(report) == (1, 0, 0, 0, 1)
    assert "surrogate" in report.failures[0].reason


@pytest.mark.parametrize("value", ["text", b"x", {"a": 1}, 3, None])
def test_what_is_no_iterable_of_passages(retriever, value):
    with pytest.raises(InputTypeError, match="expected an iterable of Passage"):
        retriever.index(value)


def test_a_single_passage_is_no_iterable(retriever):
    with pytest.raises(InputTypeError, match="expected an iterable of Passage"):
        retriever.index(Passage("a", "b"))


def test_an_item_that_is_no_passage_is_named_by_position(retriever):
    with pytest.raises(InputTypeError, match="item 2 is str"):
        retriever.index([Passage("a", "b"), "c"])


def test_none_among_passages_is_an_error_and_not_the_end(retriever):
    with pytest.raises(InputTypeError, match="item 2 is NoneType"):
        retriever.index([Passage("a", "b"), None, Passage("c", "d")])


def test_requests_are_bounded_by_bytes_and_by_count(engine):
    """Large vectors and large texts are cut into requests that a server accepts."""
    retriever = engine.open(model=HashEncoder(dim=1536))
    sizes = []
    client = retriever.store.connection.client
    upsert = client.upsert

    def measured(**request):
        points = request["points"]
        text = sum(len(str(p.payload)) for p in points)
        sizes.append((len(points), text + 22 * 1536 * len(points)))
        return upsert(**request)

    client.upsert = measured
    report = retriever.index(Passage(f"p{i}", f"text {i}") for i in range(1500))
    assert report.added == 1500
    big = [Passage(f"big{i}", f"{i} " + "word " * 200_000) for i in range(20)]
    assert retriever.index(big).added == 20
    assert retriever.count() == 1520
    assert max(n for n, _ in sizes) <= batches.REQUEST_POINTS
    assert max(size for _, size in sizes) < 32 * 2**20


def test_a_passage_too_big_for_a_request_is_reported_and_the_rest_go_in(retriever):
    huge = Passage("huge", "a" * (31 * 2**20))
    report = retriever.index([Passage("a", "one"), huge, Passage("b", "two")])
    assert counts(report) == (2, 0, 0, 0, 1)
    assert report.failures[0].id == "huge"
    assert retriever.count() == 2


def test_progress_is_told_after_each_window(retriever, monkeypatch):
    monkeypatch.setattr(sync, "WINDOW_PASSAGES", 2)
    seen = []
    retriever.index(passages(5), on_progress=lambda report: seen.append(report.added))
    assert seen == [2, 4, 5]


@pytest.fixture(scope="module")
def short(tmp_path_factory):
    """A real tokenizer and random weights; reads 8 tokens, of which 2 are special."""
    return BiEncoder.load(tiny_bert(tmp_path_factory.mktemp("tiny"), max_length=8), device="cpu")


LONG = [
    Passage("fits", "the time and the people of"),
    Passage("long", "the time and the people of the"),
    Passage("longer", "the time and the people of the time and the people"),
]


def test_texts_cut_by_the_model_are_said_once_a_call(engine, short, monkeypatch):
    """One warning for many windows, with how many were cut and the longest."""
    monkeypatch.setattr(sync, "WINDOW_PASSAGES", 1)
    retriever = engine.open(model=short)
    with pytest.warns(TruncationWarning, match=r"2 of 3 .*the longest: 13 tokens") as warned:
        report = retriever.index(LONG)
    assert len(warned) == 1
    assert (report.truncated, report.longest) == (2, 13)
    assert retriever.count() == 3


def test_exactly_what_the_model_reads_is_not_cut(engine, short):
    assert engine.open(model=short).index(LONG[:1]).truncated == 0


def test_texts_too_long_can_be_refused_or_passed_over(engine, short):
    retriever = engine.open(model=short)
    with pytest.raises(TextTooLongError, match=r"2 of 3 .*the longest: 13 tokens"):
        retriever.index(LONG, on_truncate="error")
    assert retriever.count() == 0
    assert retriever.index(LONG, on_truncate="ignore").truncated == 2
    with pytest.raises(InputError, match="expected 'warn', 'error' or 'ignore'"):
        retriever.index(LONG, on_truncate="loud")


def test_a_call_has_the_last_word_on_texts_too_long(tmp_path):
    """An encoder that refuses them is told to cut by the call; by default it goes on refusing."""
    folder = tiny_bert(tmp_path / "model", max_length=8)
    refusing = BiEncoder.load(folder, device="cpu", on_truncate="error")
    with Retriever.open(":memory:", model=refusing) as retriever:
        for policy in (None, "error"):
            with pytest.raises(TextTooLongError, match="on_truncate='warn'"):
                retriever.index(LONG, on_truncate=policy)
        assert retriever.count() == 0
        with pytest.warns(TruncationWarning, match=r"2 of 3 .*the longest: 13 tokens"):
            assert retriever.index(LONG, on_truncate="warn").added == 3
        retriever.delete_all()
        assert retriever.index(LONG, on_truncate="ignore").truncated == 2
        assert retriever.count() == 3


def test_nothing_to_index(retriever):
    assert counts(retriever.index([])) == (0, 0, 0, 0, 0)


def test_an_encoder_that_gives_another_number_of_vectors(engine):
    class Short(HashEncoder):
        def encode_passages(self, texts):
            return super().encode_passages(texts)[:-1]

    retriever = engine.open(model=Short(dim=64))
    with pytest.raises(InputError, match=r"gave 2 vectors .* for 3 texts"):
        retriever.index(passages(3))
    assert retriever.count() == 0


def test_an_encoder_that_gives_another_width(engine):
    class Narrow(HashEncoder):
        def encode_passages(self, texts):
            return np.ones((len(list(texts)), 3), dtype=np.float32)

    retriever = engine.open(model=Narrow(dim=64))
    with pytest.raises(InputError, match="shape"):
        retriever.index(passages(3))
    assert retriever.count() == 0


def test_the_same_folder_indexed_by_two_retrievers_of_one_process(tmp_path):
    with (
        Retriever.open(tmp_path, model=HashEncoder(dim=64)) as first,
        Retriever.open(tmp_path) as second,
    ):
        first.index(passages(3))
        assert second.count() == 3


def test_on_a_slow_machine_windows_shrink_so_that_a_kill_costs_seconds(tmp_path, monkeypatch):
    """Whoever stops a run every half minute still gets on: little was encoded in vain."""
    now = [0.0]

    class Slow(HashEncoder):
        def encode_passages(self, texts):
            now[0] += 0.1 * len(texts)
            return super().encode_passages(texts)

    monkeypatch.setattr(encoding, "monotonic", lambda: now[0])
    seen = []
    with Retriever.open(tmp_path, model=Slow()) as retriever:
        passages = (Passage(str(n), f"text {n}") for n in range(1000))
        retriever.index(passages, on_progress=lambda report: seen.append(report.added))
    sizes = [after - before for before, after in zip([0, *seen], seen, strict=False)]
    # 256 texts take 25.6 s, 128 take 12.8, and 64, the least, 6.4.
    # The third is read before it is known how long the second took.
    assert sizes[:5] == [256, 128, 128, 64, 64]
