"""A server that stops answering in the middle of a run."""

import httpx
import pytest
from qdrant_client import QdrantClient
from qdrant_client.http.exceptions import ResponseHandlingException

from sbert_retriever import Passage, Retriever
from sbert_retriever.errors import StoreUnavailableError
from sbert_retriever.index.steps import RetryPolicy
from sbert_retriever.ingest import sync
from sbert_retriever.testing import HashEncoder


class GoneClient(QdrantClient):
    """Answers some calls of one method, then none."""

    def __init__(self, method, calls):
        super().__init__(":memory:")
        inner = getattr(self, method)

        def call(**request):
            nonlocal calls
            calls -= 1
            if calls < 0:
                raise ResponseHandlingException(httpx.ConnectError("gone"))
            return inner(**request)

        setattr(self, method, call)


class ZeroEncoder(HashEncoder):
    """Gives a vector without a direction for one text."""

    def encode_passages(self, texts):
        vectors = super().encode_passages(texts)
        vectors[[text == "zero" for text in texts]] = 0
        return vectors


def index(client, passages, monkeypatch, **options):
    monkeypatch.setattr(sync, "WINDOW_PASSAGES", 2)
    retry = RetryPolicy(deadline_s=0.1, initial_s=0.01)
    with Retriever.open(client=client, model=ZeroEncoder(dim=64), retry=retry) as retriever:
        return retriever.index(passages, **options)


def passages(*texts, **metadata):
    return [Passage(f"p{n}", text, metadata) for n, text in enumerate(texts)]


# A window is compared while the one before it is encoded, which is written afterwards.
@pytest.mark.parametrize(("method", "calls", "seen"), [("retrieve", 2, 5), ("upsert", 1, 5)])
def test_whichever_call_fails_the_error_tells_the_whole_runs_ids(monkeypatch, method, calls, seen):
    client = GoneClient(method, calls)
    with pytest.raises(StoreUnavailableError, match="2 passages of this run are in") as raised:
        index(client, passages("a", "b", "c", "d", "e"), monkeypatch)
    assert raised.value.stored == ("p0", "p1")
    assert raised.value.missing == tuple(f"p{n}" for n in range(2, seen))


def test_a_passage_that_was_refused_is_not_said_to_be_in(monkeypatch):
    """What a run reported as failed is not among the stored ids when the server gives up later."""
    client = GoneClient("upsert", 1)
    with pytest.raises(StoreUnavailableError) as raised:
        index(client, passages("a", "zero", "c", "d"), monkeypatch)
    assert raised.value.stored == ("p0",)
    assert raised.value.missing == ("p2", "p3")


def test_changed_metadata_that_was_not_written_is_missing(monkeypatch):
    client = GoneClient("batch_update_points", 1)
    index(client, passages("a", "b", "c", "d", year=1), monkeypatch)
    with pytest.raises(StoreUnavailableError) as raised:
        index(client, passages("a", "b", "c", "d", year=2), monkeypatch)
    assert raised.value.stored == ("p0", "p1")
    assert raised.value.missing == ("p2", "p3")


def test_pruning_that_fails_tells_what_is_in(monkeypatch):
    client = GoneClient("delete", 0)
    old = [Passage("old", "a", source="s")]
    index(client, old, monkeypatch)
    with pytest.raises(StoreUnavailableError) as raised:
        index(client, [Passage("new", "b", source="s")], monkeypatch, prune=True)
    assert (raised.value.stored, raised.value.missing) == (("new",), ())
