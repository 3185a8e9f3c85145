"""SciFact as it is found: BEIR's queries and judgements beside a zip of the abstracts."""

from __future__ import annotations

import ast
import csv
import io
import re
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sbert_retriever.csv_fields import allow_long_fields
from sbert_retriever.errors import ReadError
from sbert_retriever.evaluation.lines import place_of
from sbert_retriever.types import Passage

ARCHIVE = "scifact.zip"
_MEMBER = "corpus_train.csv"
# The abstracts are a printed array of sentences: quoted strings that no comma parts.
_SENTENCE = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\"""")


@dataclass(frozen=True)
class Abstract:
    """An abstract in sentences.

    Args:
        id: Of the document.
        title: One line.
        sentences: In their order, without white space around them.
    """

    id: str
    title: str
    sentences: tuple[str, ...]

    @property
    def passage(self) -> Passage:
        """As BEIR has it: the title, a space, and the sentences."""
        return Passage(self.id, f"{self.title} {' '.join(self.sentences)}")


def read_abstracts(folder: Path) -> Iterator[Abstract]:
    """The abstracts of scifact.zip.

    Raises:
        ReadError: The archive is missing or damaged, or a row of it does not fit.
    """
    path = folder / ARCHIVE
    try:
        with zipfile.ZipFile(path) as archive, archive.open(_MEMBER) as raw:
            text = io.TextIOWrapper(raw, encoding="utf-8", newline="")
            yield from _abstracts(text, Path(f"{path}/{_MEMBER}"))
    except (OSError, KeyError, zipfile.BadZipFile) as error:
        raise ReadError(f"{path} cannot be read: {error}") from error


def _abstracts(text: io.TextIOWrapper, where: Path) -> Iterator[Abstract]:
    allow_long_fields()
    rows = csv.DictReader(text)
    for row in rows:
        try:
            yield Abstract(row["doc_id"], row["title"], sentences_of(row["abstract"]))
        except (KeyError, TypeError, ValueError, SyntaxError) as error:
            raise ReadError(
                f"{place_of(where, rows.line_num)}: no doc_id, title and abstract ({error})"
            ) from error


def sentences_of(printed: str) -> tuple[str, ...]:
    r"""The sentences of a printed list.

    Examples:
        >>> sentences_of("['One. '\n \"It's two.\"]")
        ('One.', "It's two.")
    """
    return tuple(ast.literal_eval(quoted).strip() for quoted in _SENTENCE.findall(printed))
