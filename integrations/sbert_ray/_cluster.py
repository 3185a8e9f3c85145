"""Ray for the length of one call: what runs already, or one of our own."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import ray
from ray.data import DataContext

from sbert_ray.workers import Pool, Workers, settled
from sbert_retriever.errors import InputError

_ADDRESS = "RAY_ADDRESS"
# Nothing is sent to anybody, and Ray's ports, which listen on every interface, want a token.
_PRIVATE = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "token"}
# Only texts and counts pass through it; vectors never do.
_OBJECT_STORE_BYTES = 512 * 2**20
_QUIET: dict[str, Any] = {"log_to_driver": False, "logging_level": "WARNING"}
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
        yield settled(asked, ray.cluster_resources(), growing=joined)


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
    before = {name: os.environ.get(name) for name in _PRIVATE}
    os.environ.update(_PRIVATE)
    try:
        ray.init(
            address="local",
            include_dashboard=False,
            object_store_memory=_OBJECT_STORE_BYTES,
            **_QUIET,
        )
        yield
    finally:
        ray.shutdown()
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextmanager
def _quiet() -> Iterator[None]:
    """Ray Data without bars and reports of its own, and with each window as a task of its own."""
    with warnings.catch_warnings():
        # It warns of a setting of its own.
        warnings.simplefilter("ignore", DeprecationWarning)
        context = DataContext.get_current().copy()
    context.enable_progress_bars = False
    context.print_on_execution_start = False
    context.target_max_block_size = 1
    with DataContext.current(context), ExitStack() as stack:
        for name, level in _LOGGERS.items():
            logger = logging.getLogger(name)
            stack.callback(logger.setLevel, logger.level)
            logger.setLevel(level)
        yield
