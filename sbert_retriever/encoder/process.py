"""What a forked child may still use.

A fork copies the process without its threads: a thread pool that was running in the parent does
not answer in the child, and waiting for it never ends. So a child works in one thread.
"""

from __future__ import annotations

import os
import threading

import torch

from sbert_retriever.errors import ModelError

_HOME = os.getpid()


class _Settled(threading.local):
    """In which process a thread was told to work alone: each has its own number of threads."""

    process = _HOME


_settled = _Settled()


def in_forked_child() -> bool:
    """Whether this process is a fork of the one that imported the encoder."""
    return os.getpid() != _HOME


def settle(device: torch.device) -> None:
    """Make torch usable in this thread of this process, once.

    Raises:
        ModelError: The process is a forked child and the device is a GPU.
    """
    if os.getpid() == _settled.process:
        return
    if device.type != "cpu":
        raise ModelError(
            f"this process was forked, and {device.type} cannot be used after a fork: start it "
            "with the multiprocessing method 'spawn', or load with device='cpu'"
        )
    torch.set_num_threads(1)
    _settled.process = os.getpid()
