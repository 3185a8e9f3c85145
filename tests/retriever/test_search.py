"""Searching, reading and deleting, on every engine."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from qdrant_client import models

from sbert_retriever import Passage, Retriever
from sbert_retriever.errors import (
    CollectionNotFoundError,
    ContractError,
    InputError,
    InputTypeError,
    UnknownFieldWarning,
)
from sbert_retriever.index.points import Layout
from sbert_retriever.testing import HashEncoder
from sbert_retriever.types import Fusion

ANIMALS = [
    Passage("cat", "a cat purrs softly", {"legs": 4, "lang": "en"}, "animals"),
    Passage("dog", "a dog barks loudly", {"legs": 4, "lang": "de"}, "animals"),
    Passage("bird", "a bird sings songs", {"legs": 2, "lang": "en"}, "animals"),
    Passage("car", "the engine of a car roars", {"wheels": 4}, "machines"),
]


@pytest.fixture
def animals(retriever: Retriever) -> Retriever:
    retriever.index(ANIMALS)
    return retriever


def test_the_passage_with_the_same_words_comes_first_with_cosine_one(animals):
    hits = animals.search("a cat purrs softly", 2)
    assert hits[0].passage == ANIMALS[0]
    assert hits[0].score == pytest.approx(1.0, abs=1e-5)
    assert hits[0].score_kind == "cosine"
    assert len(hits) == 2
    assert hits[0].score >= hits[1].score


def test_scores_are_the_cosines_of_the_encoders_vectors(animals):
    encoder = HashEncoder(dim=64)
    query = encoder.encode_queries(["a bird purrs"])[0]
    expected = {p.id: float(encoder.encode_passages([p.text])[0] @ query) for p in ANIMALS}
    found = {hit.id: hit.score for hit in animals.search("a bird purrs", k=4)}
    assert found == pytest.approx(expected, abs=1e-5)


def test_more_asked_for_than_there_are(animals):
    assert len(animals.search("cat", k=50)) == 4


def test_a_filter_by_dict_and_by_model_keep_the_same_passages(animals):
    condition = models.FieldCondition(key="metadata.legs", match=models.MatchValue(value=4))
    by_model = animals.search("cat", filter=models.Filter(must=[condition]))
    by_dict = animals.search("cat", filter={"legs": 4})
    assert {h.id for h in by_dict} == {h.id for h in by_model} == {"cat", "dog"}


def test_a_filter_on_a_field_no_passage_has_says_so(animals):
    """A misspelt field gives no result and a warning that names it, not silence."""
    with pytest.warns(UnknownFieldWarning, match="'langg'"):
        assert animals.search("cat", filter={"langg": "en"}) == []


def test_a_filter_that_matches_nothing_on_a_known_field_is_silent(animals):
    assert animals.search("cat", filter={"lang": "fr"}) == []


def test_a_threshold_keeps_scores_equal_to_it(animals):
    hits = animals.search("a cat barks", k=4)
    least = hits[1].score
    kept = animals.search("a cat barks", k=4, score_threshold=least)
    assert [h.id for h in kept] == [h.id for h in hits if h.score >= least]
    assert kept[-1].score == least


def test_a_threshold_of_zero_is_a_value(animals):
    hits = animals.search("zzz qqq", k=4)
    assert len(animals.search("zzz qqq", k=4, score_threshold=0.0)) == sum(
        h.score >= 0 for h in hits
    )


def test_a_batch_equals_its_queries_asked_alone(animals):
    queries = ["cat", "dog barks", "songs"]
    together = animals.search_batch(queries, k=3)
    alone = [animals.search(q, k=3) for q in queries]
    assert [[h.id for h in hits] for hits in together] == [[h.id for h in hits] for hits in alone]


def test_no_queries_give_no_answers(animals):
    assert animals.search_batch([]) == []


def test_by_vector_and_similar(animals):
    vector = HashEncoder(dim=64).encode_passages(["a dog barks loudly"])[0]
    assert animals.search_by_vector(vector, k=1)[0].id == "dog"
    assert animals.search_by_vector(vector.tolist(), k=1)[0].id == "dog"
    similar = animals.similar("dog", k=3)
    assert len(similar) == 3
    assert "dog" not in {h.id for h in similar}


@pytest.mark.parametrize(
    ("vector", "message"),
    [
        ([1.0] * 63, r"shape \(63,\)"),
        ([math.nan] * 64, "NaN"),
        ([math.inf] + [0.0] * 63, "infinity"),
        ([0.0] * 64, "all zero"),
        ([[1.0] * 64], "shape"),
    ],
)
def test_a_query_vector_that_no_passage_can_be_near_is_refused(animals, vector, message):
    with pytest.raises(InputError, match=message):
        animals.search_by_vector(vector)


def test_similar_to_an_unknown_id(animals):
    with pytest.raises(InputError, match="no passage has the id 'cow'"):
        animals.similar("cow")


@pytest.mark.parametrize("query", [None, 3, b"cat", ["cat"]])
def test_a_query_that_is_no_string(animals, query):
    with pytest.raises(InputTypeError, match="query"):
        animals.search(query)


def test_a_bare_string_is_no_batch(animals):
    with pytest.raises(InputTypeError, match="put one query into a list"):
        animals.search_batch("cat")


@pytest.mark.parametrize("k", [0, -1])
def test_k_below_one(animals, k):
    with pytest.raises(InputError, match=f"k is {k}, expected 1 or more"):
        animals.search("cat", k=k)


def test_k_that_is_no_whole_number(animals):
    with pytest.raises(InputTypeError, match="expected a whole number"):
        animals.search("cat", k=2.5)


def test_an_unknown_option_is_an_error(animals):
    with pytest.raises(TypeError, match="filters"):
        animals.search("cat", filters={"lang": "en"})


def test_get_keeps_the_order_asked_for_and_leaves_missing_ones_out(animals):
    assert animals.get(["car", "nope", "cat"]) == [ANIMALS[3], ANIMALS[0]]
    assert animals.get([]) == []


def test_scroll_walks_over_everything_once(animals):
    seen, offset = [], None
    while True:
        page, offset = animals.scroll(limit=3, offset=offset)
        seen.extend(p.id for p in page)
        if offset is None:
            break
    assert sorted(seen) == ["bird", "car", "cat", "dog"]


def test_count(animals):
    assert animals.count() == 4
    assert animals.count({"legs": {"gte": 3}}) == 2
    assert animals.count({}) == 4


def test_delete_by_each_way(animals):
    assert animals.delete(["cat", "nope"]) == 1
    assert animals.delete(filter={"legs": 2}) == 1
    assert animals.delete(source="machines") == 1
    assert [p.id for p in animals.scroll()[0]] == ["dog"]
    assert animals.delete_all() == 1
    assert animals.count() == 0


@pytest.mark.parametrize(
    "arguments",
    [{}, {"filter": {}}, {"filter": models.Filter()}, {"filter": models.Filter(must=[])}],
)
def test_a_delete_without_a_condition_is_refused(animals, arguments):
    """An empty delete must not empty the collection: deleting all has its own name."""
    with pytest.raises(InputError, match="delete_all"):
        animals.delete(**arguments)
    assert animals.count() == 4


def test_deleting_no_ids_deletes_nothing(animals):
    assert animals.delete([]) == 0
    assert animals.count() == 4


def test_ids_as_a_single_string_are_refused(animals):
    with pytest.raises(InputTypeError, match="put it into a list"):
        animals.delete("cat")


def test_what_is_no_list_of_ids_and_no_source_is_refused_by_name(retriever):
    with pytest.raises(InputTypeError, match="ids is int, expected an iterable of str"):
        retriever.get(5)
    with pytest.raises(InputTypeError, match=r"source is \w+Path, expected str"):
        retriever.delete(source=Path("a.md"))


def test_a_page_of_nothing_is_refused_by_its_own_name(retriever):
    with pytest.raises(InputError, match="limit is 0, expected 1 or more"):
        retriever.scroll(limit=0)


def test_detailed_names_the_stages(animals):
    result = animals.search_detailed("cat", k=1)
    assert set(result.timings_ms) == {"encode", "search", "rerank", "total"}
    assert result.hits[0].id == "cat"


def test_info(animals):
    info = animals.info()
    assert (info.count, info.dim, info.model, info.score_kind) == (4, 64, "HashEncoder", "cosine")


def test_another_model_is_refused_with_both_sides(lasting_engine):
    lasting_engine.open().index(ANIMALS)
    with pytest.raises(ContractError, match="has 64, asked for 32"):
        lasting_engine.open(model=HashEncoder(dim=32))


def test_reopened_with_the_same_encoder(lasting_engine):
    lasting_engine.open().index(ANIMALS)
    assert lasting_engine.open().search("a cat purrs softly", 1)[0].id == "cat"


def test_no_collection_and_no_model(engine):
    with pytest.raises(CollectionNotFoundError, match="no collection"):
        engine.open(model=None)


@pytest.mark.parametrize(
    "passage_id",
    [
        "./data/a.txt_1",
        "doc-1",
        "1",
        "0",
        "-1",
        "18446744073709551615",
        "x" * 10_000,
        "日本語 ünïcödé 🎈",
        "b5e5c1f4e0b94a6a8f6f0d8a7c3b2a19",
        "B5E5C1F4-E0B9-4A6A-8F6F-0D8A7C3B2A19",
        "b5e5c1f4-e0b9-4a6a-8f6f-0d8a7c3b2a19",
        " ",
        "a\nb\x00c",
    ],
)
def test_any_string_is_an_id_and_comes_back_unchanged(retriever, passage_id):
    """Paths, digits, long, non-ASCII and uuid-like ids make the whole round trip as given."""
    passage = Passage(passage_id, "some text")
    other = Passage("other", "different words")
    assert retriever.index([passage, other]).added == 2
    assert retriever.get([passage_id]) == [passage]
    assert retriever.search("some text", k=1)[0].id == passage_id
    assert retriever.index([passage, other]).unchanged == 2
    assert retriever.delete([passage_id]) == 1
    assert retriever.count() == 1


@pytest.mark.parametrize("passage_id", [0, 2**64 - 1, -1, 2**64, True, None, b"a"])
def test_ids_that_are_no_strings_are_refused_by_name(retriever, passage_id):
    """Integers and the like are refused alike on every engine, with the way out."""
    with pytest.raises(InputTypeError, match="expected str"):
        Passage(passage_id, "text")
    with pytest.raises(InputTypeError, match="expected a string"):
        retriever.get([passage_id])


def test_an_empty_id_is_refused(retriever):
    with pytest.raises(InputError, match="empty"):
        Passage("", "text")
    with pytest.raises(InputError, match="empty"):
        retriever.delete([""])


def test_distances_are_turned_so_that_bigger_is_better(engine):
    class Euclid(HashEncoder):
        @property
        def identity(self):
            return replace(super().identity, name="Euclid", similarity="neg_l2")

    retriever = engine.open(model=Euclid(dim=64))
    retriever.index(ANIMALS)
    hits = retriever.search("a cat purrs loudly", k=4)
    encoder = HashEncoder(dim=64)
    query = encoder.encode_queries(["a cat purrs loudly"])[0]
    expected = {
        p.id: -float(np.linalg.norm(encoder.encode_passages([p.text])[0] - query)) for p in ANIMALS
    }
    assert {h.id: h.score for h in hits} == pytest.approx(expected, abs=1e-4)
    assert [h.score for h in hits] == sorted((h.score for h in hits), reverse=True)
    assert hits[0].score_kind == "neg_l2"


@pytest.mark.parametrize("fusion", [None, Fusion(method="dbsf"), Fusion(method="rrf")])
@pytest.mark.parametrize("similarity", ["neg_l2", "neg_l1"])
def test_by_both_the_nearest_comes_first_where_scores_are_distances(engine, similarity, fusion):
    """Distances were taken for scores: the farthest of the candidates came first."""

    class Far(HashEncoder):
        @property
        def identity(self):
            return replace(super().identity, name="Far", similarity=similarity)

    retriever = engine.open(model=Far(dim=64), sparse="bm25")
    retriever.index(ANIMALS)
    words = ANIMALS[0].text
    hits = retriever.search(words, 4, mode="hybrid", fusion=fusion)
    assert hits[0].id == ANIMALS[0].id
    assert [h.score for h in hits] == sorted((h.score for h in hits), reverse=True)


def test_an_unnamed_vector_and_words_go_together(engine):
    """It was created, and the first passage ended in a TypeError."""
    retriever = engine.open(layout=Layout(vector_name=""), sparse="bm25")
    retriever.index(ANIMALS)
    for mode in ("dense", "sparse", "hybrid"):
        assert retriever.search(ANIMALS[1].text, 1, mode=mode)[0].id == ANIMALS[1].id


def test_metadata_comes_back_as_given(retriever):
    """Floats to the last bit, big integers, nested values and empty ones survive the engine."""
    metadata = {
        "third": 1 / 3,
        "tiny": 5e-324,
        "one": 1.0,
        "big": 2**63 - 1,
        "nested": {"list": [1, 2.5, "x", None, True], "empty": {}},
        "": "an empty key",
        "a.b": "a key with a dot",
        "_sbert": "a name of ours",
    }
    retriever.index([Passage("p", "text", metadata)])
    back = retriever.get(["p"])[0].metadata
    assert back == metadata
    assert isinstance(back["one"], float)
    assert retriever.search("text", k=1)[0].metadata == metadata
