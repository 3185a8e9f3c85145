"""SciFact as the benchmarks and the tests read it: 5,183 abstracts, 300 test queries, qrels."""

from __future__ import annotations

import ast
import csv
import io
import json
import re
import zipfile
from pathlib import Path

# The abstracts are a printed numpy array of sentences: quoted strings that no comma parts.
_SENTENCE = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\"""")


def corpus(data: Path) -> list[tuple[str, str]]:
    """(id, title and abstract in one text) of every document, in the order of the file."""
    csv.field_size_limit(1_000_000)
    with zipfile.ZipFile(data / "scifact" / "scifact.zip") as archive:
        raw = io.TextIOWrapper(archive.open("corpus_train.csv"), encoding="utf-8")
        return [
            (row["doc_id"], f"{row['title']} {joined(row['abstract'])}")
            for row in csv.DictReader(raw)
        ]


def joined(printed: str) -> str:
    """The sentences of a printed list, in one text."""
    return " ".join(ast.literal_eval(quoted).strip() for quoted in _SENTENCE.findall(printed))


def queries(data: Path) -> tuple[dict[str, str], dict[str, dict[str, int]]]:
    """The judged test queries {id: text}, and qrels {query id: {document id: grade}}."""
    qrels: dict[str, dict[str, int]] = {}
    lines = (data / "scifact" / "qrels-test.tsv").read_text(encoding="utf-8").splitlines()
    for line in lines[1:]:
        query, document, grade = line.split("\t")
        qrels.setdefault(query, {})[document] = int(grade)
    texts = {}
    for line in (data / "scifact" / "queries.jsonl").read_text(encoding="utf-8").splitlines():
        entry = json.loads(line)
        if entry["_id"] in qrels:
            texts[entry["_id"]] = entry["text"]
    return texts, qrels
