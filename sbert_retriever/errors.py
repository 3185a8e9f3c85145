"""Every error and warning that reaches whoever calls this project.

```text
SbertError
├── InputError (ValueError)            a value the caller gave
│   └── AbsentError                    a library to measure against is not here, or lacks the model
├── InputTypeError (TypeError)         a type the caller gave
├── MissingExtraError (ImportError)    an optional package is not installed
├── ModelError
│   ├── ModelNotFoundError             no folder, package or hub holds the name
│   ├── ModelFormatError               the files are there and cannot be used
│   ├── TextTooLongError (ValueError)  on_truncate="error" and a text is longer than the model reads
│   ├── DeviceError                    the device asked for is absent
│   └── GivenUpError                   an encoding that nobody waits for any more
├── ReadError                          a file that cannot be read
├── StoreError
│   ├── CollectionNotFoundError
│   ├── ContractError                  the collection was built with another model
│   ├── StoreLockedError               another process holds the folder
│   ├── StoreClosedError               used after close()
│   ├── StoreRequestError              the engine refused the request
│   │   └── StoreAccessError           the server's key, certificate or address is wrong
│   └── StoreUnavailableError          gave up after retries; says what is in and what is not
└── InterruptedRunError                a run was stopped and can be resumed

SbertWarning (UserWarning)
├── TruncationWarning                  texts longer than the model reads
├── UnknownFieldWarning                a filter or group_by names a field no passage has
└── FallbackWarning                    something asked for was replaced by the next best
```

A message says what was found, what was expected and what to do. Signals between two modules, caught
before they reach a caller (a record that is left out, a kernel that is not there), stand where they
are raised.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


class SbertError(Exception):
    """The root: catch this to catch everything the project raises on purpose."""


class InputError(SbertError, ValueError):
    """A value that the caller gave cannot be used."""


class AbsentError(InputError):
    """A library is not installed, or has not the model: the message says what to do."""


class InputTypeError(SbertError, TypeError):
    """A type that the caller gave cannot be used."""


class MissingExtraError(SbertError, ImportError):
    """An optional package is not installed; the message carries the pip line.

    The line is for a checkout: the project is on no package index yet.

    Args:
        package: The import that failed.
        extra: The extra of this distribution that brings it.
        purpose: What needs it, as the end of "... is needed to".

    Examples:
        >>> error = MissingExtraError("docx", extra="docs", purpose="read it")
        >>> print(str(error).partition(": ")[2])
        pip install ".[docs]" in the checkout of sbert-retriever
    """

    def __init__(self, package: str, *, extra: str, purpose: str) -> None:
        super().__init__(
            f"{package} is needed to {purpose} and is not installed: {install_line(extra)}"
        )


def install_line(extra: str) -> str:
    """How to get an extra of this distribution, where one has its checkout."""
    return f'pip install ".[{extra}]" in the checkout of sbert-retriever'


class ModelError(SbertError):
    """A model cannot be found, read or run."""


class ModelNotFoundError(ModelError):
    """No folder, installed package or hub holds the name; the message lists where was looked."""


class ModelFormatError(ModelError):
    """The model's files are there and cannot be used."""


class TextTooLongError(ModelError, ValueError):
    """A text is longer than the model reads, and on_truncate is "error"."""


class DeviceError(ModelError):
    """The device asked for is not on this machine."""


class GivenUpError(ModelError):
    """An encoding that nobody waits for any more ended between two batches."""


class ReadError(SbertError):
    """A file cannot be read as text."""


class StoreError(SbertError):
    """The collection cannot be opened, read or written."""


class CollectionNotFoundError(StoreError):
    """There is no collection of that name at that location."""


class ContractError(StoreError):
    """The collection was built with another model than the one asked for."""


class StoreLockedError(StoreError):
    """Another process holds the folder."""


class StoreClosedError(StoreError):
    """The store was used after close(), or in a forked child."""


class StoreRequestError(StoreError):
    """The engine refused the request; repeating it would not help."""


class StoreAccessError(StoreRequestError):
    """How the server is asked is wrong, whatever is asked: key, certificate or address."""


class StoreUnavailableError(StoreError):
    """The engine did not answer within the deadline, retries included.

    Attributes:
        stored: Ids of this call's passages that are in the collection.
        missing: Ids of this call's passages that are not, or may not be.
    """

    def __init__(
        self, message: str, *, stored: Sequence[str] = (), missing: Sequence[str] = ()
    ) -> None:
        super().__init__(message)
        self.stored = tuple(stored)
        self.missing = tuple(missing)


class InterruptedRunError(SbertError):
    """A run was stopped half-way; what it wrote is kept, and it can be run again."""


class SbertWarning(UserWarning):
    """The root of the warnings."""


class TruncationWarning(SbertWarning):
    """Texts longer than the model reads were cut."""


class UnknownFieldWarning(SbertWarning):
    """A filter or group_by names a field that no passage has, or compares text with a number."""


class FallbackWarning(SbertWarning):
    """Something asked for was not to be had, and the next best was used."""
