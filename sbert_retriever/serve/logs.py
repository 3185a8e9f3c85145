"""Logs: a JSON object a line on stderr, without texts of users unless they are asked for."""

from __future__ import annotations

import json
import logging
import sys
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TextIO

LOGGER = logging.getLogger("sbert_retriever.serve")


class JsonLines(logging.Formatter):
    """A record as a line of JSON.

    Args:
        texts: Whether messages of errors, which may quote what a user wrote, are shown.
    """

    def __init__(self, *, texts: bool) -> None:
        super().__init__()
        self._texts = texts

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        moment = datetime.fromtimestamp(record.created, UTC)
        line = {
            "time": moment.isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info and record.exc_info[1] is not None:
            line["error"] = self._error(record.exc_info[1])
        return json.dumps(line, ensure_ascii=True, default=str)

    def _error(self, error: BaseException) -> dict[str, object]:
        frames = traceback.extract_tb(error.__traceback__)
        shown: dict[str, object] = {
            "type": type(error).__name__,
            "at": [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames[-8:]],
        }
        if self._texts:
            shown["message"] = str(error)
        return shown


def log(event: str, *, level: int = logging.INFO, **fields: object) -> None:
    """Write a line."""
    LOGGER.log(level, event, extra={"fields": fields})


@contextmanager
def logging_to(stream: TextIO | None = None, *, texts: bool) -> Iterator[None]:
    """Send our lines, those of the web server, and warnings, to a stream.

    Args:
        stream: None is stderr.
        texts: Whether messages that may quote users are shown.
    """
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonLines(texts=texts))
    loggers = [LOGGER, logging.getLogger("uvicorn")]
    before = [(each.handlers, each.level, each.propagate) for each in loggers]
    shown = warnings.showwarning
    for each in loggers:
        each.handlers, each.propagate = [handler], False
        each.setLevel(logging.INFO if each is LOGGER else logging.WARNING)
    warnings.showwarning = _warned(texts)  # type: ignore[assignment]  # its arguments, in one tuple
    try:
        yield
    finally:
        warnings.showwarning = shown
        for each, (handlers, level, propagate) in zip(loggers, before, strict=True):
            each.handlers, each.propagate = handlers, propagate
            each.setLevel(level)


def _warned(texts: bool) -> object:
    def show(message: Warning | str, category: type[Warning], *_: object) -> None:
        fields = {"message": str(message)} if texts else {}
        log("warning", level=logging.WARNING, category=category.__name__, **fields)

    return show
