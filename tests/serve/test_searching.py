"""POST /search gives what the library gives, and what each stage took."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sbert_retriever import BiEncoder, Hit, Passage, Retriever
from sbert_retriever.cli.searching import _as_dict
from sbert_retriever.search.request import QueryOptions
from sbert_retriever.serve.answers import hit_answer
from sbert_retriever.serve.schemas import SearchRequest

QUERY = "how do I join two dictionaries?"


@pytest.fixture(scope="module")
def retriever(built: Path, minilm: BiEncoder):
    with Retriever.open(built, model=minilm) as opened:
        yield opened


def test_hits_are_those_of_the_library(served, retriever: Retriever) -> None:
    answer = served.post("/search", {"query": QUERY, "k": 5})
    assert answer.status_code == 200
    found = answer.json()
    expected = retriever.search(QUERY, 5)
    assert [hit["id"] for hit in found["hits"]] == [hit.id for hit in expected]
    for hit, own in zip(found["hits"], expected, strict=True):
        assert hit["score"] == pytest.approx(own.score, abs=2e-6)
        assert (hit["text"], hit["metadata"]) == (own.text, dict(own.metadata))
        assert (hit["score_kind"], hit["first_score"]) == ("cosine", None)
    assert set(found["timings_ms"]) == {"wait", "encode", "search", "rerank", "total"}
    assert (found["candidates"], found["rescored"]) == (0, 0)


def test_options_are_those_of_the_library(served, retriever: Retriever) -> None:
    options = {"filter": {"year": {"gte": 2020}}, "score_threshold": 0.1, "exact": True}
    answer = served.post("/search", {"query": QUERY, "k": 3, **options})
    expected = retriever.search(QUERY, 3, **options)
    assert [hit["id"] for hit in answer.json()["hits"]] == [hit.id for hit in expected]
    some = {"group_by": "lang", "filter": {"lang": {"exists": True}}}
    grouped = served.post("/search", {"query": QUERY, "k": 2, **some}).json()["hits"]
    assert {hit["metadata"]["lang"] for hit in grouped} == {"en", "ar"}


def test_a_request_has_every_option_of_the_library() -> None:
    """`distinct`, `oversampling` and `rescore` were unknown here."""
    own = set(SearchRequest.model_fields) - {"query", "k"}
    assert own == set(QueryOptions.__annotations__) - {"timeout_s"}


def test_a_hit_goes_out_as_the_command_line_prints_it() -> None:
    """Whether a passage was cut for the cross-encoder was said there alone."""
    hit = Hit(Passage("a", "text"), 0.5, truncated=True)
    assert hit_answer(hit) == _as_dict(hit)


def test_what_says_nearly_the_same_is_left_out(served, retriever: Retriever) -> None:
    body = {"query": "which chapter is about loops?", "k": 8, "distinct": 0.3}
    found = [hit["id"] for hit in served.post("/search", body).json()["hits"]]
    expected = retriever.search(body["query"], 8, distinct=0.3)
    assert found == [hit.id for hit in expected]
    assert found != [hit.id for hit in retriever.search(body["query"], 8)]


def test_a_budget_lets_the_cross_encoder_read_candidates(served) -> None:
    body = {"query": QUERY, "k": 5, "budget_ms": 20_000}
    found = served.post("/search", body).json()
    assert found["hits"][0]["id"] == "dicts"
    assert found["rescored"] == found["candidates"] > 5
    for hit in found["hits"]:
        assert (hit["score_kind"], hit["first_score_kind"]) == ("logit", "cosine")
        assert hit["reranked"]
        assert not hit["truncated"]
    assert found["timings_ms"]["rerank"] > 0


def test_a_budget_of_nothing_keeps_the_first_order_and_says_so(served) -> None:
    found = served.post("/search", {"query": QUERY, "k": 2, "budget_ms": 0}).json()
    assert found["rescored"] == 0
    assert {hit["score_kind"] for hit in found["hits"]} == {"cosine"}
    assert all("too short" in hit["fallback"] for hit in found["hits"])


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ({}, 422, "query"),
        ({"query": 3}, 422, "query"),
        ({"query": "a", "k": 0}, 422, "k"),
        ({"query": "a", "limit": 3}, 422, "limit"),
        ({"query": "a", "filter": {"year": {"around": 3}}}, 400, "around"),
        ({"query": "a", "filter": []}, 422, "filter"),
        ({"query": "a", "diversity": 0.5, "group_by": "lang"}, 400, "diversity"),
        ({"query": "a", "diversity": 0.5, "distinct": 0.9}, 400, "distinct"),
        ({"query": "a", "oversampling": 0.5}, 422, "oversampling"),
        ({"query": "a", "k": 11, "group_by": "lang", "group_size": 100}, 400, "is 1,100"),
        ({"query": "a", "mode": "sparse"}, 400, "sparse"),
        ({"query": "a", "rerank_threshold": 1.0, "profile": "fast"}, 400, "rerank_threshold"),
    ],
)
def test_what_cannot_be_answered_is_refused_in_one_sentence(served, body, status, words) -> None:
    answer = served.post("/search", body)
    assert answer.status_code == status
    message = answer.json()["error"]["message"]
    assert words in message
    assert "\n" not in message


def test_concurrent_searches_have_each_its_own_answer(served, retriever: Retriever) -> None:
    topics = ["loops", "threads", "sockets", "dates", "tuples", "modules", "locks", "paths"]
    queries = [f"which chapter explains {topic}?" for topic in topics] * 8

    def asked(query: str) -> str:
        return served.post("/search", {"query": query, "k": 1}).json()["hits"][0]["id"]

    with ThreadPoolExecutor(16) as pool:
        found = list(pool.map(asked, queries))
    expected = {query: retriever.search(query, 1)[0].id for query in set(queries)}
    assert found == [expected[query] for query in queries]
    metrics = served.ask("GET", "/metrics").text
    values = dict(line.rsplit(" ", 1) for line in metrics.splitlines() if not line.startswith("#"))
    batches = float(values["sbert_retriever_batches_total"])
    assert 0 < batches <= float(values["sbert_retriever_batch_shares_total"])
