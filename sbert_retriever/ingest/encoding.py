"""Encode in a thread of its own, while the next passages are read and the last ones written."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass, replace
from time import monotonic
from types import TracebackType
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from sbert_retriever.encoder.giving_up import stop_event
from sbert_retriever.errors import InputError
from sbert_retriever.index.points import Draft

T = TypeVar("T")
_REMEMBERED_TEXTS = 4096


@dataclass(frozen=True)
class Encoded:
    """Vectors (n, dim) of n texts, and what was cut to fit the encoder.

    Args:
        vectors: float32 (n, dim).
        truncated: How many of the texts were cut.
        longest: Tokens of the longest of those.
        encoded: How many texts went through the encoder; None is all of them.
        seconds: How long that took.
    """

    vectors: npt.NDArray[np.float32]
    truncated: int = 0
    longest: int = 0
    encoded: int | None = None
    seconds: float = 0.0


Encode = Callable[[list[str]], Encoded]


class DraftEncoder:
    """Gives drafts their vectors; a text that came before is not encoded again.

    Args:
        encode: Texts to vectors.
        dim: Width that the vectors must have.
    """

    def __init__(self, encode: Encode, *, dim: int) -> None:
        self._encode = encode
        self._dim = dim
        self._recent: OrderedDict[str, npt.NDArray[np.float32]] = OrderedDict()

    def __call__(self, drafts: Sequence[Draft]) -> Encoded:
        """Vectors (n, dim) of n drafts; each distinct text goes through the encoder once.

        Raises:
            InputError: The encoder gave another number of vectors, or another width.
        """
        texts = {d.fingerprint.text: d.text for d in drafts}
        rows = {h: self._recent[h] for h in texts if h in self._recent}
        fresh = [h for h in texts if h not in rows]
        started = monotonic()
        made = self._encoded([texts[h] for h in fresh])
        seconds = monotonic() - started
        rows.update(zip(fresh, made.vectors, strict=True))
        self._remember({h: rows[h] for h in fresh})
        vectors = np.stack([rows[d.fingerprint.text] for d in drafts])
        return replace(
            made,
            vectors=vectors.astype(np.float32, copy=False),
            encoded=len(fresh),
            seconds=seconds,
        )

    def _encoded(self, texts: list[str]) -> Encoded:
        if not texts:
            return Encoded(np.empty((0, self._dim), np.float32))
        try:
            made = self._encode(texts)
        except Exception as error:
            error.add_note(f"while {len(texts)} texts were encoded, {texts[0][:60]!r} the first")
            raise
        shape = np.shape(made.vectors)
        if shape != (len(texts), self._dim):
            raise InputError(
                f"the encoder gave {shape[0] if shape else 0} vectors of shape {shape[1:]} for "
                f"{len(texts)} texts, expected shape ({len(texts)}, {self._dim}): nothing of this "
                "window was written"
            )
        return made

    def _remember(self, rows: dict[str, npt.NDArray[np.float32]]) -> None:
        self._recent.update((h, row.copy()) for h, row in rows.items())
        while len(self._recent) > _REMEMBERED_TEXTS:
            self._recent.popitem(last=False)


class Thread:
    """One thread for work in order. Leaving it in haste gives up what is under way.

    An encoder of this package ends between two batches then, any other at the end of its call.
    """

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="sbert-encode")
        self._stop = threading.Event()

    def __enter__(self) -> Thread:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def submit(self, function: Callable[..., T], *args: object) -> Future[T]:
        """Run a function in the thread, after what was submitted before it."""
        context = copy_context()
        context.run(stop_event.set, self._stop)
        return self._pool.submit(context.run, function, *args)
