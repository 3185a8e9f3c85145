"""Test collections: passages, questions and judgements, found in a folder or named file by file."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass
from pathlib import Path

from sbert_retriever.errors import ReadError
from sbert_retriever.evaluation.read_ranking import (
    Qrels,
    Queries,
    read_beir,
    read_corpus,
    read_qrels,
    read_queries,
)
from sbert_retriever.evaluation.scifact import ARCHIVE, read_abstracts
from sbert_retriever.types import Passage


@dataclass(frozen=True)
class TestCollection:
    """What a retrieval task is measured on.

    Args:
        name: Of the collection.
        queries: Those that are judged, in the order of their file.
        qrels: The judgements of those.
        passages: Reads the passages, each time it is called; None where a live collection has them.
    """

    __test__ = False  # no test, whatever a test runner makes of the name

    name: str
    queries: Queries
    qrels: Qrels
    passages: Callable[[], Iterable[Passage]] | None

    def texts(self) -> dict[str, str]:
        """{passage id: text} of all passages.

        Raises:
            ReadError: Two passages have one id, or there is none, or none that is judged.
        """
        found: dict[str, str] = {}
        for passage in () if self.passages is None else self.passages():
            if passage.id in found:
                raise ReadError(f"{self.name}: passage {passage.id!r} is there twice")
            found[passage.id] = passage.text
        if not found:
            raise ReadError(f"{self.name} holds no passage")
        judged = {passage for marks in self.qrels.values() for passage in marks}
        if judged and judged.isdisjoint(found):
            raise ReadError(
                f"{self.name}: none of the {len(found)} passages has an id that is judged (there: "
                f"{next(iter(found))[:80]!r}, judged: {min(judged)[:80]!r}): give the passages "
                "that belong to these judgements"
            )
        return found


def find_collections(
    data: Path,
    *,
    split: str = "test",
    choose: Callable[[tuple[str, ...]], Container[str]] = lambda names: names,
) -> list[TestCollection]:
    """The test collections of a folder: the folder itself, or those in it.

    Args:
        data: A BEIR folder, a folder of SciFact, or one that has such folders in it.
        split: Of the judgements.
        choose: Out of the names of all that are there, those that are read.

    Raises:
        ReadError: There is none, or one that is read cannot be.
    """
    if not data.is_dir():
        raise ReadError(f"{data} is no folder: give --data a folder of data sets")
    places = [data, *sorted(place for place in data.iterdir() if place.is_dir())]
    readers = {place: reader for place in places if (reader := _reader(place)) is not None}
    if not readers:
        raise ReadError(
            f"{data} has no test collection: expected corpus.jsonl, queries.jsonl and "
            f"qrels/{split}.tsv (BEIR) in it or in a folder of it"
        )
    chosen = choose(tuple(place.name for place in readers))
    return [reader(place, split) for place, reader in readers.items() if place.name in chosen]


def _reader(place: Path) -> Callable[[Path, str], TestCollection] | None:
    if (place / "corpus.jsonl").is_file() and (place / "queries.jsonl").is_file():
        return _beir
    return _scifact if (place / ARCHIVE).is_file() else None


def _beir(place: Path, split: str) -> TestCollection:
    read = read_beir(place, split=split)
    return _judged(place.name, read.queries, read.qrels, lambda: read_corpus(read.corpus))


def _scifact(place: Path, split: str) -> TestCollection:
    qrels = read_qrels(place / f"qrels-{split}.tsv")
    queries = read_queries(place / "queries.jsonl")
    return _judged(
        place.name, queries, qrels, lambda: (abstract.passage for abstract in read_abstracts(place))
    )


def collection_of_files(queries: Path, qrels: Path, corpus: Path | None) -> TestCollection:
    """A collection whose files are named one by one.

    Args:
        queries: JSON lines, or lines of id, tab, text.
        qrels: BEIR, TREC or JSON lines.
        corpus: BEIR's corpus.jsonl; None where a live collection has the passages.

    Raises:
        ReadError: A file is missing or a line does not fit.
    """
    passages = None if corpus is None else lambda: read_corpus(corpus)
    return _judged(qrels.stem, read_queries(queries), read_qrels(qrels), passages)


def _judged(
    name: str,
    queries: Queries,
    qrels: Qrels,
    passages: Callable[[], Iterable[Passage]] | None,
) -> TestCollection:
    if missing := [query for query in qrels if query not in queries]:
        raise ReadError(
            f"{name}: {len(missing)} judged queries have no text, {missing[0]!r} first: give the "
            "queries that belong to these judgements"
        )
    asked = {query: text for query, text in queries.items() if query in qrels}
    return TestCollection(name, asked, qrels, passages)
