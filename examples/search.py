"""Ten lines: three texts in, one question, the nearest first."""

from __future__ import annotations

from sbert_retriever import Passage, Retriever

PASSAGES = [
    Passage("cat", "A cat sleeps up to sixteen hours a day."),
    Passage("tea", "Green tea is best made with water below boiling."),
    Passage("rail", "The night train to Vienna leaves at ten."),
]

with Retriever.open(":memory:", model="all-MiniLM-L6-v2") as retriever:
    retriever.index(PASSAGES)
    for hit in retriever.search("How long do kittens rest?", k=3):
        print(f"{hit.score:.2f}  {hit.id:<5} {hit.text}")
