"""Move a collection that langchain-qdrant wrote to this project, in two steps.

1. Open it where it is: search and add with SBERTVectorStore; not a point of it changes.
2. Move it into a folder in our own layout, where ids may be any strings, documents know their
   source, unchanged texts are never encoded twice, and the engine runs in this process.

Needs: pip install langchain-qdrant. Run it: python examples/from_langchain_qdrant.py
"""

from __future__ import annotations

import tempfile

from langchain_core.documents import Document
from langchain_qdrant import QdrantVectorStore
from langchain_sbert import SBERTEmbeddings, SBERTVectorStore
from qdrant_client import QdrantClient, models

DOCUMENTS = [
    Document("Cats purr when they are content.", metadata={"source": "cats.md", "lang": "en"}),
    Document("Katzen schnurren.", metadata={"source": "cats.md", "lang": "de"}),
    Document("The night train leaves at ten.", metadata={"source": "trains.md", "lang": "en"}),
]


def written_by_langchain_qdrant(embeddings: SBERTEmbeddings) -> QdrantClient:
    """What you have today: a collection behind a client, here in memory."""
    client = QdrantClient(":memory:")
    vectors = models.VectorParams(size=embeddings.dim, distance=models.Distance.COSINE)
    client.create_collection("my_docs", vectors_config=vectors)
    store = QdrantVectorStore(client=client, collection_name="my_docs", embedding=embeddings)
    store.add_documents(DOCUMENTS)
    return client


def main() -> None:
    embeddings = SBERTEmbeddings(model="all-MiniLM-L6-v2")
    client = written_by_langchain_qdrant(embeddings)

    with (
        SBERTVectorStore.from_existing_collection(
            embeddings, client=client, collection_name="my_docs"
        ) as old,
        tempfile.TemporaryDirectory() as folder,
    ):
        found = old.similarity_search("a happy animal", k=1, filter={"lang": "en"})
        print("where it is:", found[0].page_content, found[0].metadata)

        with SBERTVectorStore(embeddings, folder) as new:
            new.add_documents(old.iter_documents())
            found = new.similarity_search("a happy animal", k=1, filter={"lang": "en"})
            print("moved over: ", found[0].page_content, found[0].metadata)
            print("documents:  ", new.retriever.count())
            # Run twice, it finds nothing to do: same ids, same texts.
            new.add_documents(old.iter_documents())
            # What belongs to one source goes together.
            new.delete(source="cats.md")
            print("without cats.md:", [d.page_content for d in new.iter_documents()])
    client.close()


if __name__ == "__main__":
    main()
