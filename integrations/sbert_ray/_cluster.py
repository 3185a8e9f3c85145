"""Ray for the length of one call: what runs already, or one of our own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
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


@contextmanager
def running(asked: Workers) -> Iterator[Pool]:
    """Ray, and the workers as it has room for them.

    What this process has started or joined (`ray.init`) is used and left running. Else the cluster
    at RAY_ADDRESS is joined, or a local Ray is started on this machine alone, without a dashboard
    and without usage statistics; both end with the call.

    Raises:
        InputError: There is no cluster at RAY_ADDRESS, or less room than was asked for.
    """
    ours = not ray.is_initialized()
    joined = not ours or bool(os.environ.get(_ADDRESS))
    if ours:
        _join() if joined else _start()
    try:
        with _quiet_data():
            yield settled(asked, ray.cluster_resources(), growing=joined)
    finally:
        if ours:
            ray.shutdown()


def _join() -> None:
    try:
        ray.init(**_QUIET)
    except ConnectionError as error:
        raise InputError(
            f"no Ray cluster answers at {_ADDRESS}={os.environ[_ADDRESS]}: start one there, or "
            f"unset {_ADDRESS} to use this machine alone"
        ) from error


def _start() -> None:
    before = os.environ.get(_TELEMETRY)
    os.environ[_TELEMETRY] = "0"
    try:
        ray.init(
            address="local",
            include_dashboard=False,
            object_store_memory=_OBJECT_STORE_BYTES,
            _node_ip_address="127.0.0.1",
            **_QUIET,
        )
    finally:
        if before is None:
            os.environ.pop(_TELEMETRY, None)
        else:
            os.environ[_TELEMETRY] = before


@contextmanager
def _quiet_data() -> Iterator[None]:
    """Ray Data without bars of its own, and with each window as a task of its own."""
    context = DataContext.get_current().copy()
    context.enable_progress_bars = False
    context.print_on_execution_start = False
    context.target_max_block_size = 1
    with DataContext.current(context):
        yield
