"""LangChain's own indexing over our store, in each mode, synchronous and not."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.indexing import InMemoryRecordManager, aindex, index
from langchain_sbert import SBERTVectorStore

_Index = Callable[..., Awaitable[dict[str, int]]]


@pytest.fixture(params=["sync", "async"])
def indexed(request: pytest.FixtureRequest) -> _Index:
    """`index` or `aindex`, as counts (added, updated, skipped, deleted)."""

    async def perform(*args: Any, **kwargs: Any) -> Any:
        found = index(*args, **kwargs) if request.param == "sync" else await aindex(*args, **kwargs)
        return tuple(found[f"num_{n}"] for n in ("added", "updated", "skipped", "deleted"))

    return perform


def _documents(*texts: str, source: str) -> list[Document]:
    return [Document(text, metadata={"source": source}) for text in texts]


@pytest.mark.filterwarnings("ignore:Using SHA-1:UserWarning")
@pytest.mark.parametrize("key_encoder", ["sha1", "sha256", "sha512", "blake2b"])
async def test_each_key_encoder(
    letters: SBERTVectorStore, indexed: _Index, key_encoder: str
) -> None:
    """Each key encoder's ids are taken; a second run skips all; a gone source's texts go."""
    records = InMemoryRecordManager("docs")
    records.create_schema()
    documents = _documents("a", "b", source="one") + _documents("c", source="two")
    settings = {"source_id_key": "source", "key_encoder": key_encoder}

    async def run(given: list[Document], cleanup: str) -> Any:
        return await indexed(given, records, letters, cleanup=cleanup, **settings)

    assert await run(documents, "incremental") == (3, 0, 0, 0)
    assert await run(documents, "incremental") == (0, 0, 3, 0)
    # "a" left its source; "two" was not looked at.
    assert await run(documents[1:2], "incremental") == (0, 0, 1, 1)
    assert letters.retriever.count() == 2
    # Now "two" is gone as a whole.
    assert await run(documents[1:2], "full") == (0, 0, 1, 1)
    assert [d.page_content for d in letters.similarity_search("b")] == ["b"]
    assert await run([], "full") == (0, 0, 0, 1)
    assert letters.retriever.count() == 0


async def test_forced_updates(letters: SBERTVectorStore, indexed: _Index) -> None:
    records = InMemoryRecordManager("docs")
    records.create_schema()
    documents = _documents("a", "b", source="one")
    settings = {"source_id_key": "source", "key_encoder": "blake2b", "cleanup": "scoped_full"}
    assert await indexed(documents, records, letters, **settings) == (2, 0, 0, 0)
    again = await indexed(documents, records, letters, force_update=True, **settings)
    assert again == (0, 2, 0, 0)
    assert letters.retriever.count() == 2
