"""Filters on metadata: equal, any of, ranges, dates, lists, not, or."""

from __future__ import annotations

from datetime import date

from sbert_retriever import Passage, Retriever

BOOKS = [
    ("Emma", "A young woman meddles in the loves of her village.", 1815, "en", ["novel", "comedy"]),
    ("Faust", "A scholar sells his soul to the devil for knowledge.", 1808, "de", ["drama"]),
    ("Walden", "A man lives alone in the woods by a pond.", 1854, "en", ["essay"]),
    ("Dracula", "A count from Transylvania drinks the blood of the living.", 1897, "en", ["novel"]),
    ("Germinal", "Miners in the north of France go on strike.", 1885, "fr", ["novel"]),
]
FILTERS = [
    None,
    {"lang": "en"},
    {"lang": ["de", "fr"]},
    {"year": {"gte": 1850, "lt": 1890}},
    {"added": {"lt": date(2024, 3, 1)}},
    {"genres": "novel", "not": {"lang": "en"}},
    {"or": [{"genres": "drama"}, {"year": {"gt": 1890}}]},
    {"lang": []},
]


def passages() -> list[Passage]:
    return [
        Passage(
            title,
            text,
            {"year": year, "lang": lang, "genres": genres, "added": date(2024, month, 15)},
        )
        for month, (title, text, year, lang, genres) in enumerate(BOOKS, start=1)
    ]


def main() -> None:
    # Fields named here get an index, which a large collection wants and some servers insist on.
    fields = {"lang": "keyword", "year": "integer", "genres": "keyword"}
    model = "all-MiniLM-L6-v2"
    with Retriever.open(":memory:", model=model, filterable=fields) as retriever:
        retriever.index(passages())
        print("> a pact with evil")
        for condition in FILTERS:
            hits = retriever.search("a pact with evil", k=5, filter=condition)
            print(f"\n{condition}  ({retriever.count(condition)} match)")
            for hit in hits:
                print(f"  {hit.score:5.2f}  {hit.id}")


if __name__ == "__main__":
    main()
