"""What must hold in collections with words, small copies, half precision, tenants, and all at once.

Vectors, metadata, filters and folders; the plain collection is tested at length elsewhere.
"""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import time
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from uuid import UUID

import numpy as np
import pytest

from sbert_retriever import Passage, Retriever
from sbert_retriever.errors import ContractError, InputError, StoreLockedError
from sbert_retriever.testing import HashEncoder

BAD = {"nan": math.nan, "inf": math.inf, "zero": 0.0}
ANIMALS = [
    Passage("cat", "cats purr softly", {"legs": 4, "lang": "en"}, "animals"),
    Passage("bird", "birds sing songs", {"legs": 2, "lang": "de"}, "animals"),
    Passage("car", "engines roar", {"wheels": 4, "lang": "en"}, "machines"),
]


class Broken(HashEncoder):
    """Gives the vector that a text names."""

    def encode_passages(self, texts):
        rows = super().encode_passages(texts)
        for row, text in zip(rows, texts, strict=True):
            row[:] = BAD.get(text, row)
        return rows


@pytest.fixture
def opened(engine, kind):
    """Opens a collection of the kind; a tenant's lies beside another's, which stays as it is."""
    others = []

    def make(**more):
        tenant = kind.pop("tenant", None)
        whole = engine.open(**{"model": HashEncoder(dim=64), **kind, **more})
        if tenant is None:
            return whole
        theirs = whole.with_tenant("them")
        theirs.index(ANIMALS)
        others.append(theirs)
        return whole.with_tenant(tenant)

    yield make
    assert all(theirs.get(["cat", "bird", "car"]) == ANIMALS for theirs in others)


@pytest.fixture(params=["sync", "async"])
def ask(request):
    """Call a method by name, or its asynchronous twin."""

    async def perform(retriever, method, *args, **options):
        if request.param == "sync":
            return getattr(retriever, method)(*args, **options)
        return await getattr(retriever, f"a{method}")(*args, **options)

    return perform


async def test_a_vector_the_engine_would_lose(opened, ask):
    """One of three has NaN, infinity or no direction: it is named, the others keep their own."""
    retriever = opened(model=Broken(dim=64))
    for bad in BAD:
        three = [Passage("a", "cats purr"), Passage("b", bad), Passage("c", "dogs bark")]
        with pytest.raises(InputError, match="'b'"):
            await ask(retriever, "index", three, strict=True)
        assert await ask(retriever, "count") == 0
        report = await ask(retriever, "index", three)
        assert (report.added, [failure.id for failure in report.failures]) == (2, ["b"])
        for name, text in (("a", "cats purr"), ("c", "dogs bark")):
            hit = (await ask(retriever, "search", text, 1, mode="dense"))[0]
            assert (hit.id, hit.score) == (name, pytest.approx(1.0, abs=1e-3))
            # Beside words too: each text is best by both.
            assert (await ask(retriever, "search", text, 1))[0].id == name
        assert await ask(retriever, "delete_all") == 2


class Colour(Enum):
    RED = "red"


GIVEN = {
    "moment": datetime(2024, 5, 1, 12, 30, tzinfo=UTC),
    "day": date(2024, 5, 1),
    "price": Decimal("19.99"),
    "fine": Decimal("0.1000000000000000000001"),
    "key": UUID("ABCDEF00-0000-0000-0000-000000000005"),
    "colour": Colour.RED,
    "half": np.float32(1.5),
    "count": np.int16(-7),
    "yes": np.bool_(True),
    "tags": {"b", 1, "a"},
    "third": 1 / 3,
    "deep": [{"x": (1, None)}],
}
KEPT = {
    "moment": "2024-05-01T12:30:00+00:00",
    "day": "2024-05-01",
    "price": 19.99,
    "fine": "0.1000000000000000000001",
    "key": "abcdef00-0000-0000-0000-000000000005",
    "colour": "red",
    "half": 1.5,
    "count": -7,
    "yes": True,
    "tags": [1, "a", "b"],
    "third": 1 / 3,
    "deep": [{"x": [1, None]}],
}


async def test_metadata(opened, ask):
    """What JSON can carry comes back in one form from each kind; the rest is refused by its key."""
    retriever = opened()
    wrong = {"nan": math.nan, "bytes": b"x", "object": object(), "big": 2**64}
    bad = [Passage(key, "text", {key: value}) for key, value in wrong.items()]
    report = await ask(retriever, "index", [Passage("good", "some text", GIVEN), *bad])
    assert report.added == 1
    assert [failure.id for failure in report.failures] == list(wrong)
    assert all(failure.id in failure.reason for failure in report.failures)
    [passage] = await ask(retriever, "get", ["good"])
    assert passage.metadata == KEPT
    assert [type(value) for value in passage.metadata.values()] == list(map(type, KEPT.values()))
    assert (await ask(retriever, "search", "text", 1))[0].metadata == KEPT
    # The same again is no change, and another value is written without encoding.
    assert (await ask(retriever, "index", [Passage("good", "some text", GIVEN)])).unchanged == 1
    changed = Passage("good", "some text", {**GIVEN, "day": date(2024, 5, 2)})
    report = await ask(retriever, "index", [changed])
    assert (report.updated, report.encoded) == (1, 0)
    assert await ask(retriever, "count", {"day": "2024-05-02"}) == 1


async def test_declared_fields(opened, ask):
    """Fields declared when the collection is made are indexed, and filter the same in each kind."""
    retriever = opened(filterable={"lang": "keyword", "legs": "integer"})
    await ask(retriever, "index", ANIMALS)
    for condition, expected in (
        ({"lang": "en"}, {"cat", "car"}),
        ({"legs": {"gte": 3}}, {"cat"}),
        ({"lang": ["de", "fr"], "legs": 2}, {"bird"}),
        ({"not": {"lang": "en"}}, {"bird"}),
    ):
        assert await ask(retriever, "count", condition) == len(expected)
        hits = await ask(retriever, "search", "purr sing roar", filter=condition)
        assert {hit.id for hit in hits} == expected
    if retriever.store.connection.has_payload_indexes:
        fields = {"_sbert.source", "metadata.lang", "metadata.legs"}
        if retriever.store.connection.engine == "server":
            # In strict mode it refuses filters on what has no index, and `expand` filters by these.
            fields |= {"metadata.chunk", "metadata.parent"}
        tenants = {"_sbert.tenant"} if retriever.store.tenant is not None else set()
        assert set(retriever.info().filterable) == fields | tenants


def test_a_folder_opened_twice_and_again(tmp_path, kind):
    """A second opening shares the first whatever it keeps, and needs not be told what that is."""
    again = {"model": HashEncoder(dim=64), "tenant": kind.pop("tenant", None)}
    first = Retriever.open(tmp_path, **again, **kind)
    second = Retriever.open(tmp_path, **again)
    first.index(ANIMALS[:2])
    assert second.count() == 2
    first.close()
    second.index(ANIMALS[2:])
    facts = second.store.connection.run(second.store.facts())
    second.close()
    with Retriever.open(tmp_path, **again) as third:
        assert third.store.connection.run(third.store.facts()) == facts
        assert third.count() == 3
        assert third.search("engines roar", 1)[0].id == "car"
        assert (third.info().sparse == "bm25") == ("sparse" in kind)
        assert (facts.storage.quantization is not None) == ("quantization" in kind)
        assert (facts.storage.datatype == "float16") == ("storage" in kind)
    with pytest.raises(ContractError):
        Retriever.open(tmp_path, **{**again, "model": HashEncoder(dim=32)})


WRITE = """
import sys
from sbert_retriever import Passage, Retriever
from sbert_retriever.index.storage import Storage
from sbert_retriever.testing import HashEncoder
kept = Storage(datatype="float16", quantization="int8")
opened = Retriever.open(
    sys.argv[1], model=HashEncoder(dim=64), sparse="bm25", storage=kept, tenant="us"
)
for n in range(0, 10**6, 20):
    opened.index(Passage(f"k{n + i}", f"text code-{n + i}") for i in range(20))
    print(n + 20, flush=True)
"""


def test_a_process_that_was_killed_while_it_kept_all_of_it(tmp_path):
    """Who else holds the folder is said; after kill -9 it opens, and what was told is in is in."""
    command = [sys.executable, "-c", WRITE, str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        told = [process.stdout.readline()]
        with pytest.raises(StoreLockedError, match=rf"process {process.pid}.*Qdrant server"):
            Retriever.open(tmp_path, tenant="us")
        time.sleep(0.5)
        process.send_signal(signal.SIGKILL)
        told += process.stdout.readlines()
    acknowledged = max(int(line) for line in told if line.endswith("\n"))
    with Retriever.open(tmp_path, model=HashEncoder(dim=64), tenant="us") as retriever:
        assert len(retriever.get([f"k{n}" for n in range(acknowledged)])) == acknowledged
        last = f"k{acknowledged - 1}"
        assert retriever.search(f"code-{acknowledged - 1}", 1, mode="sparse")[0].id == last
        by_meaning = retriever.search(f"text code-{acknowledged - 1}", 1, mode="dense")
        assert by_meaning[0].score == pytest.approx(1.0, abs=1e-3)
    with Retriever.open(tmp_path, tenant="them") as other:
        assert other.count() == 0
