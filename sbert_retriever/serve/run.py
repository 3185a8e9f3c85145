"""A service as a process: uvicorn, stopped gracefully."""

from __future__ import annotations

import asyncio
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import uvicorn
from fastapi import FastAPI

from sbert_retriever.errors import InputError
from sbert_retriever.serve.app import create_app
from sbert_retriever.serve.listening import HeadTimedProtocol
from sbert_retriever.serve.logs import logging_to
from sbert_retriever.serve.service import Service
from sbert_retriever.serve.settings import ServeSettings

# The engine and the models hold Python's lock in turns; a shorter one lets answers out sooner.
_SWITCH_S = 0.001
_BACKLOG = 2048


def serve(
    service: Service,
    settings: ServeSettings | None = None,
    *,
    on_listening: Callable[[str], None] | None = None,
) -> None:
    """Answer requests until SIGINT or SIGTERM; those under way are answered first.

    Args:
        service: From `open_service`; closed at the end.
        settings: What is allowed.
        on_listening: Told the address.

    Raises:
        InputError: The address cannot be listened at.
    """
    settings = settings or ServeSettings()
    with _listener(settings) as listener, logging_to(texts=settings.log_texts), _switching():
        if on_listening is not None:
            on_listening(_address(settings, listener))
        server = _Server(_config(create_app(service, settings), settings))
        asyncio.run(server.serve(sockets=[listener]))


class _Server(uvicorn.Server):
    """One that ends when it is told to, without passing the signal on to itself."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Stop at SIGINT and SIGTERM; a second SIGINT does not wait for requests.

        Beside the main thread, which alone may ask for signals, they are left to that one.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {
            each: signal.signal(each, self.handle_exit) for each in (signal.SIGINT, signal.SIGTERM)
        }
        try:
            yield
        finally:
            for each, handler in before.items():
                signal.signal(each, handler)


def _config(app: FastAPI, settings: ServeSettings) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=HeadTimedProtocol,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=int(settings.timeout_s) + 1,
    )


@contextmanager
def _listener(settings: ServeSettings) -> Iterator[socket.socket]:
    """A socket at the address, so that a port that is taken is told of before anything else.

    Raises:
        InputError: It cannot be had.
    """
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    with listener:
        if sys.platform != "win32":
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((settings.host, settings.port))
            listener.listen(_BACKLOG)
        except (OSError, ValueError, TypeError) as error:  # the latter two: it is no host name
            reason = getattr(error, "strerror", None) or "it is no name of a host"
            raise InputError(
                f"{settings.host}:{settings.port} cannot be listened at ({reason}): give another "
                "--host or --port"
            ) from error
        yield listener


def _address(settings: ServeSettings, listener: socket.socket) -> str:
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    return f"http://{host}:{listener.getsockname()[1]}"


@contextmanager
def _switching() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(_SWITCH_S)
    try:
        yield
    finally:
        sys.setswitchinterval(before)
