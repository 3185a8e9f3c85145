"""What a server is told of shards, copies, tenants' own parts and time limits, in what portions.

A listener plays the server's part and keeps what it was asked; the same calls go to a real server
where there is one.
"""

from __future__ import annotations

from asyncio import to_thread
from contextlib import closing
from functools import partial
from urllib.parse import parse_qs

import pytest
from qdrant_client import models

from sbert_retriever import Passage, Retriever
from sbert_retriever.cli import main
from sbert_retriever.errors import (
    InputError,
    InputTypeError,
    StoreRequestError,
    StoreUnavailableError,
)
from sbert_retriever.index.points import draft
from sbert_retriever.index.steps import RetryPolicy
from sbert_retriever.index.storage import Storage
from sbert_retriever.testing import HashEncoder, tiny_bert
from sbert_retriever.transfer import copy_collection, rebuild
from sbert_retriever.types import SparseIdentity, SparseVector

BASE = "/collections/docs"
PASSAGES = [Passage("a", "green tea"), Passage("b", "black tea")]


def opened(listener, **options):
    return Retriever.open(
        listener.url, model=HashEncoder(dim=16), collection_name="docs", **options
    )


def test_a_new_collection_is_spread_as_asked(listener):
    storage = Storage(shards=3, replicas=2, write_consistency=2)
    opened(listener, storage=storage).close()
    [(_, made)] = listener.bodies("PUT", BASE)
    assert (made["shard_number"], made["replication_factor"]) == (3, 2)
    assert made["write_consistency_factor"] == 2
    assert "sharding_method" not in made


@pytest.mark.parametrize("sparse", [None, "bm25"])
@pytest.mark.filterwarnings("ignore::sbert_retriever.errors.UnknownFieldWarning")
def test_each_tenant_has_its_own_shards_and_its_calls_go_there_alone(listener, sparse):
    storage = Storage(shard_by_tenant=True)
    with opened(listener, storage=storage, sparse=sparse, tenant="acme") as acme:
        assert listener.made["sharding_method"] == "custom"
        acme.index(PASSAGES)
        assert listener.keys == ["acme"]
        began = len(listener.asked)
        acme.index(PASSAGES)
        acme.search("tea", 2)
        acme.search_batch(["tea", "green"], 2)
        acme.count()
        acme.scroll()
        acme.get(["a"])
        acme.delete(filter={"n": 1})
        rewritten = [draft(Passage("a", "green tea", {"n": 2}), acme.store.layout)]
        acme.store.connection.run(acme.store.rewrite(rewritten))
    sent = listener.parts_from(began)
    assert {path.removeprefix(BASE) for path, _ in sent} == {
        *("/points", "/points/query", "/points/query/batch", "/points/count"),
        *("/points/scroll", "/points/delete", "/points/batch"),
    } - ({"/points/query"} if sparse else set())
    assert {part["shard_key"] for _, part in sent} == {"acme"}


def test_a_tenant_gets_shards_at_its_first_write_once_and_nobody_writes_past_them(listener):
    with opened(listener, storage=Storage(shard_by_tenant=True)) as whole:
        zenith = whole.with_tenant("zenith")
        assert zenith.search("tea") == []
        assert listener.keys == []
        zenith.index(PASSAGES)
        whole.with_tenant("zenith").index(PASSAGES)
        whole.search("tea")
    with opened(listener, tenant="zenith") as again:
        again.index(PASSAGES)
        again.search("tea")
    assert listener.keys == ["zenith"]
    sent = [body["shard_key"] for _, body in listener.bodies("PUT", f"{BASE}/points")]
    assert sent == ["zenith"] * 3
    asked = [b.get("shard_key") for _, b in listener.bodies("POST", f"{BASE}/points/query")]
    assert asked == [None, "zenith"]


@pytest.mark.filterwarnings("ignore::sbert_retriever.errors.UnknownFieldWarning")
def test_a_tenant_without_shards_reads_nothing_deletes_nothing_and_leaves_nothing(listener):
    """A misspelt tenant in a search makes no part of a cluster, and is no error."""
    with opened(listener, storage=Storage(shard_by_tenant=True), sparse="bm25") as whole:
        assert whole.search("tea") == []
    with opened(listener, tenant="zenit") as misspelt:
        for mode in ("dense", "sparse", "hybrid"):
            assert misspelt.search_batch(["tea", "green"], mode=mode) == [[], []]
        assert misspelt.search("tea", mode="dense") == []
        assert misspelt.count() == 0
        assert misspelt.delete(["a"]) == 0
        assert misspelt.delete(filter={"n": 1}) == 0
        assert misspelt.delete_all() == 0
    assert listener.keys == []


@pytest.mark.parametrize(
    "change",
    [
        lambda whole: whole.index(PASSAGES),
        lambda whole: whole.delete(["a"]),
        lambda whole: whole.delete(filter={"n": 1}),
        lambda whole: whole.delete_all(),
    ],
)
def test_where_each_tenant_has_shards_a_change_names_one(listener, change):
    with (
        opened(listener, storage=Storage(shard_by_tenant=True)) as whole,
        pytest.raises(InputError, match="has a part for each tenant, and this is bound to none"),
    ):
        change(whole)


def test_a_server_that_is_no_cluster_says_what_is_missing(listener):
    listener.clustered = False
    with (
        opened(listener, storage=Storage(shard_by_tenant=True), tenant="acme") as acme,
        pytest.raises(StoreRequestError, match=r"Distributed mode disabled.*runs as a cluster"),
    ):
        acme.index(PASSAGES)


def test_another_process_may_make_the_shards_first(listener):
    with opened(listener, storage=Storage(shard_by_tenant=True), tenant="acme") as acme:
        known = listener.result
        late = []

        def result(method, path, body):
            answer = known(method, path, body)
            if (method, path) == ("GET", f"{BASE}/shards") and not late:
                late.append(listener.make_key("docs", "acme"))
            return answer

        listener.result = result
        acme.index(PASSAGES)
    assert late
    assert [body["shard_key"] for _, body in listener.bodies("PUT", f"{BASE}/points")] == ["acme"]


def test_a_rebuilt_collection_is_spread_as_the_old_one(listener):
    storage = Storage(shards=3, replicas=2, write_consistency=2)
    opened(listener, storage=storage).close()
    rebuild(listener.url, collection_name="docs", alias="live", model=HashEncoder(dim=32))
    made = listener.collections["live.rebuild"]
    assert (made["shard_number"], made["replication_factor"]) == (3, 2)
    assert made["write_consistency_factor"] == 2


def test_a_copy_elsewhere_is_spread_as_that_place_does(listener, tmp_path):
    opened(listener, storage=Storage(shards=3, replicas=2)).close()
    copy_collection(listener.url, tmp_path, collection_name="docs")
    with Retriever.open(tmp_path, collection_name="docs", model=HashEncoder(dim=16)) as copy:
        assert copy.count() == 0


def test_a_tenant_that_is_bound_later_has_its_index_too(listener):
    """A server in strict mode refuses to filter by a tenant whose name is not indexed."""
    with opened(listener) as whole:
        for name in ("acme", "zenith"):
            whole.with_tenant(name)
    fields = [body["field_name"] for _, body in listener.bodies("PUT", f"{BASE}/index")]
    assert fields.count("_sbert.tenant") == 1


async def test_a_tenant_is_bound_in_an_event_loop(listener):
    """Nothing is asked through the synchronous client, which would block the loop."""
    whole = opened(listener, storage=Storage(shard_by_tenant=True))
    connection = whole.store.connection
    client, connection.client = connection.client, None
    acme = await whole.awith_tenant("acme")
    assert await acme.asearch("tea") == []
    await acme.aindex(PASSAGES)
    assert listener.keys == ["acme"]
    with pytest.raises(InputError, match="bound to tenant 'acme'"):
        await acme.awith_tenant("zenith")
    connection.client = client
    await whole.aclose()


class Wordy:
    """As many terms as a text says, each written as long as a term can be."""

    identity = SparseIdentity(name="wordy", score_kind="dot")

    def encode_queries(self, texts):
        return self.encode_passages(texts)

    def encode_passages(self, texts):
        return [
            SparseVector([*range(2**32 - int(text), 2**32)], [0.12345679104328156] * int(text))
            for text in texts
        ]


def test_words_count_in_the_size_of_a_request(listener):
    """Forty megabytes of sparse vectors go in requests below 32 MiB, one of them sent twice."""
    listener.failing = [503]
    passages = [Passage(f"p{n}", "20000") for n in range(64)]
    passages.insert(3, Passage("huge", "1000000"))
    policy = RetryPolicy(deadline_s=300.0, initial_s=0.05, longest_s=0.1)
    with opened(listener, sparse=Wordy(), retry=policy) as retriever:
        report = retriever.index(passages)
    assert (report.added, [failure.id for failure in report.failures]) == (64, ["huge"])
    assert max(listener.sizes) < 32 * 2**20 < sum(listener.sizes[1:])
    sent = [body["points"] for _, body in listener.bodies("PUT", f"{BASE}/points")]
    assert sent[0] == sent[1]
    named = [point["payload"]["_sbert"]["id"] for points in sent[1:] for point in points]
    assert named == [passage.id for passage in passages if passage.id != "huge"]
    assert len(sent[0][0]["vector"]["sparse"]["indices"]) == 20_000


def test_a_search_may_have_a_time_limit_of_its_own(listener):
    with opened(listener, sparse="bm25") as retriever:
        retriever.search("tea", 2, mode="dense", timeout_s=2.5)
        retriever.search("tea", 2, timeout_s=1)
        retriever.search("tea", 2, mode="dense")
    queries = [query for query, _ in listener.bodies("POST", f"{BASE}/points/query")]
    assert queries == ["timeout=3", ""]
    batches = [query for query, _ in listener.bodies("POST", f"{BASE}/points/query/batch")]
    assert batches == ["timeout=1"]


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_a_search_that_took_its_time_is_not_begun_again(listener, asynchronous):
    """A limit of a second that is tried again for a minute is no limit."""
    with opened(listener) as retriever:
        listener.pause_s = 1.5
        search = retriever.asearch if asynchronous else partial(to_thread, retriever.search)
        with pytest.raises(StoreUnavailableError, match="did not answer in time"):
            await search("tea", timeout_s=1)
        await retriever.aclose()
    assert len(listener.bodies("POST", f"{BASE}/points/query")) == 1


@pytest.mark.parametrize("limit", [0, -1, float("nan"), float("inf"), "2"])
def test_a_time_limit_that_is_none_is_refused(listener, limit):
    with (
        opened(listener) as retriever,
        pytest.raises((InputError, InputTypeError), match="timeout"),
    ):
        retriever.search("tea", timeout_s=limit)


def test_a_time_limit_changes_nothing_where_no_server_is_asked(tmp_path):
    with Retriever.open(tmp_path, model=HashEncoder(dim=16), sparse="bm25") as retriever:
        retriever.index(PASSAGES)
        assert retriever.search("green tea", 1, timeout_s=5)[0].id == "a"


def test_parts_of_tenants_are_for_a_server(tmp_path):
    with pytest.raises(InputError, match=r"Storage\.shard_by_tenant is for a Qdrant server"):
        Retriever.open(tmp_path, model=HashEncoder(), storage=Storage(shard_by_tenant=True))


def test_the_command_spreads_a_new_collection_and_leaves_one_that_is_there(
    listener, tmp_path, capsys
):
    model = tiny_bert(tmp_path / "model")
    (tmp_path / "tea.txt").write_text("Green tea is steeped for three minutes.")
    spread = ["--collection", "docs", "--model", str(model), "--shards", "3", "--replicas", "2"]
    command = ["index", str(tmp_path / "tea.txt"), "--to", listener.url, *spread]
    assert main(command) == 0
    assert (listener.made["shard_number"], listener.made["replication_factor"]) == (3, 2)
    assert "is there" not in capsys.readouterr().err
    assert main(command) == 0
    assert "'docs' is there and stays as it is: --shards, --replicas" in capsys.readouterr().err
    assert len(listener.bodies("PUT", BASE)) == 1


@pytest.mark.filterwarnings("ignore::sbert_retriever.errors.UnknownFieldWarning")
async def test_writes_are_put_in_order_as_asked(listener):
    """Each call says it of its own writes alone; reads have no order."""
    with opened(listener, sparse="bm25") as retriever:
        retriever.index(PASSAGES, ordering="strong")
        retriever.delete(filter={"n": 1}, ordering="medium")
        await retriever.adelete(filter={"n": 1}, ordering="weak")
        await retriever.aindex(PASSAGES)
        retriever.search("tea")
        await retriever.aclose()
    written = listener.bodies("PUT", f"{BASE}/points")
    assert [parse_qs(query).get("ordering") for query, _ in written] == [["strong"], None]
    deleted = listener.bodies("POST", f"{BASE}/points/delete")
    assert [parse_qs(query)["ordering"] for query, _ in deleted] == [["medium"], ["weak"]]
    reads = [query for _, path, query, _ in listener.asked if "query" in path or "count" in path]
    assert reads
    assert not any("ordering" in query for query in reads)


def test_an_order_that_is_none_is_refused(listener, tmp_path):
    for location in (listener.url, tmp_path):
        with Retriever.open(location, model=HashEncoder(dim=16)) as retriever:
            for change in (retriever.index, retriever.delete):
                with pytest.raises(InputError, match="ordering is 'fast', expected 'weak'"):
                    change([], ordering="fast")
            assert retriever.index(PASSAGES, ordering="strong").added == len(PASSAGES)


@pytest.mark.server
def test_a_real_server_spreads_a_collection(engine):
    if not engine.name.startswith("server"):
        pytest.skip("is for a server")
    retriever = engine.open(storage=Storage(shards=2, replicas=1, write_consistency=1))
    retriever.index(PASSAGES)
    client = retriever.store.connection.client
    params = client.get_collection(retriever.store.collection_name).config.params
    assert (params.shard_number, params.replication_factor) == (2, 1)
    assert params.sharding_method in (None, models.ShardingMethod.AUTO)
    assert retriever.search("green tea", 1, timeout_s=10)[0].id == "a"


@pytest.mark.server
def test_a_real_cluster_keeps_tenants_apart(engine):
    if not engine.name.startswith("server"):
        pytest.skip("is for a server")
    with closing(engine.server.client()) as one:
        if one.cluster_status().status != "enabled":
            pytest.skip("this server is no cluster")
    engine.needs(1, 17)
    acme = engine.open(storage=Storage(shard_by_tenant=True), tenant="acme")
    zenith = engine.open(tenant="zenith")
    assert zenith.search("tea") == []
    acme.index(PASSAGES)
    zenith.index([Passage("a", "white tea")])
    assert acme.search("green tea", 1, timeout_s=10)[0].text == "green tea"
    assert [hit.text for hit in zenith.search("tea", 5)] == ["white tea"]
    assert (acme.delete(["a"]), acme.count(), zenith.count()) == (1, 1, 1)
