"""`SBERTEmbeddings`: fields, roles, loading, copying, event loops."""

from __future__ import annotations

import asyncio
import copy
import pickle
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from langchain_core.embeddings import Embeddings
from langchain_sbert import SBERTEmbeddings, SBERTVectorStore
from pydantic import ValidationError

from sbert_retriever import BiEncoder
from sbert_retriever.errors import (
    InputTypeError,
    ModelNotFoundError,
    TextTooLongError,
    TruncationWarning,
)

_LONG = "word " * 600


def test_model_and_model_name_are_one_field() -> None:
    by_alias = SBERTEmbeddings(model="all-MiniLM-L6-v2", lazy=True)
    assert by_alias == SBERTEmbeddings(model_name="all-MiniLM-L6-v2", lazy=True)
    assert by_alias.model_name == SBERTEmbeddings(lazy=True).model_name == "all-MiniLM-L6-v2"


def test_unknown_fields_are_refused() -> None:
    with pytest.raises(ValidationError, match="model_kwargs"):
        SBERTEmbeddings(model="all-MiniLM-L6-v2", model_kwargs={})  # type: ignore[call-arg]  # the point


def test_fields_are_frozen(minilm_embeddings: SBERTEmbeddings) -> None:
    with pytest.raises(ValidationError, match="frozen"):
        minilm_embeddings.device = "cuda"  # type: ignore[misc]  # the point


def test_an_unknown_model_is_told_when_made_or_when_used(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFoundError, match="nobody/nothing"):
        SBERTEmbeddings(model="nobody/nothing")
    later = SBERTEmbeddings(model="nobody/nothing", lazy=True)
    with pytest.raises(ModelNotFoundError, match="nobody/nothing"):
        later.embed_query("x")


def test_vectors_are_those_of_the_model(
    minilm_embeddings: SBERTEmbeddings, minilm: BiEncoder
) -> None:
    texts = ["Cats purr.", "", "line\nbreak"]
    found = minilm_embeddings.embed_documents(texts)
    np.testing.assert_allclose(found, minilm.encode_passages(texts), atol=1e-6)
    assert minilm_embeddings.dim == 384
    assert np.linalg.norm(found, axis=1) == pytest.approx([1, 1, 1], abs=1e-5)


async def test_no_texts_give_no_vectors(minilm_embeddings: SBERTEmbeddings) -> None:
    assert minilm_embeddings.embed_documents([]) == []
    assert await minilm_embeddings.aembed_documents([]) == []


def test_each_role_has_its_prompt(minilm: BiEncoder) -> None:
    embeddings = SBERTEmbeddings(
        query_prompt="query: ", passage_prompt="passage: ", device="cpu", dtype="float32"
    )
    plain = minilm.encode_passages(["query: cats", "passage: cats"])
    np.testing.assert_allclose(embeddings.embed_query("cats"), plain[0], atol=1e-6)
    np.testing.assert_allclose(embeddings.embed_documents(["cats"])[0], plain[1], atol=1e-6)


async def test_the_event_loops_methods_give_the_same(minilm_embeddings: SBERTEmbeddings) -> None:
    texts = ["Cats purr.", "Trains run."]
    assert await minilm_embeddings.aembed_query("x") == minilm_embeddings.embed_query("x")
    assert await minilm_embeddings.aembed_documents(texts) == (
        minilm_embeddings.embed_documents(texts)
    )


def test_fewer_dimensions() -> None:
    embeddings = SBERTEmbeddings(truncate_dim=64, device="cpu")
    vector = embeddings.embed_query("cats")
    assert len(vector) == embeddings.dim == 64
    assert np.linalg.norm(vector) == pytest.approx(1, abs=1e-3)


def test_a_progress_bar_when_asked(capsys: pytest.CaptureFixture[str]) -> None:
    SBERTEmbeddings(show_progress=True, device="cpu").embed_documents(["a", "b"])
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err


@pytest.mark.parametrize("wrong", ["one text", ["a", None], [b"a"]])
def test_what_is_no_list_of_texts(minilm_embeddings: SBERTEmbeddings, wrong: Any) -> None:
    with pytest.raises(InputTypeError):
        minilm_embeddings.embed_documents(wrong)


def test_pickles_and_copies_give_the_same_vectors(minilm_embeddings: SBERTEmbeddings) -> None:
    expected = minilm_embeddings.embed_query("cats")
    for twin in (
        pickle.loads(pickle.dumps(minilm_embeddings)),
        copy.deepcopy(minilm_embeddings),
        minilm_embeddings.model_copy(),
    ):
        assert twin.model_dump() == minilm_embeddings.model_dump()
        assert twin.embed_query("cats") == expected


def test_many_threads_load_one_model() -> None:
    embeddings = SBERTEmbeddings(lazy=True, device="cpu")
    found: list[BiEncoder] = []
    threads = [threading.Thread(target=lambda: found.append(embeddings.encoder)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len({id(encoder) for encoder in found}) == 1


async def test_long_texts_are_told_in_a_store(call: Any) -> None:
    """Texts that the model reads in part are counted in one warning, or refused before writing."""
    warns = SBERTEmbeddings(device="cpu")
    with SBERTVectorStore(warns) as store:
        with pytest.warns(TruncationWarning, match="1 of 2 texts") as warned:
            await call(store, "add_texts", [_LONG, "short"])
        assert len(warned) == 1
    with SBERTVectorStore(SBERTEmbeddings(device="cpu", on_truncate="ignore")) as store:
        await call(store, "add_texts", [_LONG])
    with SBERTVectorStore(SBERTEmbeddings(device="cpu", on_truncate="error")) as store:
        with pytest.raises(TextTooLongError):
            await call(store, "add_texts", [_LONG, "short"])
        assert store.retriever.count() == 0


class Waiting(Embeddings):
    """Embeddings that answer only when something else has run on the event loop."""

    def __init__(self) -> None:
        self.release = threading.Event()

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        if text != "dimension" and not self.release.wait(timeout=20):
            raise TimeoutError("the event loop stood still")
        return [1.0, 0.0]


@pytest.mark.parametrize(
    ("method", "argument"),
    [
        ("aadd_texts", ["x"]),
        ("asimilarity_search", "x"),
        ("asimilarity_search_with_relevance_scores", "x"),
        ("amax_marginal_relevance_search", "x"),
        ("ainvoke", "x"),
    ],
)
async def test_the_event_loop_goes_on(place: dict[str, Any], method: str, argument: Any) -> None:
    """While embeddings work, an asynchronous call lets the event loop run other things."""
    embedding = Waiting()
    with SBERTVectorStore(embedding, **place) as store:
        target: Any = store.as_retriever() if method == "ainvoke" else store
        asked = asyncio.create_task(getattr(target, method)(argument))
        await asyncio.sleep(0.05)
        assert not asked.done()
        embedding.release.set()
        await asked
