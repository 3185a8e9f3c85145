"""Reranking in LangChain: compressor, cross-encoder, and a retriever with a second stage."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from typing import Any

import pytest
from langchain_classic.retrievers import ContextualCompressionRetriever
from langchain_core.documents import Document
from langchain_sbert import (
    SBERTCrossEncoder,
    SBERTReranker,
    SBERTRetriever,
    SBERTVectorStore,
)
from pydantic import ValidationError

from sbert_retriever import Profile, Retriever
from sbert_retriever.errors import FallbackWarning, InputError, InputTypeError
from sbert_retriever.testing import TableScorer

TURNED = {"one two": 1.0, "one three": 2.0, "four": 3.0}
DOCUMENTS = [
    Document(id="a", page_content="one two", metadata={"n": 1}),
    Document(id="b", page_content="one three", metadata={"n": 2}),
    Document(page_content="four", metadata={"n": 3}),
]
BERLIN = "How many people live in Berlin?"
POPULATION = (
    "Berlin had a population of 3,520,031 registered inhabitants in an area of 891.82 square "
    "kilometers."
)
MUSEUMS = "Berlin is well known for its museums."


def texts(documents: list[Document]) -> list[str]:
    return [document.page_content for document in documents]


@pytest.fixture
def store(place: dict[str, Any], table: Any) -> Iterator[SBERTVectorStore]:
    vectors = {"q": [1.0, 0.0], "one two": [1.0, 0.1], "one three": [1.0, 0.5], "four": [1.0, 2.0]}
    documents = [copy.deepcopy(document) for document in DOCUMENTS]
    with SBERTVectorStore.from_documents(documents, table(vectors), **place) as made:
        yield made


@pytest.fixture
def compress(call: Any) -> Any:
    """The compressor's method, in both ways."""

    async def perform(reranker: SBERTReranker, *args: Any) -> list[Document]:
        found: list[Document] = await call(reranker, "compress_documents", *args)
        return found

    return perform


async def test_documents_come_back_in_the_scorers_order_with_their_scores(compress: Any) -> None:
    """The same list reranked for two queries: nothing given is changed, nothing overwritten."""
    before = copy.deepcopy(DOCUMENTS)
    reranker = SBERTReranker(reranker=TableScorer(TURNED), top_n=2)
    found = await compress(reranker, DOCUMENTS, "q")
    kept = copy.deepcopy(found)
    await compress(SBERTReranker(reranker=TableScorer({"one two": 9.0})), DOCUMENTS, "other")
    assert before == DOCUMENTS
    assert found == kept
    assert texts(found) == ["four", "one three"]
    assert [document.id for document in found] == [None, "b"]
    assert found[1].metadata["n"] == 2
    assert found[1].metadata["relevance_score"] == pytest.approx(1 / (1 + math.exp(-2)))
    assert found[1].metadata["_sbert"] == {
        "score": 2.0, "score_kind": "logit", "first_score": None, "first_score_kind": None,
        "rerank_score": 2.0, "rerank_score_kind": "logit",
        "reranked": True, "cut_short": False, "fallback": None, "truncated": False,
    }  # fmt: skip


async def test_none_one_duplicates_and_more_than_there_are(compress: Any) -> None:
    reranker = SBERTReranker(reranker=TableScorer(TURNED), top_n=10)
    assert await compress(reranker, [], "q") == []
    assert texts(await compress(reranker, DOCUMENTS[:1], "q")) == ["one two"]
    twice = await compress(reranker, [DOCUMENTS[0], DOCUMENTS[1], DOCUMENTS[0]], "q")
    assert texts(twice) == ["one three", "one two", "one two"]
    assert await compress(SBERTReranker(reranker=TableScorer({}), top_n=0), DOCUMENTS, "q") == []
    ties = SBERTReranker(reranker=TableScorer({}), top_n=None)
    assert texts(await compress(ties, DOCUMENTS, "q")) == texts(DOCUMENTS)


async def test_a_failing_model_keeps_the_order_and_says_so(compress: Any) -> None:
    class Broken(TableScorer):
        def score(self, pairs: Any) -> Any:
            raise MemoryError("full")

    with pytest.warns(FallbackWarning, match="full"):
        found = await compress(SBERTReranker(reranker=Broken({})), DOCUMENTS, "q")
    assert texts(found) == texts(DOCUMENTS)
    assert all("full" in document.metadata["_sbert"]["fallback"] for document in found)
    assert all("relevance_score" not in document.metadata for document in found)


async def test_a_failing_model_raises_where_that_was_asked_for(compress: Any) -> None:
    """Also where the model is one's own and not a name."""

    class Broken(TableScorer):
        def score(self, pairs: Any) -> Any:
            raise MemoryError("full")

    with pytest.raises(MemoryError, match="full"):
        await compress(SBERTReranker(reranker=Broken({}), on_failure="raise"), DOCUMENTS, "q")


async def test_a_least_score_and_a_budget(compress: Any) -> None:
    least = SBERTReranker(reranker=TableScorer(TURNED), min_score=2.0)
    assert texts(await compress(least, DOCUMENTS, "q")) == ["four", "one three"]
    hurried = SBERTReranker(reranker=TableScorer(TURNED), budget_ms=0)
    found = await compress(hurried, DOCUMENTS, "q")
    assert texts(found) == texts(DOCUMENTS)
    assert all(document.metadata["_sbert"]["cut_short"] for document in found)


def test_the_real_model_through_langchains_own_compression(place: dict[str, Any]) -> None:
    with SBERTVectorStore.from_texts(
        [MUSEUMS, POPULATION, "Paris lies on the Seine."],
        _WithTwoWords(),
        ids=["museums", "population", "paris"],
        **place,
    ) as store:
        chain = ContextualCompressionRetriever(
            base_compressor=SBERTReranker(model="ms-marco-MiniLM-L12-v2", top_n=2, device="cpu"),
            base_retriever=store.as_retriever(k=3),
        )
        found = chain.invoke(BERLIN)
    assert [document.id for document in found] == ["population", "museums"]
    assert found[0].metadata["_sbert"]["score"] == pytest.approx(9.1, abs=0.2)
    assert found[1].metadata["_sbert"]["score"] == pytest.approx(-3.9, abs=0.3)


def _WithTwoWords() -> Any:  # noqa: N802  # stands for a class
    from langchain_sbert import SBERTEmbeddings

    return SBERTEmbeddings(model="all-MiniLM-L6-v2", device="cpu", dtype="float32")


def test_the_cross_encoder_scores_pairs() -> None:
    model = SBERTCrossEncoder(model="ms-marco-MiniLM-L12-v2", device="cpu", dtype="float32")
    scores = model.score([(BERLIN, POPULATION), (BERLIN, MUSEUMS)])
    assert scores == pytest.approx([9.1, -3.9], abs=0.2)
    assert all(type(score) is float for score in scores)
    assert model.score([]) == []
    likely = SBERTCrossEncoder(scale="probability", device="cpu", dtype="float32")
    assert likely.score([(BERLIN, MUSEUMS)])[0] == pytest.approx(
        1 / (1 + math.exp(-scores[1])), 1e-4
    )


async def test_a_retriever_with_a_reranker(store: SBERTVectorStore, call: Any) -> None:
    retriever = SBERTRetriever(vectorstore=store, k=2, reranker=TableScorer(TURNED), candidates=3)
    found = await call(retriever, "invoke", "q")
    assert texts(found) == ["four", "one three"]
    scores = found[1].metadata["_sbert"]
    assert (scores["score"], scores["score_kind"], scores["reranked"]) == (2.0, "logit", True)
    assert scores["first_score_kind"] == "cosine"
    assert scores["first_score"] == pytest.approx(1 / math.hypot(1, 0.5), abs=2e-4)
    # The call wins, and the store itself is as it was.
    assert texts(await call(retriever, "invoke", "q", candidates=2)) == ["one three", "one two"]
    assert texts(await call(retriever, "invoke", "q", profile="fast")) == ["one two", "one three"]
    plain = await call(store, "similarity_search", "q", 2)
    assert texts(plain) == ["one two", "one three"]
    assert plain[0].metadata == {"n": 1}


async def test_scores_put_on_documents_are_left_out_when_they_are_added_again(
    store: SBERTVectorStore, call: Any
) -> None:
    """What was retrieved and is added again changes nothing."""
    retriever = SBERTRetriever(vectorstore=store, k=3, reranker=TableScorer(TURNED), candidates=3)
    found = await call(retriever, "invoke", "q")
    await call(store, "add_documents", found)
    assert store.retriever.count() == 3
    again = await call(store, "similarity_search", "q", 3)
    assert [document.metadata for document in again] == [{"n": 1}, {"n": 2}, {"n": 3}]


async def test_relevances_lie_between_0_and_1(store: SBERTVectorStore, call: Any) -> None:
    core = store.retriever.with_reranker(TableScorer(TURNED))
    ranked = SBERTVectorStore.from_retriever(core, store.embeddings)
    found = await call(ranked, "similarity_search_with_relevance_scores", "q", 2, candidates=2)
    assert [score for _, score in found] == pytest.approx(
        [1 / (1 + math.exp(-2)), 1 / (1 + math.exp(-1))]
    )


async def test_where_both_orders_are_joined_the_relevance_is_the_cross_encoders(
    store: SBERTVectorStore, call: Any
) -> None:
    """As by default: a reranker alone means the profile "balanced", which joins them."""
    ranked = SBERTRetriever(
        vectorstore=store,
        k=2,
        reranker=TableScorer(TURNED),
        search_type="similarity_score_threshold",
        score_threshold=0.5,
    )
    found = await call(ranked, "invoke", "q")
    # "four" is below the threshold. Each stage's scores set to 0 .. 1: 1 and 0, then 0 and 1, of
    # which the cross-encoder's count .6.
    assert texts(found) == ["one three", "one two"]
    assert [document.metadata["_sbert"]["score_kind"] for document in found] == ["fused"] * 2
    assert [document.metadata["_sbert"]["score"] for document in found] == pytest.approx([0.6, 0.4])
    assert [document.metadata["_sbert"]["rerank_score"] for document in found] == [2.0, 1.0]
    likely = [1 / (1 + math.exp(-2)), 1 / (1 + math.exp(-1))]
    assert [d.metadata["relevance_score"] for d in found] == pytest.approx(likely)
    core = store.retriever.with_reranker(TableScorer(TURNED))
    joined = SBERTVectorStore.from_retriever(core, store.embeddings)
    pairs = await call(
        joined, "similarity_search_with_relevance_scores", "q", 2, candidates=2, rerank_mode="fuse"
    )
    # By ranks both are 1/61 + 1/62: the first stage's order stays.
    assert [score for _, score in pairs] == pytest.approx(likely[::-1])


def test_a_budget_and_a_profile_as_fields(store: SBERTVectorStore) -> None:
    scorer = TableScorer(TURNED)
    hurried = SBERTRetriever(vectorstore=store, reranker=scorer, budget_ms=0)
    assert texts(hurried.invoke("q")) == ["one two", "one three", "four"]
    ample = SBERTRetriever(vectorstore=store, reranker=scorer, budget_ms=60_000, k=1)
    assert texts(ample.invoke("q")) == ["four"]
    mine = SBERTRetriever(vectorstore=store, reranker=scorer, profile=Profile(candidates=2), k=1)
    assert texts(mine.invoke("q")) == ["one three"]
    strict = SBERTRetriever(vectorstore=store, reranker=scorer, candidates=3, rerank_threshold=2.5)
    assert texts(strict.invoke("q")) == ["four"]
    moved = store.as_retriever(reranker=scorer, search_kwargs={"candidates": 3, "k": 1})
    assert (moved.candidates, texts(moved.invoke("q"))) == (3, ["four"])


def test_opening_with_a_reranker(tmp_path: Any) -> None:
    with Retriever.open(tmp_path, model="all-MiniLM-L6-v2", collection_name="docs") as core:
        from sbert_retriever import Passage

        core.index([Passage("museums", MUSEUMS), Passage("population", POPULATION)])
    with SBERTRetriever.open(
        tmp_path, reranker="ms-marco-MiniLM-L12-v2", candidates=2, k=1, device="cpu"
    ) as retriever:
        found = retriever.invoke(BERLIN)
    assert found[0].id == "population"
    assert found[0].metadata["relevance_score"] > 0.999


def test_what_does_not_go_together_is_refused(store: SBERTVectorStore) -> None:
    scorer = TableScorer(TURNED)
    with pytest.raises((InputError, ValidationError), match="chooses by vectors alone"):
        SBERTRetriever(vectorstore=store, reranker=scorer, search_type="mmr")
    with pytest.raises((InputTypeError, ValidationError), match="'candidates' is not an argument"):
        SBERTRetriever(vectorstore=store, search_type="mmr").invoke("q", candidates=3)
    with pytest.raises((InputTypeError, ValidationError), match="reranker is int, expected a name"):
        SBERTRetriever(vectorstore=store, reranker=3)
    with pytest.raises(ValidationError):
        SBERTRetriever(vectorstore=store, reranker=scorer, candidates=0)
    with pytest.raises(ValidationError):
        SBERTReranker(reranker=scorer, top=3)
    with pytest.raises(InputError, match="candidates=3 asks for a rerank"):
        SBERTRetriever(vectorstore=store, candidates=3).invoke("q")
    with pytest.raises(InputTypeError, match=r"documents\[0\] is str, expected Document"):
        SBERTReranker(reranker=scorer).compress_documents(["text"], "q")  # type: ignore[list-item]
    with pytest.raises(InputTypeError, match="query is int"):
        SBERTReranker(reranker=scorer).compress_documents(DOCUMENTS, 3)  # type: ignore[arg-type]


def test_an_encoder_is_no_cross_encoder() -> None:
    for made in (SBERTReranker, SBERTCrossEncoder):
        with pytest.raises(Exception, match="all-MiniLM-L6-v2"):
            made(model="all-MiniLM-L6-v2")
