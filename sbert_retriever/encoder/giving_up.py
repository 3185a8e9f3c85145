"""Let go of a long encoding from outside: whoever runs it in a thread may change their mind."""

from __future__ import annotations

import threading
from contextvars import ContextVar

from sbert_retriever.errors import ModelError

stop_event: ContextVar[threading.Event | None] = ContextVar("stop_event", default=None)
"""Set in the context that an encoding runs in; the encoder looks at it between two batches."""


class GivenUpError(ModelError):
    """An encoding that nobody waits for any more ended between two batches."""


def check_wanted() -> None:
    """Go on, or end here.

    Raises:
        GivenUpError: The event of this context is set.
    """
    event = stop_event.get()
    if event is not None and event.is_set():
        raise GivenUpError("the encoding was given up: nobody waits for it any more")
