"""What users said and asked in vain: a file of JSON lines, one a record.

It lies in the folder of an embedded collection, and so lives, moves and is dropped with it; beside
a server it is wherever the caller says.
"""

from __future__ import annotations

import json
import os
import threading
import warnings
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sbert_retriever.errors import FallbackWarning, InputError, StoreError
from sbert_retriever.faq.entries import Feedback

_FEEDBACK, _UNANSWERED = "feedback", "unanswered"
_FIELDS: dict[str, dict[str, type]] = {
    _FEEDBACK: {"question": str, "entry": str, "good": bool, "at": str},
    _UNANSWERED: {"question": str},
}


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
        """What users said, oldest first.

        Raises:
            InputError: There is no place for it.

        Warns:
            FallbackWarning: Lines are no records, and were left out.
        """
        names = ("question", "entry", "good", "at")
        return [
            Feedback(**{name: record[name] for name in names})
            for record in self._records(_FEEDBACK)
        ]

    def unanswered(self) -> list[str]:
        """The questions that got no answer, oldest first.

        Raises:
            InputError: There is no place for them.

        Warns:
            FallbackWarning: Lines are no records, and were left out.
        """
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

    def _records(self, kind: str) -> list[dict[str, Any]]:
        if self._path is None:
            raise InputError(
                "nothing that users said or asked is kept of this FAQ: a collection on a server "
                "has no folder here; open the FAQ with log=FILE (--log FILE on the command line)"
            )
        if not self._path.is_file():
            return []
        found: list[dict[str, Any]] = []
        broken: list[int] = []
        with self._path.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                record = _record(line)
                if record is not None and record["kind"] == kind:
                    found.append(record)
                elif record is None and line.endswith(b"\n") and line.strip():
                    broken.append(number)  # and no write that is going on
        if broken:
            others = f" and {len(broken) - 1} more" if len(broken) > 1 else ""
            warnings.warn(
                f"{self._path}: line {broken[0]}{others} cannot be read as a record and is left "
                "out: correct or remove it",
                FallbackWarning,
                stacklevel=4,
            )
        return found


def _record(line: bytes) -> dict[str, Any] | None:
    """A line's record, with all the fields of its kind; None where it is none."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(record, dict) or not isinstance(record.get("kind"), str):
        return None
    fields = _FIELDS.get(record["kind"], {})
    whole = all(isinstance(record.get(name), type_) for name, type_ in fields.items())
    return record if whole else None


def _write(path: Path, line: bytes) -> None:
    """Add a line, in one write, so that a process that is killed leaves a whole line or none.

    A disk without room takes the beginning of a line alone: the next one must not be joined to it.
    """
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        if os.lseek(handle, 0, os.SEEK_END) > 0:
            os.lseek(handle, -1, os.SEEK_END)
            if os.read(handle, 1) != b"\n":
                line = b"\n" + line
        while line:
            line = line[os.write(handle, line) :]
    finally:
        os.close(handle)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
