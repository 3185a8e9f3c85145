"""Words beside meanings in LangChain."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from langchain_sbert import SBERTRetriever, SBERTVectorStore

from sbert_retriever import Profile
from sbert_retriever.errors import InputError

TEXTS = {"pump": [1.0, 0.0, 0.0], "valve XK-4711": [0.0, 1.0, 0.0], "seal": [0.6, 0.8, 0.0]}
QUESTION = "XK-4711"


@pytest.fixture
def store(place: dict[str, Any], table: Any) -> Iterator[SBERTVectorStore]:
    # By meaning the question is nearest to the pump, by words it is in the valve alone.
    embeddings = table(TEXTS | {QUESTION: [1.0, 0.0, 0.0]})
    with SBERTVectorStore.from_texts(
        list(TEXTS), embeddings, ids=list(TEXTS), **{**place, "sparse": "bm25"}
    ) as made:
        yield made


async def test_similarity_goes_by_meaning_and_hybrid_by_both(
    store: SBERTVectorStore, call: Any, close: float
) -> None:
    plain = await call(store, "similarity_search_with_score", QUESTION, 3)
    assert [document.id for document, _ in plain] == ["pump", "seal", "valve XK-4711"]
    assert plain[0][1] == pytest.approx(1.0, abs=1e-3)  # vectors may be of half precision
    sparse = await call(store, "similarity_search", QUESTION, 3, mode="sparse")
    assert [document.id for document in sparse] == ["valve XK-4711"]
    # The question is a name: what its words find gets 0.6 more than the cosine.
    both = await call(store, "similarity_search_with_score", QUESTION, 3, mode="hybrid")
    assert {d.id: s for d, s in both} == pytest.approx(
        {"pump": 1.0, "seal": 0.6, "valve XK-4711": 0.6}, abs=close
    )
    assert [d.id for d in await call(store, "search", QUESTION, "hybrid", k=1)] == ["pump"]


async def test_a_profile_leaves_a_similarity_one_of_meanings(
    store: SBERTVectorStore, call: Any
) -> None:
    """Unless it says by what it goes, which those that come with the package do not."""
    named = SBERTRetriever(vectorstore=store, k=3, profile="fast")
    found = await call(named, "invoke", QUESTION)
    assert [document.id for document in found] == ["pump", "seal", "valve XK-4711"]
    words = Profile(rerank_depth=0, mode="sparse")
    found = await call(named, "invoke", QUESTION, profile=words)
    assert [document.id for document in found] == ["valve XK-4711"]


async def test_a_hybrid_retriever(store: SBERTVectorStore, call: Any) -> None:
    retriever = store.as_retriever(search_type="hybrid", search_kwargs={"k": 3})
    assert len(await call(retriever, "invoke", QUESTION)) == 3
    filtered = await call(retriever, "invoke", QUESTION, k=1, mode="sparse")
    assert [document.id for document in filtered] == ["valve XK-4711"]


async def test_a_relevance_is_refused_where_the_scale_has_no_bounds(
    store: SBERTVectorStore, call: Any
) -> None:
    """Ranks and sums are no cosines, and no relevance from 0 to 1 follows from them."""
    for mode, kind in (("hybrid", "fused"), ("sparse", "bm25")):
        with pytest.raises(InputError, match=f"the scores are {kind}, which has no bounds"):
            await call(store, "similarity_search_with_relevance_scores", QUESTION, mode=mode)
    with pytest.raises(InputError, match="has no bounds"):
        SBERTRetriever(
            vectorstore=store,
            search_type="similarity_score_threshold",
            score_threshold=0.1,
            search_kwargs={"mode": "hybrid"},
        ).invoke(QUESTION)


def test_hybrid_needs_words(place: dict[str, Any], table: Any) -> None:
    plain = {**place, "sparse": None}
    with SBERTVectorStore.from_texts(["pump"], table(TEXTS), **plain) as store:
        retriever = store.as_retriever(search_type="hybrid")
        with pytest.raises(InputError, match="has no sparse vectors"):
            retriever.invoke("pump")
