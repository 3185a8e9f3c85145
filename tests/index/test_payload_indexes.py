"""Fields that are indexed for filtering when a collection is created."""

import math

import pytest
from qdrant_client import QdrantClient, models
from qdrant_client.http.exceptions import UnexpectedResponse

from sbert_retriever import Passage, Retriever
from sbert_retriever.errors import (
    CollectionNotFoundError,
    ContractError,
    InputError,
    InputTypeError,
    StoreRequestError,
)
from sbert_retriever.index.connection import Connection
from sbert_retriever.index.contract import Contract
from sbert_retriever.index.embedded import EmbeddedClient
from sbert_retriever.index.faults import classify
from sbert_retriever.index.points import Layout
from sbert_retriever.index.store import PassageStore
from sbert_retriever.testing import HashEncoder
from sbert_retriever.types import SparseIdentity

FOXES = [
    Passage("fox", "a fox", {"title": "the quick brown fox", "a.b": "x"}),
    Passage("dog", "a dog", {"title": "the brown and quick dog", "a.b": "y"}),
]
CONTRACT = Contract(model=HashEncoder().identity, filterable={"lang": "keyword"})


def test_a_phrase_is_found_in_a_field_indexed_as_text(engine):
    """An index on a text field must not change what its phrases match."""
    retriever = engine.open(filterable={"title": "text"})
    retriever.index(FOXES)
    found = retriever.search("fox", filter={"title": {"phrase": "quick brown"}})
    assert [hit.id for hit in found] == ["fox"]
    assert retriever.count({"title": {"text": "quick brown"}}) == 2


def test_boxes_as_wide_as_the_world_in_a_field_indexed_as_geo(engine):
    """An index on places must not change which of them a wide box holds."""
    places = [(lat, lon) for lat in (-80, -30, 10.5, 70) for lon in range(-175, 180, 10)]
    retriever = engine.open(filterable={"at": "geo"})
    retriever.index(
        Passage(f"{lat} {lon}", "place", {"at": {"lat": lat, "lon": lon}}) for lat, lon in places
    )

    def found(top, left, bottom, right):
        corners = {
            "top_left": {"lat": top, "lon": left},
            "bottom_right": {"lat": bottom, "lon": right},
        }
        return retriever.count({"at": {"geo_box": corners}})

    assert found(90, -180, -90, 180) == 4 * 36
    assert found(90, -180, -90, 0) == 4 * 18
    assert found(75, -178, -85, 178) == 4 * 36
    # Over the date line, all but one longitude, and all but those between -85 and 105.
    assert found(80, 10, -40, 0) == 3 * 35
    assert found(80, 104, -40, -84) == 3 * 18
    # An edge is outside.
    assert found(80, -175, -80, 175) == 3 * 34


def test_an_unknown_kind_is_refused_before_anything_is_created(engine):
    with pytest.raises(InputError, match="'lang' has the kind 'string', expected one of keyword"):
        engine.open(filterable={"lang": "string"})
    with pytest.raises(CollectionNotFoundError):
        engine.open(model=None)


def test_a_field_is_named_as_in_a_filter(engine):
    retriever = engine.open(filterable={'"a.b"': "keyword", "metadata.title": "text"})
    retriever.index(FOXES)
    assert retriever.count({'"a.b"': "x"}) == 1


def test_info_names_the_indexed_fields_of_a_folder(tmp_path):
    with Retriever.open(tmp_path, model=HashEncoder(), filterable={"year": "integer"}) as retriever:
        expected = {"_sbert.source": "keyword", "metadata.year": "integer"}
        assert retriever.info().filterable == expected
    with Retriever.open(tmp_path) as retriever:
        assert retriever.info().filterable == expected


def test_fields_are_indexed_later_and_remembered(lasting_engine):
    with lasting_engine.open(filterable={"title": "text"}) as retriever:
        retriever.index(FOXES)
        retriever.make_filterable({"year": "integer", "metadata.title": "text"})
        retriever.make_filterable({"year": "integer"})
        assert retriever.count({"title": {"phrase": "quick brown"}}) == 1
    with lasting_engine.open(model=None) as again:
        facts = again.store.connection.run(again.store.facts())
        assert facts.contract.filterable == {"title": "text", "year": "integer"}
        if lasting_engine.name != "local":
            assert facts.filterable["metadata.year"] == "integer"
        assert again.count() == 2


async def test_fields_are_indexed_later_in_an_event_loop(listener):
    with Retriever.open(listener.url, model=HashEncoder()) as retriever:
        await retriever.amake_filterable({"year": "integer"})
        assert retriever.info().filterable["metadata.year"] == "integer"
        await retriever.aclose()
    metadata = listener.collections["default"]["metadata"]
    assert Contract.from_metadata(metadata).filterable == {"year": "integer"}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"year": "keyword"}, "field 'year' is to be indexed as 'keyword', and is as 'integer'"),
        ({"metadata.year": "text"}, "'metadata.year' is to be indexed as 'text'"),
        ({"lang": "keyword", "metadata.lang": "text"}, "as 'text', and is as 'keyword'"),
        ({"lang": "string"}, "'lang' has the kind 'string', expected one of keyword"),
        (["lang"], "expected fields and their kinds"),
    ],
)
def test_a_field_that_cannot_be_indexed_changes_nothing(engine, fields, message):
    retriever = engine.open(filterable={"year": "integer"})
    before = retriever.info().filterable
    with pytest.raises((InputError, InputTypeError), match=message):
        retriever.make_filterable(fields)
    assert retriever.info().filterable == before


def test_indexes_are_not_one_tenants(engine):
    with pytest.raises(InputError, match="the whole collection's: make them without tenant="):
        engine.open(tenant="acme").make_filterable({"year": "integer"})


def test_a_collection_of_another_program_is_indexed_without_a_contract():
    client = QdrantClient(":memory:")
    params = models.VectorParams(size=64, distance=models.Distance.COSINE)
    client.create_collection("theirs", vectors_config=params)
    layout = Layout(vector_name="", text_key="page_content", foreign=True)
    retriever = Retriever.open(
        client=client, model=HashEncoder(dim=64), collection_name="theirs", layout=layout
    )
    retriever.make_filterable({"year": "integer"})
    assert not client.get_collection("theirs").config.metadata


class Killed(BaseException):
    """What no handler of errors sees."""


def test_a_folder_whose_creation_was_killed_gets_its_indexes_at_the_next_opening(
    tmp_path, monkeypatch
):
    def kill(*_, **__):
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(EmbeddedClient, "create_payload_index", kill)
        with pytest.raises(Killed):
            Retriever.open(tmp_path, model=HashEncoder(), filterable={"year": "integer"})
    with Retriever.open(tmp_path, create=False) as reader:
        assert reader.info().filterable == {}
    with Retriever.open(tmp_path) as retriever:
        assert retriever.info().filterable == {
            "_sbert.source": "keyword",
            "metadata.year": "integer",
        }


def test_a_server_gets_the_indexes_that_a_killed_creation_left_out_and_no_other(listener):
    filterable = {"year": "integer", "lang": "keyword"}
    Retriever.open(listener.url, model=HashEncoder(), filterable=filterable).close()
    declared = dict(listener.indexed["default"])
    del listener.indexed["default"]["metadata.lang"], listener.indexed["default"]["metadata.chunk"]
    began = len(listener.bodies("PUT", "/collections/default/index"))
    Retriever.open(listener.url, create=False).close()
    assert len(listener.bodies("PUT", "/collections/default/index")) == began
    Retriever.open(listener.url).close()
    assert listener.indexed["default"] == declared
    assert len(listener.bodies("PUT", "/collections/default/index")) == began + 2


def test_a_contract_with_a_kind_of_a_later_version_is_opened(tmp_path):
    with Retriever.open(tmp_path, model=HashEncoder()) as retriever:
        later = Contract(model=HashEncoder().identity, filterable={"shape": "polygon"})
        retriever.store.connection.client.update_collection("default", metadata=later.to_metadata())
    with Retriever.open(tmp_path) as retriever:
        assert retriever.count() == 0


def test_a_key_that_may_only_read_opens_what_lacks_an_index(listener):
    Retriever.open(listener.url, model=HashEncoder(), filterable={"year": "integer"}).close()
    listener.indexed.clear()
    listener.read_only = True
    with Retriever.open(listener.url) as retriever:
        assert retriever.count() == 0
    assert listener.indexed == {}


def test_a_server_that_insists_on_an_index_names_the_field_and_we_the_way_to_it():
    """The refusal of a filter on a field without an index says where fields are declared."""
    said = b'{"status":{"error":"Bad request: Index required but not found for \\"metadata.lang\\" '
    said += b'of one of the following types: [keyword]. Help: Create an index for this key."}}'
    fault = classify(UnexpectedResponse(400, "Bad Request", said, None))
    assert not fault.transient
    assert "metadata.lang" in fault.sentence
    assert "Retriever.make_filterable({field: kind})" in fault.sentence
    assert "index PATH --to LOCATION --filterable FIELD=KIND" in fault.sentence
    assert "filterable={field: kind}" in fault.sentence


def server_store():
    """A store that takes its client for a server; the tests answer in the server's place."""
    client = QdrantClient(":memory:")
    return PassageStore(Connection(client, "server", "http://example", owned=False), "c")


def answered(steps, *answers):
    """Send an operation its answers (or errors); the calls it made."""
    calls = [next(steps)]
    for answer in answers:
        send = steps.throw if isinstance(answer, Exception) else steps.send
        calls.append(send(answer))
    return calls


class Info:
    """What a server says of a collection, as far as it is read."""

    def __init__(self, contract):
        vectors = {"dense": models.VectorParams(size=64, distance=models.Distance.COSINE)}
        params = models.CollectionParams(vectors=vectors)
        known = {"params": params, "metadata": contract.to_metadata(), "quantization_config": None}
        self.config = type("Config", (), known)
        self.indexed_vectors_count, self.payload_schema = 0, {}


CONFLICT = StoreRequestError("the server answered 409 Conflict: already exists")


def test_creating_goes_on_where_the_first_try_was_answered_too_late():
    """A creation that timed out and was sent again is refused, though the collection is there."""
    steps = server_store().create(CONTRACT)
    calls = answered(steps, CONFLICT, True, Info(CONTRACT), models.CountResult(count=0))
    methods = [call.method for call in calls]
    assert methods[:4] == ["create_collection", "collection_exists", "get_collection", "count"]
    assert methods[4:] == ["create_payload_index"]


def test_creating_leaves_what_another_made_meanwhile():
    other = Contract(model=HashEncoder(dim=64).identity, filterable={})
    with pytest.raises(ContractError, match="open it again"):
        answered(
            server_store().create(CONTRACT),
            CONFLICT,
            True,
            Info(other),
            models.CountResult(count=0),
        )
    with pytest.raises(StoreRequestError, match="409"):
        answered(server_store().create(CONTRACT), CONFLICT, False)


def test_a_float_that_a_server_reads_one_unit_off_is_no_lost_contract():
    """The collection stays: what must not be deleted is what was kept."""

    def contract(avg_len):
        words = SparseIdentity(name="bm25", settings={"avg_len": avg_len})
        return Contract(model=HashEncoder().identity, sparse=words)

    given = 95.33333333333333
    steps = server_store().create(contract(given))
    calls = answered(steps, True, Info(contract(math.nextafter(given, 100))))
    assert [call.method for call in calls] == [
        "create_collection",
        "get_collection",
        "create_payload_index",
    ]


def test_a_server_indexes_what_expand_filters_by():
    """A server in strict mode refuses filters on fields that have no index."""
    steps = server_store().create(CONTRACT)
    calls = answered(steps, True, Info(CONTRACT), None, None, None)
    fields = [call.kwargs["field_name"] for call in calls[2:]]
    assert fields == ["_sbert.source", "metadata.chunk", "metadata.parent", "metadata.lang"]
