"""What a server is told of shards, copies, tenants' own parts and time limits, over gRPC."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import grpc as transport
import pytest
from qdrant_client import QdrantClient, grpc
from qdrant_client.grpc.collections_service_pb2_grpc import add_CollectionsServicer_to_server
from qdrant_client.grpc.points_service_pb2_grpc import add_PointsServicer_to_server

from sbert_retriever import Passage, Retriever
from sbert_retriever.errors import InputError, InputTypeError, StoreUnavailableError
from sbert_retriever.index.points import draft
from sbert_retriever.index.storage import Storage
from sbert_retriever.testing import HashEncoder

DONE = grpc.UpdateResult(operation_id=1, status=grpc.UpdateStatus.Completed)
PASSAGES = [Passage("a", "green tea"), Passage("b", "black tea")]


class Collections(grpc.CollectionsServicer):
    """One collection that remembers its settings and its shard keys."""

    def __init__(self):
        self.made, self.keys = None, []

    def CollectionExists(self, request, context):  # noqa: N802  # the service's names
        found = grpc.CollectionExists(exists=self.made is not None)
        return grpc.CollectionExistsResponse(result=found)

    def ListAliases(self, request, context):  # noqa: N802
        return grpc.ListAliasesResponse()

    def Create(self, request, context):  # noqa: N802
        self.made = request
        return grpc.CollectionOperationResponse(result=True)

    def Get(self, request, context):  # noqa: N802
        made = self.made
        params = grpc.CollectionParams(
            vectors_config=made.vectors_config,
            shard_number=made.shard_number or 1,
            replication_factor=made.replication_factor or 1,
            write_consistency_factor=made.write_consistency_factor or 1,
            sharding_method=made.sharding_method,
        )
        config = grpc.CollectionConfig(
            params=params,
            hnsw_config=grpc.HnswConfigDiff(m=16, ef_construct=100, full_scan_threshold=10000),
            optimizer_config=grpc.OptimizersConfigDiff(
                deleted_threshold=0.2,
                vacuum_min_vector_number=1000,
                default_segment_number=0,
                flush_interval_sec=5,
            ),
            wal_config=grpc.WalConfigDiff(wal_capacity_mb=32, wal_segments_ahead=0),
            metadata=made.metadata,
        )
        info = grpc.CollectionInfo(
            status=grpc.CollectionStatus.Green,
            optimizer_status=grpc.OptimizerStatus(ok=True),
            segments_count=1,
            config=config,
        )
        return grpc.GetCollectionInfoResponse(result=info)

    def ListShardKeys(self, request, context):  # noqa: N802
        keys = [grpc.ShardKeyDescription(key=grpc.ShardKey(keyword=key)) for key in self.keys]
        return grpc.ListShardKeysResponse(shard_keys=keys)

    def CreateShardKey(self, request, context):  # noqa: N802
        self.keys.append(request.request.shard_key.keyword)
        return grpc.CreateShardKeyResponse(result=True)


class Points(grpc.PointsServicer):
    """Keeps what it is asked, and has no points."""

    def __init__(self):
        self.asked, self.pause_s = [], 0.0

    def keep(self, request, answer):
        self.asked.append(request)
        return answer

    def CreateFieldIndex(self, request, context):  # noqa: N802
        return grpc.PointsOperationResponse(result=DONE)

    def Count(self, request, context):  # noqa: N802
        return self.keep(request, grpc.CountResponse(result=grpc.CountResult(count=0)))

    def Get(self, request, context):  # noqa: N802
        return self.keep(request, grpc.GetResponse())

    def Scroll(self, request, context):  # noqa: N802
        return self.keep(request, grpc.ScrollResponse())

    def Upsert(self, request, context):  # noqa: N802
        return self.keep(request, grpc.PointsOperationResponse(result=DONE))

    def Delete(self, request, context):  # noqa: N802
        return self.keep(request, grpc.PointsOperationResponse(result=DONE))

    def Query(self, request, context):  # noqa: N802
        time.sleep(self.pause_s)
        return self.keep(request, grpc.QueryResponse())

    def QueryBatch(self, request, context):  # noqa: N802
        found = [grpc.BatchResult() for _ in request.query_points]
        return self.keep(request, grpc.QueryBatchResponse(result=found))

    def UpdateBatch(self, request, context):  # noqa: N802
        return self.keep(request, grpc.UpdateBatchResponse(result=[DONE]))


@pytest.fixture
def server():
    with ThreadPoolExecutor(4) as pool:
        serving = transport.server(pool)
        serving.collections, serving.points = Collections(), Points()
        add_CollectionsServicer_to_server(serving.collections, serving)
        add_PointsServicer_to_server(serving.points, serving)
        port = serving.add_insecure_port("127.0.0.1:0")
        serving.start()
        serving.port = port
        serving.client = QdrantClient(
            "http://127.0.0.1", prefer_grpc=True, grpc_port=port, check_compatibility=False
        )
        yield serving
        serving.client.close()
        serving.stop(None).wait()


def opened(server, **options):
    return Retriever.open(client=server.client, model=HashEncoder(dim=16), **options)


def keys(request):
    """The shard keys that a request names, its searches and its operations included."""
    inner = [
        *getattr(request, "query_points", ()),
        *(o.overwrite_payload for o in getattr(request, "operations", ())),
    ]
    return {
        key.keyword for part in inner or [request] for key in part.shard_key_selector.shard_keys
    }


def test_a_new_collection_is_spread_as_asked(server):
    opened(server, storage=Storage(shards=3, replicas=2, write_consistency=2))
    made = server.collections.made
    assert (made.shard_number, made.replication_factor) == (3, 2)
    assert made.write_consistency_factor == 2
    assert not made.HasField("sharding_method")


def test_the_port_is_the_one_that_is_given(server):
    """Nothing listens at the URL's own port, nor at 6334."""
    with Retriever.open(
        "http://127.0.0.1:1",
        model=HashEncoder(dim=16),
        prefer_grpc=True,
        grpc_port=server.port,
        timeout_s=5,
    ) as retriever:
        assert retriever.index(PASSAGES, ordering="strong").added == 2
    [write] = [asked for asked in server.points.asked if isinstance(asked, grpc.UpsertPoints)]
    assert write.ordering.type == grpc.WriteOrderingType.Strong


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"grpc_port": 0, "prefer_grpc": True}, "grpc_port is 0, expected 1 or more"),
        ({"grpc_port": 70_000, "prefer_grpc": True}, "grpc_port is 70000, expected 1 to 65535"),
        ({"grpc_port": "6334", "prefer_grpc": True}, "grpc_port is '6334'"),
        ({"grpc_port": 6335}, "nothing is sent there without prefer_grpc=True"),
    ],
)
def test_a_port_that_cannot_be_used_is_refused(options, message):
    with pytest.raises((InputError, InputTypeError), match=message):
        Retriever.open("http://127.0.0.1:1", model=HashEncoder(), **options)


@pytest.mark.filterwarnings("ignore::sbert_retriever.errors.UnknownFieldWarning")
def test_a_tenants_calls_go_to_its_own_shards(server):
    acme = opened(server, storage=Storage(shard_by_tenant=True), tenant="acme")
    assert server.collections.made.sharding_method == grpc.ShardingMethod.Custom
    assert server.collections.keys == []
    acme.index(PASSAGES)
    assert server.collections.keys == ["acme"]
    server.points.asked.clear()
    acme.index(PASSAGES)
    acme.search("tea", 2)
    acme.search_batch(["tea", "green"], 2)
    acme.count()
    acme.scroll()
    acme.get(["a"])
    acme.delete(filter={"n": 1})
    rewritten = [draft(Passage("a", "green tea", {"n": 2}), acme.store.layout)]
    acme.store.connection.run(acme.store.rewrite(rewritten))
    asked = server.points.asked
    assert {type(request).__name__ for request in asked} == {
        *("UpsertPoints", "QueryPoints", "QueryBatchPoints", "CountPoints"),
        *("ScrollPoints", "GetPoints", "DeletePoints", "UpdateBatchPoints"),
    }
    assert [keys(request) for request in asked] == [{"acme"}] * len(asked)


def test_a_search_has_a_time_limit_of_its_own(server):
    retriever = opened(server)
    retriever.search("tea", timeout_s=2.5)
    assert server.points.asked[-1].timeout == 3
    server.points.pause_s = 1.5
    with pytest.raises(StoreUnavailableError, match="DEADLINE_EXCEEDED"):
        retriever.search("tea", timeout_s=1)
    assert len(server.points.asked) <= 2  # the one above, and this one if it was ended late
