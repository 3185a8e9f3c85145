"""What a worker answers to a window, and the sum of all answers.

Our own errors come back as values: Ray's wrapping would lose their class, and a worker that has
raised once is as good as before.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from time import monotonic
from typing import Any

from sbert_ray._windows import COLUMN, Window
from sbert_retriever import errors
from sbert_retriever.errors import SbertError
from sbert_retriever.types import Failure, IndexReport, Passage

ANSWER = "answer"
Work = Callable[[list[Passage]], IndexReport]
_COUNTS = ("added", "updated", "unchanged", "encoded", "truncated")


def answers(batch: Mapping[str, Any], work: Work) -> dict[str, list[str]]:
    """An answer to each window of a batch."""
    return {ANSWER: [_answer(raw, work) for raw in batch[COLUMN]]}


def _answer(raw: bytes, work: Work) -> str:
    window = Window.from_bytes(raw)
    if window.error is not None:
        return json.dumps({"error": window.error})
    try:
        report = work(list(window.passages)) if window.passages else IndexReport()
    except SbertError as error:
        return json.dumps({"error": [type(error).__name__, str(error)]})
    failures = (*window.failures, *report.failures)
    unchanged = window.unchanged + report.unchanged
    return json.dumps(asdict(replace(report, failures=failures, unchanged=unchanged)))


@dataclass
class Tally:
    """The sum of the answers so far."""

    started: float = field(default_factory=monotonic)
    counts: dict[str, Any] = field(default_factory=lambda: dict.fromkeys(_COUNTS, 0))
    longest: int = 0
    failures: list[Failure] = field(default_factory=list)

    def add(self, line: str) -> None:
        """Count one answer.

        Raises:
            SbertError: The answer is an error; of its own class.
        """
        answer = json.loads(line)
        if "error" in answer:
            raise _raised(*answer["error"])
        for name in _COUNTS:
            self.counts[name] += answer[name]
        self.longest = max(self.longest, answer["longest"])
        self.failures += [Failure(**failure) for failure in answer["failures"]]

    def report(self) -> IndexReport:
        """What is known so far."""
        return IndexReport(
            added=self.counts["added"],
            updated=self.counts["updated"],
            unchanged=self.counts["unchanged"],
            encoded=self.counts["encoded"],
            truncated=self.counts["truncated"],
            longest=self.longest,
            failed=len(self.failures),
            failures=tuple(self.failures),
            seconds=monotonic() - self.started,
        )


def _raised(name: str, message: str) -> SbertError:
    kind = getattr(errors, name, SbertError)
    if kind is errors.MissingExtraError:
        # Its message is made of what it is given, and this one is made already.
        error = kind.__new__(kind, message)
        ImportError.__init__(error, message)
        return error
    made: SbertError = kind(message)
    return made
