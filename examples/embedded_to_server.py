"""Move a collection from a folder to a Qdrant server, vectors and all: nothing is encoded again.

Set QDRANT_URL (and QDRANT_API_KEY) to move it to a server. Without it the client's own
`QdrantClient(":memory:")` takes the server's place.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from qdrant_client import QdrantClient

from sbert_retriever import IndexReport, Passage, Retriever
from sbert_retriever.ingest.exchange import ExportFile, export_passages
from sbert_retriever.ingest.restore import import_entries

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
        export = Path(folder, "export.jsonl")
        with Retriever.open(Path(folder, "index"), model=MODEL) as embedded:
            embedded.index(PASSAGES)
            show(embedded)
            print(f"\n{export_passages(embedded.store, export)} passages exported\n")
        with Retriever.open(
            client=client, collection_name=COLLECTION, model=MODEL, filterable={"km": "integer"}
        ) as there:
            print(f"imported: {move(export, there)}\n")
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


def move(export: Path, there: Retriever) -> IndexReport:
    """Where the server has a URL, `sbert-retriever import` does the same from a shell."""
    with export.open(encoding="utf-8") as lines:
        steps = import_entries(there.store, ExportFile(lines, export.name))
        return there.store.connection.run(steps)


def show(retriever: Retriever) -> None:
    facts = retriever.info()
    print(f"{facts.engine}: {facts.count} passages, model {facts.model}")
    print(f"> {QUESTION}")
    for hit in retriever.search(QUESTION, k=2):
        print(f"  {hit.score:.4f}  {hit.text}")


if __name__ == "__main__":
    main()
