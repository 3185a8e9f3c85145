"""What is wrong with a service, for whoever asks it: without paths, addresses and keys."""

from __future__ import annotations

from sbert_retriever.errors import (
    InputError,
    InputTypeError,
    MissingExtraError,
    ModelError,
    StoreAccessError,
    StoreClosedError,
    StoreError,
    StoreUnavailableError,
)

_REASONS: tuple[tuple[type[Exception], str], ...] = (
    (StoreUnavailableError, "the Qdrant server behind the service does not answer"),
    (StoreAccessError, "the Qdrant server behind the service cannot be asked as it is set up"),
    (StoreClosedError, "the service is about to stop"),
    (StoreError, "the collection behind the service cannot be read or written"),
    (ModelError, "a model of the service cannot be loaded or run"),
    (MissingExtraError, "a package of the service is not installed"),
    (InputError, "a setting of the service cannot be used"),
    (InputTypeError, "a setting of the service cannot be used"),
)


def reason(error: BaseException) -> str:
    """The kind of an error in words; its own, which may name places, are for the log."""
    for kind, words in _REASONS:
        if isinstance(error, kind):
            return f"{words}, see its log"
    return f"{type(error).__name__}, see the log"
