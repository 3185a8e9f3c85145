"""What users said and asked in vain: a file of JSON lines, one a record.

It lies in the folder of an embedded collection, and so lives, moves and is dropped with it; beside
a server it is wherever the caller says.
"""

from __future__ import annotations

import json
import os
import threading
import warnings
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sbert_retriever.errors import FallbackWarning, InputError, ReadError, StoreError
from sbert_retriever.faq.entries import Feedback

_FEEDBACK, _UNANSWERED = "feedback", "unanswered"


class Notebook:
    """Records of feedback and of unanswered questions.

    Args:
        path: The file, made at the first record; None where there is no place for one.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._guard = threading.Lock()

    @property
    def path(self) -> Path | None:
        """The file."""
        return self._path

    def keep_feedback(self, question: str, entry: str, *, good: bool) -> Feedback:
        """Write down what a user said of an answer.

        Raises:
            InputError: There is no place for it.
            StoreError: The file cannot be written.
        """
        kept = Feedback(question=question, entry=entry, good=good, at=_now())
        self._append({"kind": _FEEDBACK, **vars(kept)})
        return kept

    def keep_unanswered(self, question: str) -> None:
        """Write down a question that got no answer.

        Warns:
            FallbackWarning: The file cannot be written. Whoever asked is told the outcome all the
                same.
        """
        try:
            self._append({"kind": _UNANSWERED, "question": question, "at": _now()})
        except StoreError as error:
            warnings.warn(f"a question was not kept: {error}", FallbackWarning, stacklevel=2)

    def feedback(self) -> list[Feedback]:
        """What users said, oldest first."""
        return [
            Feedback(**{name: record[name] for name in ("question", "entry", "good", "at")})
            for record in self._records(_FEEDBACK)
        ]

    def unanswered(self) -> list[str]:
        """The questions that got no answer, oldest first."""
        return [record["question"] for record in self._records(_UNANSWERED)]

    def clear(self) -> None:
        """Delete the file."""
        with self._guard:
            if self._path is not None:
                self._path.unlink(missing_ok=True)

    def _append(self, record: dict[str, Any]) -> None:
        if self._path is None:
            raise InputError(
                "there is no place to keep this: a collection on a server has no folder here; "
                "open the FAQ with log=FILE (--log FILE on the command line)"
            )
        line = json.dumps(record, ensure_ascii=True) + "\n"
        with self._guard:
            try:
                _write(self._path, line.encode("ascii"))
            except OSError as error:
                raise StoreError(
                    f"{self._path} cannot be written: {error.strerror or error}"
                ) from error

    def _records(self, kind: str) -> Iterator[dict[str, Any]]:
        if self._path is None or not self._path.is_file():
            return
        with self._path.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                if (record := self._record(line, number)).get("kind") == kind:
                    yield record

    def _record(self, line: str, number: int) -> dict[str, Any]:
        try:
            record = json.loads(line)
        except ValueError as error:
            if not line.endswith("\n"):
                return {}  # a write that the disk had no room for, or that is going on
            raise ReadError(
                f"{self._path}, line {number}: not JSON ({error}): remove the line"
            ) from error
        return record if isinstance(record, dict) else {}


def _write(path: Path, line: bytes) -> None:
    """One write, so that a process that is killed leaves a whole line or none."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(handle, line)
    finally:
        os.close(handle)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
