"""Move a collection from a folder to a Qdrant server, vectors and all: nothing is encoded again.

Set QDRANT_URL (and QDRANT_API_KEY) to move it to a server. Without it the client's own
`QdrantClient(":memory:")` takes the server's place.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from qdrant_client import QdrantClient

from sbert_retriever import Passage, Retriever
from sbert_retriever.transfer import copy_collection

MODEL = "all-MiniLM-L6-v2"
COLLECTION = "embedded-to-server-example"
QUESTION = "Where can I swim?"
PASSAGES = [
    Passage("lake", "The lake has a sandy bay where the water is warm in July.", {"km": 4}),
    Passage("tower", "From the tower one sees the whole valley.", {"km": 2}),
    Passage("mill", "The old mill grinds flour on Saturdays.", {"km": 7}),
]


def main() -> None:
    client = target_client()
    with tempfile.TemporaryDirectory() as folder:
        index = Path(folder, "index")
        with Retriever.open(index, model=MODEL, filterable={"km": "integer"}) as embedded:
            embedded.index(PASSAGES)
            show(embedded)
        # Where the server has a URL, `sbert-retriever copy` does the same from a shell.
        report = copy_collection(index, client, to_collection_name=COLLECTION)
        print(f"\ncopied: {report}\n")
        with Retriever.open(client=client, collection_name=COLLECTION, model=MODEL) as there:
            show(there)
    client.delete_collection(COLLECTION)
    client.close()


def target_client() -> QdrantClient:
    url = os.environ.get("QDRANT_URL")
    if url:
        print(f"Moving to the server at {url}\n")
        return QdrantClient(url, api_key=os.environ.get("QDRANT_API_KEY"))
    print('QDRANT_URL is not set: QdrantClient(":memory:") takes the place of a server\n')
    return QdrantClient(":memory:")


def show(retriever: Retriever) -> None:
    facts = retriever.info()
    print(f"{facts.engine}: {facts.count} passages, model {facts.model}")
    print(f"> {QUESTION}")
    for hit in retriever.search(QUESTION, k=2):
        print(f"  {hit.score:.4f}  {hit.text}")


if __name__ == "__main__":
    main()
