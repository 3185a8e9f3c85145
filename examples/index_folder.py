"""Index a folder of documents, ask it a question, and cite where the answer stands."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from sbert_retriever import Retriever
from sbert_retriever.ingest.files import index_files

HANDBOOK = """# Handbook

## Travel

Trips are booked two weeks ahead. The train is preferred to the plane below six hours.

## Illness

Call your team before ten in the morning. From the fourth day on a doctor's note is needed.
"""
NOTES = "The printer on the second floor jams when the paper is damp. Keep it in the cupboard.\n"


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        documents = Path(folder, "documents")
        documents.mkdir()
        (documents / "handbook.md").write_text(HANDBOOK, encoding="utf-8")
        (documents / "notes.txt").write_text(NOTES, encoding="utf-8")
        (documents / "old.pdf").write_bytes(b"this is no pdf")
        with Retriever.open(Path(folder, "index"), model="all-MiniLM-L6-v2") as retriever:
            ask(retriever, documents)


def ask(retriever: Retriever, documents: Path) -> None:
    report = index_files(retriever, [documents])
    print("index:", report)
    for failure in report.failures:
        print("did not go in:", failure.reason, file=sys.stderr)

    question = "Do I need a doctor's note when I am ill?"
    print(f"\n> {question}")
    for hit in retriever.search(question, k=2):
        place = hit.metadata.get("section") or "the beginning"
        print(
            f"\n{hit.score:.2f}  {Path(hit.source).name}, under {place}, from character "
            f"{hit.metadata['start']}:\n{hit.text}"
        )


if __name__ == "__main__":
    main()
