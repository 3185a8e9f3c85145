"""The asynchronous twins: same answers, and an event loop that goes on."""

import asyncio
import gc
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from qdrant_client import AsyncQdrantClient, QdrantClient

from sbert_retriever import Passage, Retriever
from sbert_retriever.errors import InputError, InputTypeError
from sbert_retriever.index.connection import Connection, connect
from sbert_retriever.index.contract import Contract
from sbert_retriever.index.points import draft
from sbert_retriever.index.steps import RetryPolicy
from sbert_retriever.index.store import PassageStore
from sbert_retriever.testing import HashEncoder

ANIMALS = [
    Passage("cat", "a cat purrs softly", {"legs": 4}, "animals"),
    Passage("bird", "a bird sings songs", {"legs": 2}, "animals"),
    Passage("car", "the engine of a car roars", {"wheels": 4}, "machines"),
]


async def test_every_twin_answers_as_its_own(retriever):
    report = await retriever.aindex(ANIMALS)
    assert report.added == 3
    hits = retriever.search("a cat sings", 2)
    assert await retriever.asearch("a cat sings", 2) == hits
    assert (await retriever.asearch_detailed("a cat sings", 2)).hits == hits
    assert await retriever.asearch_batch(["a cat sings"], 2) == [hits]
    assert await retriever.asearch("cat", filter={"legs": 2}) == retriever.search(
        "cat", filter={"legs": 2}
    )
    assert await retriever.asimilar("cat", 1) == retriever.similar("cat", 1)
    vector = HashEncoder(dim=64).encode_queries(["car"])[0]
    assert await retriever.asearch_by_vector(vector, 1) == retriever.search_by_vector(vector, 1)
    assert await retriever.aget(["car", "nope"]) == [ANIMALS[2]]
    assert await retriever.acount({"legs": {"gte": 3}}) == 1
    assert await retriever.ascroll(limit=2) == retriever.scroll(limit=2)
    assert await retriever.ainfo() == retriever.info()
    assert await retriever.adelete(source="machines") == 1
    assert await retriever.adelete_all() == 2
    assert retriever.count() == 0


async def test_errors_come_through(retriever):
    with pytest.raises(InputError, match="delete_all"):
        await retriever.adelete()
    with pytest.raises(InputError, match="no passage has the id"):
        await retriever.asimilar("cow")


async def test_many_at_once(retriever):
    await retriever.aindex(ANIMALS)
    texts = [p.text for p in ANIMALS] * 10
    answers = await asyncio.gather(*(retriever.asearch(text, 1) for text in texts))
    assert [hits[0].text for hits in answers] == texts


class SlowEncoder(HashEncoder):
    """Takes its time, as a large model does."""

    def encode_passages(self, texts):
        time.sleep(0.4)
        return super().encode_passages(texts)


async def test_the_event_loop_goes_on_while_the_model_works(engine):
    retriever = engine.open(model=SlowEncoder(dim=64))
    beats = 0

    async def beat():
        nonlocal beats
        while True:
            await asyncio.sleep(0.01)
            beats += 1

    heart = asyncio.create_task(beat())
    await retriever.aindex(ANIMALS)
    heart.cancel()
    # Had the model run in the loop, there would be next to none.
    assert beats > 5


async def test_with_async(tmp_path):
    async with Retriever.open(tmp_path, model=HashEncoder(dim=64)) as retriever:
        await retriever.aindex(ANIMALS)
    async with Retriever.open(tmp_path, model=HashEncoder(dim=64)) as retriever:
        assert await retriever.acount() == 3


async def test_an_asynchronous_client_is_awaited_natively():
    """The same operations run on an AsyncQdrantClient, without a synchronous one."""
    client = AsyncQdrantClient(":memory:")
    connection = Connection(None, "local", "client", owned=False, async_client=client)
    store = PassageStore(connection, "c")
    encoder = HashEncoder(dim=64)
    await connection.arun(store.create(Contract(model=encoder.identity)))
    drafts = [draft(p, store.layout) for p in ANIMALS]
    vectors = encoder.encode_passages([p.text for p in ANIMALS])
    assert await connection.arun(store.write(drafts, vectors)) == []
    hits = await connection.arun(store.search(encoder.encode_queries(["a cat purrs"]), k=1))
    assert hits[0][0].passage == ANIMALS[0]
    assert await connection.arun(store.delete_ids(["cat"])) == 1
    facts = await connection.arun(store.facts())
    assert (facts.count, facts.contract) == (2, Contract(model=encoder.identity))
    await client.close()


async def test_a_client_and_its_twin():
    """Sync calls go to the one client, async calls to the other."""
    sync, twin = QdrantClient(":memory:"), AsyncQdrantClient(":memory:")
    retriever = Retriever.open(client=sync, async_client=twin, model=HashEncoder(dim=64))
    retriever.index(ANIMALS)
    await twin.create_collection("default", vectors_config=_dense(sync))
    assert retriever.count() == 3
    assert await retriever.acount() == 0
    await twin.close()


def _dense(client):
    return client.get_collection("default").config.params.vectors


class KeepingServer:
    """Says that every collection exists, and keeps its connections open as Qdrant does."""

    def __init__(self):
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                text = b'{"result": {"exists": true}, "status": "ok", "time": 0.0}'
                self.send_response(200)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *args):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.05,))
        self.thread.start()
        # The client keeps no connection open to localhost or 127.0.0.1.
        self.url = f"http://0.0.0.0:{self.server.server_port}"

    def close(self):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


def test_one_retriever_serves_one_event_loop_after_another():
    """Two calls of asyncio.run over one open connection to a server both get their answer."""
    server = KeepingServer()
    connection = connect(server.url, retry=RetryPolicy(deadline_s=1.0))
    store = PassageStore(connection, "c")
    try:
        assert asyncio.run(connection.arun(store.exists()))
        assert asyncio.run(connection.arun(store.exists()))
    finally:
        server.close()
        del connection, store
        with warnings.catch_warnings():
            # Both loops have ended, so nobody can close what was open in them.
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()


def test_event_loops_of_two_threads_have_a_client_each():
    """A loop that asks for the first time must not lose the client of another, made meanwhile."""
    made, other = [], asyncio.new_event_loop()

    def ask_elsewhere():
        return other.run_until_complete(connection.arun(store.exists()))

    def make():
        made.append(AsyncQdrantClient(":memory:"))
        own = made[-1]
        if len(made) == 1:
            with ThreadPoolExecutor(1) as pool:
                assert pool.submit(ask_elsewhere).result() is False
        return own

    client = QdrantClient(":memory:")
    connection = Connection(client, "local", "client", owned=True, make_async=make)
    store = PassageStore(connection, "c")
    assert asyncio.run(connection.arun(store.exists())) is False
    assert ask_elsewhere() is False
    assert len(made) == 2
    other.run_until_complete(connection.aclose())
    other.close()


def test_an_asynchronous_client_must_be_one_and_have_a_server(tmp_path):
    with pytest.raises(InputTypeError, match="expected an AsyncQdrantClient"):
        connect(None, client=QdrantClient(":memory:"), async_client=object())
    with pytest.raises(InputError, match="leave it out"):
        connect(tmp_path, async_client=AsyncQdrantClient(":memory:"))
