"""Ray for the length of one call: what runs already, or one of our own."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

import ray
from ray.data import DataContext

from sbert_ray.workers import Pool, Workers, settled
from sbert_retriever.errors import InputError

_ADDRESS = "RAY_ADDRESS"
_TELEMETRY = "RAY_USAGE_STATS_ENABLED"
# Only texts and counts pass through it; vectors never do.
_OBJECT_STORE_BYTES = 512 * 2**20
_QUIET: dict[str, Any] = {"log_to_driver": False, "logging_level": "WARNING"}
# It warns of fewer windows than workers.
_BESIDE_THE_POINT = "The minimum number of concurrent actors"
_LOGGERS = {"ray.data": logging.WARNING, "ray.data._internal.progress": logging.ERROR}


@contextmanager
def running(asked: Workers) -> Iterator[Pool]:
    """Ray, and the workers as it has room for them.

    What this process has started or joined (`ray.init`) is used and left running. Else the cluster
    at RAY_ADDRESS is joined, or a Ray of our own is started on this machine, without a dashboard
    and without usage statistics; both end with the call.

    Raises:
        InputError: There is no cluster at RAY_ADDRESS, or less room than was asked for.
    """
    with ExitStack() as stack:
        joined = True
        if not ray.is_initialized():
            joined = bool(os.environ.get(_ADDRESS))
            stack.enter_context(_joined() if joined else _started())
        stack.enter_context(_quiet())
        resources = ray.cluster_resources()
        yield settled(asked, resources, growing=joined)


@contextmanager
def _joined() -> Iterator[None]:
    try:
        ray.init(**_QUIET)
    except ConnectionError as error:
        raise InputError(
            f"no Ray cluster answers at {_ADDRESS}={os.environ[_ADDRESS]}: start one there, or "
            f"unset {_ADDRESS} to use this machine alone"
        ) from error
    try:
        yield
    finally:
        ray.shutdown()


@contextmanager
def _started() -> Iterator[None]:
    before = os.environ.get(_TELEMETRY)
    os.environ[_TELEMETRY] = "0"
    try:
        with _levels({"ray._private.authentication": logging.ERROR}):
            ray.init(
                address="local",
                include_dashboard=False,
                object_store_memory=_OBJECT_STORE_BYTES,
                **_QUIET,
            )
        yield
    finally:
        ray.shutdown()
        if before is None:
            os.environ.pop(_TELEMETRY, None)
        else:
            os.environ[_TELEMETRY] = before


@contextmanager
def _quiet() -> Iterator[None]:
    """Ray Data without bars and reports of its own, and with each window as a task of its own."""
    context = _context()
    context.enable_progress_bars = False
    context.print_on_execution_start = False
    context.target_max_block_size = 1
    with warnings.catch_warnings(), _levels(_LOGGERS), DataContext.current(context):
        warnings.filterwarnings("ignore", _BESIDE_THE_POINT)
        yield


@contextmanager
def _levels(levels: Mapping[str, int]) -> Iterator[None]:
    """Loggers at other levels for a while."""
    before = {name: logging.getLogger(name).level for name in levels}
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)
    try:
        yield
    finally:
        for name, level in before.items():
            logging.getLogger(name).setLevel(level)


def _context() -> DataContext:
    """A copy of the settings that are in force."""
    with warnings.catch_warnings():
        # Ray warns of some of its own defaults when they are first asked for.
        warnings.simplefilter("ignore", DeprecationWarning)
        return DataContext.get_current().copy()
