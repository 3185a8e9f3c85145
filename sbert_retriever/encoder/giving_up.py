"""Let go of a long encoding from outside: whoever runs it in a thread may change their mind."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from sbert_retriever.errors import GivenUpError

stop_event: ContextVar[threading.Event | None] = ContextVar("stop_event", default=None)
"""Set in the context that an encoding runs in; the encoder looks at it between two batches."""


def check_wanted() -> None:
    """Go on, or end here.

    Raises:
        GivenUpError: The event of this context is set.
    """
    event = stop_event.get()
    if event is not None and event.is_set():
        raise GivenUpError("the encoding was given up: nobody waits for it any more")


@contextmanager
def for_others_too() -> Iterator[None]:
    """Encode to the end here, whoever gives up meanwhile: others wait for the same batch."""
    token = stop_event.set(None)
    try:
        yield
    finally:
        stop_event.reset(token)
