"""The threads that share out a product on a CPU, given back when several callers take turns.

GNU OpenMP, which torch's builds for Linux compute with, keeps a team for every thread that has run
a model. Where the teams together have more threads than there are cores, none of them waits
actively for its next piece of work any more: on two cores a question in float32 then took 18 ms
and not 9, and one call in a second thread was enough for that, for as long as both lived.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from time import perf_counter

import torch

from sbert_retriever.encoder.process import in_forked_child

_SOFT = 1
"""OpenMP's omp_pause_soft: threads end, settings stay."""
# To start a team again takes some microseconds a thread, which is nothing beside so long a call.
_LONG_S = 0.02
# After so many calls in a row a thread is taken for the only one: a question of ten milliseconds
# takes one more where its team begins anew.
_ROW = 32


class _Callers:
    """Who has run a model in this process last, and how often in a row."""

    def __init__(self) -> None:
        self._last: int | None = None
        self._row = 0

    def enter(self) -> None:
        """This thread runs one now."""
        me = threading.get_ident()
        if self._last is None:
            self._row = _ROW
        else:
            self._row = self._row + 1 if self._last == me else 0
        self._last = me

    @property
    def several(self) -> bool:
        """Whether another thread ran one, and not long ago."""
        return self._row < _ROW


_callers = _Callers()


@contextmanager
def team(device: torch.device) -> Iterator[None]:
    """Compute inside, and give the team back where another thread may want one.

    One thread that asks short questions, and nobody else does for a while, keeps its team.

    Args:
        device: Where the model is; a GPU has no such teams.
    """
    if device.type != "cpu":
        yield
        return
    _callers.enter()
    started = perf_counter()
    try:
        yield
    finally:
        if _callers.several or perf_counter() - started > _LONG_S:
            give_back()


def give_back() -> None:
    """End this thread's team; its next product starts one. Nothing where there is no GNU OpenMP.

    A forked child has its parent's team by name only: to end it would be to wait for ever.
    """
    pause = None if in_forked_child() else _pause()
    if pause is not None:
        pause(_SOFT)


@lru_cache(maxsize=1)
def _pause() -> Callable[[int], int] | None:
    """`omp_pause_resource_all` of the OpenMP that torch has loaded."""
    try:
        mapped = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = [line.split(maxsplit=5) for line in mapped.splitlines() if "libgomp" in line]
    paths = {found[5] for found in fields if len(found) == 6}
    own = Path(torch.__file__).parent
    for path in sorted(paths, key=lambda p: own not in Path(p).parents):
        try:
            pause = ctypes.CDLL(path).omp_pause_resource_all
        except (OSError, AttributeError):  # replaced on the disk meanwhile, or older than OpenMP 5
            continue
        pause.argtypes, pause.restype = [ctypes.c_int], ctypes.c_int
        return pause
    return None
