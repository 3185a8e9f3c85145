"""Test collections from files: BEIR folders, TREC qrels and runs, JSON lines.

An error names the file and the line. Nothing is guessed from a line that does not fit.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias

from sbert_retriever.counting import counted
from sbert_retriever.errors import ReadError
from sbert_retriever.evaluation.lines import as_number, numbered_lines, place_of
from sbert_retriever.types import Passage

Queries: TypeAlias = dict[str, str]
"""{query id: its text}, in the order of the file."""
Qrels: TypeAlias = dict[str, dict[str, int]]
"""{query id: {passage id: grade}}; a grade above 0 is relevant."""
Run: TypeAlias = dict[str, dict[str, float]]
"""{query id: {passage id: score}}; bigger is better."""

_ID_KEYS = ("_id", "id", "query_id", "query-id", "qid")
_PASSAGE_KEYS = ("passage_id", "corpus-id", "corpus_id", "doc_id", "docid")
_TEXT_KEYS = ("text", "query")
_GRADE_KEYS = ("score", "grade", "relevance")
_GRADE_NAMES = frozenset({*_GRADE_KEYS, "label", "rel", "rating", "judgment", "judgement"})
_QUERY_NAMES = frozenset({"id", "qid", "query", "queryid", "topic", "topicid"})
"""What a header's first field is; with `_GRADE_NAMES`, its last: without case, - and _."""
_ODD = re.compile(r"[\W_]")


@dataclass(frozen=True)
class BeirFolder:
    """A test collection in BEIR's shape.

    Args:
        corpus: The file of the passages, read by `read_corpus`.
        queries: All queries of the file, judged or not.
        qrels: The judgements of one split.
    """

    corpus: Path
    queries: Queries
    qrels: Qrels

    @property
    def judged(self) -> Queries:
        """The queries that the split judges."""
        return {i: text for i, text in self.queries.items() if i in self.qrels}


def read_beir(folder: str | PathLike[str], *, split: str = "test") -> BeirFolder:
    """Read corpus.jsonl, queries.jsonl and qrels/<split>.tsv of a folder.

    The qrels may also lie in the folder itself, as <split>.tsv.

    Raises:
        ReadError: A file is missing or a line of it does not fit.
    """
    place = Path(folder)
    corpus = place / "corpus.jsonl"
    if not corpus.is_file():
        raise ReadError(f"{corpus} is not there: a BEIR folder has it")
    qrels = read_qrels(beir_qrels(place, split=split))
    return BeirFolder(corpus, read_queries(place / "queries.jsonl"), qrels)


def beir_qrels(folder: str | PathLike[str], *, split: str = "test") -> Path:
    """The file of a split's judgements.

    Raises:
        ReadError: It is not there; with the splits that are.
    """
    place = Path(folder)
    for path in (place / "qrels" / f"{split}.tsv", place / f"{split}.tsv"):
        if path.is_file():
            return path
    there = sorted(path.stem for path in (place / "qrels").glob("*.tsv"))
    known = f"; there are: {', '.join(there)}" if there else ""
    raise ReadError(f"{place} has no qrels/{split}.tsv{known}")


def read_corpus(path: str | PathLike[str]) -> Iterator[Passage]:
    """The passages of a BEIR corpus.jsonl, one at a time; the text is title and text.

    A title alone will do: published corpora have articles without an abstract.

    Raises:
        ReadError: A line has no id, or neither a title nor a text.
    """
    for number, record in json_lines(Path(path)):
        where = place_of(path, number)
        passage_id = text_field(record, ("_id", "id"), where)
        title = record.get("title") or ""
        alone = bool(str(title).strip()) and not str(record.get("text") or "").strip()
        text = "" if alone else text_field(record, ("text",), where)
        yield Passage(passage_id, f"{title} {text}".strip(), record.get("metadata") or {})


def read_queries(path: str | PathLike[str]) -> Queries:
    """Queries: JSON lines with an id and a text, or lines of id, tab, text.

    Args:
        path: A file; JSON lines where its name ends in .jsonl or .json. Or a BEIR folder.

    Raises:
        ReadError: A line does not fit, or an id comes twice.
    """
    place = Path(path)
    if place.is_dir():
        place = place / "queries.jsonl"
    queries: Queries = {}
    for number, query_id, text in _queries_of(place):
        if query_id in queries:
            raise ReadError(f"{place_of(place, number)}: query {query_id!r} is there twice")
        queries[query_id] = text
    if not queries:
        raise ReadError(f"{place} holds no query")
    return queries


def _queries_of(path: Path) -> Iterator[tuple[int, str, str]]:
    if is_json(path):
        for number, record in json_lines(path):
            where = place_of(path, number)
            yield number, text_field(record, _ID_KEYS, where), text_field(record, _TEXT_KEYS, where)
        return
    for number, line in numbered_lines(path):
        query_id, tab, text = line.partition("\t")
        if not (tab and query_id.strip() and text.strip()):
            raise ReadError(f"{place_of(path, number)}: expected an id, a tab and a query")
        yield number, query_id.strip(), text.strip()


def read_qrels(path: str | PathLike[str]) -> Qrels:
    """Judgements, in one of three shapes, known by the first line.

    BEIR: three fields (query, passage, grade) parted by tabs, with a header or without. TREC: four
    fields (query, iteration, passage, grade) parted by white space. JSON lines: objects with
    query_id, passage_id and score.

    Args:
        path: A file, or a BEIR folder, of which the test split is read.

    Raises:
        ReadError: A line does not fit, or judges a pair again with another grade.
    """
    place = Path(path)
    if place.is_dir():
        place = beir_qrels(place)
    qrels: Qrels = {}
    for number, query_id, passage_id, grade in _judgements_of(place):
        known = qrels.setdefault(query_id, {}).setdefault(passage_id, grade)
        if known != grade:
            raise ReadError(
                f"{place_of(place, number)}: passage {passage_id!r} of query {query_id!r} has "
                f"grade {grade}, and {known} before"
            )
    if not qrels:
        raise ReadError(f"{place} holds no judgement")
    return qrels


def _judgements_of(path: Path) -> Iterator[tuple[int, str, str, int]]:
    if is_json(path):
        yield from _json_judgements(path)
        return
    width = 0
    for number, line in numbered_lines(path):
        fields = line.split("\t") if "\t" in line else line.split()
        width = width or len(fields)
        if width not in (3, 4) or len(fields) != width:
            raise ReadError(
                f"{place_of(path, number)}: {counted(len(fields), 'field')}, expected "
                f"{_shape(width)}"
            )
        if number == 1 and _is_header(fields):
            continue
        grade = as_number(int, fields[-1], "grade", place_of(path, number))
        yield number, fields[0].strip(), fields[-2].strip(), grade


def _shape(width: int) -> str:
    if width in (3, 4):
        return f"{width} as in the first line"
    return "3 (query, passage, grade) or 4 (query, iteration, passage, grade)"


def _is_header(fields: Sequence[str]) -> bool:
    """Whether three fields name columns; TREC's four have no header, and a bad grade is none.

    Examples:
        >>> _is_header(["query-id", "corpus-id", "score"]), _is_header(["q1", "d1", "two"])
        (True, False)
    """
    query, *_, grade = (_ODD.sub("", field.casefold()) for field in fields)
    return (
        len(fields) == 3
        and (grade in _GRADE_NAMES or query in _QUERY_NAMES)
        and not any(character.isdigit() for character in grade)
    )


def _json_judgements(path: Path) -> Iterator[tuple[int, str, str, int]]:
    for number, record in json_lines(path):
        where = place_of(path, number)
        query_id = text_field(record, ("query_id", "query-id", "qid"), where)
        passage_id = text_field(record, _PASSAGE_KEYS, where)
        grade = next((record[key] for key in _GRADE_KEYS if key in record), 1)
        yield number, query_id, passage_id, as_number(int, grade, "grade", where)


def read_run(path: str | PathLike[str]) -> Run:
    """A TREC run: query, Q0, passage, rank, score, tag, parted by white space.

    The score decides; the rank is not read.

    Raises:
        ReadError: A line does not fit, or answers a query with a passage twice.
    """
    place = Path(path)
    run: Run = {}
    for number, line in numbered_lines(place):
        fields = line.split()
        if len(fields) not in (5, 6):
            raise ReadError(
                f"{place_of(place, number)}: {counted(len(fields), 'field')}, expected query, Q0, "
                "passage, "
                "rank, score, tag"
            )
        found = run.setdefault(fields[0], {})
        if fields[2] in found:
            raise ReadError(
                f"{place_of(place, number)}: passage {fields[2]!r} answers query "
                f"{fields[0]!r} twice"
            )
        found[fields[2]] = as_number(float, fields[4], "score", place_of(place, number))
    return run


def write_run(
    path: str | PathLike[str], rankings: Mapping[str, list[str]], *, tag: str = "sbert-retriever"
) -> None:
    """Write rankings {query id: passage ids, best first} as a TREC run; scores count down.

    Raises:
        ReadError: An id holds white space, which parts the fields of that format.
    """
    lines = []
    for query_id, ids in rankings.items():
        for rank, passage_id in enumerate(ids, 1):
            if len(f"{query_id} {passage_id}".split()) != 2:
                raise ReadError(
                    f"the ids {query_id[:80]!r} and {passage_id[:80]!r} are not two words, and a "
                    "TREC run parts its fields by white space: write JSON instead"
                )
            lines.append(f"{query_id} Q0 {passage_id} {rank} {len(ids) - rank + 1} {tag}\n")
    Path(path).write_text("".join(lines), encoding="utf-8")


# Lines ------------------------------------------------------------------------------------


def is_json(path: Path) -> bool:
    """Whether a file's name says that it holds JSON lines."""
    return path.suffix.lower() in {".jsonl", ".json", ".ndjson"}


def json_lines(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """JSON objects, one a line, each with the line's number.

    Raises:
        ReadError: A line is not JSON, or no object.
    """
    for number, line in numbered_lines(path):
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise ReadError(f"{place_of(path, number)}: not JSON ({error})") from error
        if not isinstance(record, dict):
            kind = type(record).__name__
            raise ReadError(f"{place_of(path, number)}: {kind}, expected an object")
        yield number, record


def text_field(record: Mapping[str, Any], keys: tuple[str, ...], where: str) -> str:
    """The first of these keys' values, a non-empty str or a whole number written as one."""
    for key in keys:
        value = record.get(key)
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
        if isinstance(value, str) and value.strip():
            return value
    raise ReadError(
        f"{where}: no {keys[0]!r} that holds text; the keys are: {', '.join(map(repr, record))}"
    )
