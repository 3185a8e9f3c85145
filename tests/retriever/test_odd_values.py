"""Values that no one means to give: each is refused in a sentence, before anything is done."""

from pathlib import Path

import numpy as np
import pytest

from sbert_retriever import Passage, Retriever
from sbert_retriever.errors import InputError, InputTypeError, ModelError, StoreError
from sbert_retriever.index.connection import connect
from sbert_retriever.testing import HashEncoder


@pytest.fixture
def retriever():
    with Retriever.open(":memory:", model=HashEncoder(dim=8)) as opened:
        opened.index([Passage("a", "one"), Passage("b", "two")])
        yield opened


@pytest.mark.parametrize("value", [2**63, 10**30])
def test_counts_beyond_64_bits_are_refused(retriever, value):
    for options in ({"k": value}, {"ef": value}, {"expand": "neighbours", "window": value}):
        with pytest.raises(InputError, match="more than any collection holds"):
            retriever.search("one", **options)
    with pytest.raises(InputError, match="limit is more than any collection holds"):
        retriever.scroll(limit=value)
    assert len(retriever.search("one", k=2**63 - 1)) == 2


def test_a_threshold_beyond_float_is_refused(retriever):
    with pytest.raises(InputError, match="score_threshold is too large"):
        retriever.search("one", score_threshold=10**400)


@pytest.mark.parametrize("number", [3e38, 1e300, 10**400])
def test_a_vector_too_long_for_float32_is_refused(retriever, number):
    """The engine would make a zero of it, and score every passage 0."""
    with pytest.raises((InputError, InputTypeError), match="the query vector is"):
        retriever.search_by_vector([number] * 8)


def test_a_passage_whose_vector_is_too_long_is_reported():
    class Long(HashEncoder):
        def encode_passages(self, texts):
            return super().encode_passages(texts) * np.float32(1e30)

    with Retriever.open(":memory:", model=Long(dim=8)) as opened:
        report = opened.index([Passage("a", "one")])
        assert report.added == 0
        assert report.failures[0].reason == "its vector is too long for float32"


@pytest.mark.parametrize("location", ["a\0b", "x" * 5000, "~no-such-user-here/x"])
def test_a_location_that_can_be_no_folder_is_refused(location):
    with pytest.raises(StoreError, match="cannot be a folder here"):
        Retriever.open(location, model=HashEncoder(dim=8))


@pytest.mark.parametrize("location", ["http://", "https:///x", "http://[::1"])
def test_a_url_without_a_server_is_refused_at_once(location):
    """It cannot begin to answer, so nothing is waited for."""
    with pytest.raises(InputError, match=r"names no server|is no URL"):
        Retriever.open(location, model=HashEncoder(dim=8))


@pytest.mark.parametrize("location", ["localhost:6333", "10.0.0.7:443", Path("http://one:6333")])
def test_a_server_without_its_scheme_is_no_new_folder(location, tmp_path, monkeypatch):
    """A collection in a folder of that name would be found by nobody else."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="reads like a server's and not like a folder's"):
        Retriever.open(location, model=HashEncoder(dim=8))
    assert list(tmp_path.iterdir()) == []
    with Retriever.open("./localhost:6333", model=HashEncoder(dim=8)) as opened:
        opened.index([Passage("a", "one")])
    with Retriever.open("localhost:6333") as again:
        assert again.count() == 1


@pytest.mark.parametrize("name", ["", "..", "\ud800", None, 3])
def test_a_collection_name_is_text(name):
    with pytest.raises((InputError, InputTypeError), match="collection name"):
        Retriever.open(":memory:", model=HashEncoder(dim=8), collection_name=name)


def test_an_encoder_is_given_and_not_its_class():
    with pytest.raises(InputTypeError, match="model is the class HashEncoder"):
        Retriever.open(":memory:", model=HashEncoder)


@pytest.mark.parametrize("options", [{"group_by": "lang", "group_size": 2}, {"diversity": 0.5}])
@pytest.mark.parametrize("mode", ["dense", "hybrid"])
@pytest.mark.parametrize("k", [2**61, 2**63 - 1])
def test_more_hits_than_an_engine_counts_to_are_not_looked_for(engine, options, mode, k):
    """Several times k are looked at where hits are chosen; k itself may be as large as it is."""
    retriever = engine.open(sparse="bm25")
    retriever.index(Passage(str(n), f"one {n}", {"lang": "en"}) for n in range(3))
    found = retriever.search("one", k=k, mode=mode, **options)
    assert len(found) == (2 if "group_by" in options else 3)


@pytest.mark.parametrize("filterable", [{1: "keyword"}, [1], "lang"])
def test_filterable_is_fields_and_kinds(filterable):
    with pytest.raises(InputTypeError, match="expected fields and their kinds"):
        Retriever.open(":memory:", model=HashEncoder(dim=8), filterable=filterable)


@pytest.mark.parametrize("asked", ["search", "index"])
async def test_an_encoder_that_raises_stop_iteration_is_no_well_ended_operation(asked):
    """It ends generators: the search had answered None, and that of an event loop never."""

    class Ending(HashEncoder):
        ends = False

        def encode_passages(self, texts):  # queries too
            return next(iter([])) if self.ends else super().encode_passages(texts)

    encoder = Ending(dim=8)
    with Retriever.open(":memory:", model=encoder) as opened:
        opened.index([Passage("a", "one")])
        encoder.ends = True
        given = "one" if asked == "search" else [Passage("b", "two")]
        with pytest.raises(ModelError, match="raised StopIteration"):
            getattr(opened, asked)(given)
        with pytest.raises(ModelError, match="raised StopIteration"):
            await getattr(opened, f"a{asked}")(given)
        assert opened.count() == 1


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"exact": "no"}, "exact is 'no', expected True, False or None"),
        ({"rescore": "maybe"}, "rescore is 'maybe', expected True, False or None"),
        ({"rescore": 1}, "rescore is 1, expected True, False or None"),
        ({"oversampling": float("inf")}, "oversampling is inf, expected a finite number"),
    ],
)
def test_search_parameters_are_checked_for_vectors_too(retriever, options, said):
    vector = HashEncoder(dim=8).encode_queries(["one"])[0]
    with pytest.raises((InputError, InputTypeError), match=said):
        retriever.search_by_vector(vector, **options)
    with pytest.raises((InputError, InputTypeError), match=said):
        retriever.search("one", **options)
    assert retriever.search_by_vector(vector, exact=np.True_, rescore=np.False_)[0].id == "a"


@pytest.mark.parametrize("seconds", ["10", True, 0, -1, float("inf"), float("nan")])
def test_a_timeout_is_seconds(seconds):
    """Where nothing listens: the value is looked at before anything is sent."""
    with pytest.raises((InputError, InputTypeError), match=r"timeout_s is .*seconds"):
        Retriever.open("http://127.0.0.1:9", model=HashEncoder(dim=8), timeout_s=seconds)


@pytest.mark.parametrize("seconds", [5, 0.5, np.int64(5), np.float32(0.5)])
def test_a_timeout_may_be_a_number_of_numpy(seconds):
    """As that of a search may. Nothing is sent yet."""
    connect("http://127.0.0.1:9", timeout_s=seconds).close()
