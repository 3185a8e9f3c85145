"""A location, or a client, made into a connection: which engine answers, and how it is called."""

from __future__ import annotations

import asyncio
import os
import re
from asyncio import AbstractEventLoop
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from qdrant_client import AsyncQdrantClient, QdrantClient

from sbert_retriever.errors import InputError, InputTypeError, StoreError
from sbert_retriever.index.embedded import EmbeddedClient
from sbert_retriever.index.steps import Call, RetryPolicy, Steps, arun, run
from sbert_retriever.types.checks import seconds, whole

T = TypeVar("T")

MEMORY = ":memory:"
_SCHEMES = ("http://", "https://")
# A URL without its scheme, and one that went through `Path`, which makes one slash of two.
_LIKE_A_SERVER = re.compile(r"[\w.-]+:\d{1,5}|https?:/.*", re.IGNORECASE | re.DOTALL)
_LAST_PORT = 65_535
_FIRST_DEADLINE_S = 3.0


@dataclass
class Connection:
    """One engine, called synchronously or from an event loop.

    Args:
        client: An EmbeddedClient or any QdrantClient.
        engine: "embedded", "local" (qdrant-client's own local mode) or "server".
        location: As a person would name it.
        owned: Whether `close` closes the client.
        async_client: The asynchronous twin, or None.
        make_async: Makes the twin when first needed, one for each event loop: the connections
            that it keeps open belong to the loop they were opened in.
        retry: When to try a failed call again.
    """

    client: Any
    engine: str
    location: str
    owned: bool
    async_client: Any = None
    make_async: Callable[[], Any] | None = None
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    _twins: dict[AbstractEventLoop, Any] = field(default_factory=dict)

    @property
    def embedded(self) -> bool:
        """Whether the engine runs in this process, on a folder."""
        return self.engine == "embedded"

    @property
    def has_payload_indexes(self) -> bool:
        """Whether payload indexes have an effect."""
        return self.engine != "local"

    def run(self, steps: Steps[T]) -> T:
        """Drive an operation from a thread."""
        return run(steps, self.client, self.retry)

    def perform(self, step: Call) -> Any:
        """Drive an operation that is one call of the client."""
        return self.run(_alone(step))

    def run_first(self, steps: Steps[T]) -> T:
        """`run`, with little patience: a mistyped address should be told of at once."""
        patience = min(self.retry.deadline_s, _FIRST_DEADLINE_S)
        return run(steps, self.client, replace(self.retry, deadline_s=patience))

    async def arun(self, steps: Steps[T]) -> T:
        """Drive an operation from an event loop, without blocking it."""
        twin = self._twin()
        if twin is None:
            return await arun(steps, self.client, self.retry, native=False)
        return await arun(steps, twin, self.retry, native=True)

    def _twin(self) -> Any:
        """The asynchronous client for the running event loop, or None."""
        if self.make_async is None:
            return self.async_client
        loop = asyncio.get_running_loop()
        twin = self._twins.get(loop)
        if twin is None:
            # Loops of other threads put theirs into the same dict meanwhile: it is never replaced.
            for ended in [known for known in list(self._twins) if known.is_closed()]:
                self._twins.pop(ended, None)
            twin = self._twins[loop] = self.make_async()
        return twin

    def close(self) -> None:
        """Close what this connection opened; a client that was handed in stays open."""
        if self.owned:
            self.client.close()

    async def aclose(self) -> None:
        """`close` for an event loop, with the asynchronous client that was made for it."""
        twin = self._twins.pop(asyncio.get_running_loop(), None)
        if twin is not None:
            await twin.close()
        # An embedded engine writes to the disk now, and waits for an index that is being built.
        await asyncio.to_thread(self.close)


def _alone(step: Call) -> Steps[Any]:
    return (yield step)


def connect(
    location: str | PathLike[str] | None,
    *,
    client: QdrantClient | None = None,
    async_client: AsyncQdrantClient | None = None,
    api_key: str | None = None,
    timeout_s: int | None = None,
    prefer_grpc: bool = False,
    grpc_port: int | None = None,
    retry: RetryPolicy | None = None,
) -> Connection:
    """Open a folder, ":memory:" or a URL, or take a client as it is.

    Args:
        location: A folder, ":memory:", or a URL (http:// or https://); None with `client`.
        client: Used instead of a location, and never closed here.
        async_client: Its asynchronous twin.
        api_key: For a URL; None reads QDRANT_API_KEY, "" is none.
        timeout_s: Seconds a request may take, for a URL.
        prefer_grpc: For a URL.
        grpc_port: Where the server at a URL speaks gRPC; None is Qdrant's own port, 6334.
        retry: When to try a failed call again.

    Raises:
        InputError: Both or neither of location and client, a location of no known form, or an
            asynchronous client for a folder, a port that is none or that nothing is sent to, or
            seconds that are none.
        InputTypeError: One of them has the wrong type.
    """
    policy = retry or RetryPolicy()
    if async_client is not None and not isinstance(async_client, AsyncQdrantClient):
        raise InputTypeError(
            f"async_client is {type(async_client).__name__}, expected an AsyncQdrantClient"
        )
    port = _checked_port(grpc_port, prefer_grpc)
    if timeout_s is not None:
        seconds("timeout_s", timeout_s)
    if (location is None) == (client is None):
        raise InputError("give either a location (a folder, ':memory:' or a URL) or client=")
    if client is not None:
        return _of_client(client, async_client, policy)
    if not isinstance(location, str | PathLike):
        raise InputTypeError(
            f"location is {type(location).__name__}, expected a folder, ':memory:' or a URL"
        )
    text = os.fspath(location)
    if text.startswith(_SCHEMES):
        _check_host(text)
        settings = {"timeout": timeout_s, "prefer_grpc": prefer_grpc, **port}
        return _of_url(text, api_key, settings, async_client, policy)
    if "://" in text or not text.strip():
        raise InputError(
            f"location {text!r} is not a folder, ':memory:' or a URL that begins with http:// or "
            "https://"
        )
    if _LIKE_A_SERVER.fullmatch(text) and not Path(text).exists():
        raise InputError(
            f"location {text!r} reads like a server's and not like a folder's: write "
            f"http://HOST:PORT, or ./{text} for a folder"
        )
    if async_client is not None:
        raise InputError(
            f"async_client was given for the folder {text!r}, where no server answers: leave it out"
        )
    folder = None if text == MEMORY else Path(text)
    return Connection(EmbeddedClient(folder), "embedded", text, owned=True, retry=policy)


def _checked_port(grpc_port: int | None, prefer_grpc: bool) -> dict[str, int]:
    """The client's argument for the port, where one is given."""
    if grpc_port is None:
        return {}
    port = whole("grpc_port", grpc_port, least=1)
    if port > _LAST_PORT:
        raise InputError(f"grpc_port is {port}, expected 1 to {_LAST_PORT}")
    if not prefer_grpc:
        raise InputError(
            f"grpc_port is {port}, and nothing is sent there without prefer_grpc=True: give both, "
            "or neither"
        )
    return {"grpc_port": port}


def _check_host(url: str) -> None:
    try:
        host = urlsplit(url).hostname
    except ValueError as error:
        raise InputError(f"location {url!r} is no URL: {error}") from error
    if not host:
        raise InputError(f"location {url!r} names no server: write http://HOST:6333")


def _of_client(client: Any, async_client: Any, policy: RetryPolicy) -> Connection:
    if isinstance(client, EmbeddedClient):
        return Connection(client, "embedded", str(client.folder), owned=False, retry=policy)
    if not isinstance(client, QdrantClient):
        raise InputTypeError(f"client is {type(client).__name__}, expected a QdrantClient")
    local = type(client._client).__name__ == "QdrantLocal"
    location = "client" if local else str(getattr(client._client, "rest_uri", "client"))
    return Connection(
        client,
        "local" if local else "server",
        location,
        owned=False,
        async_client=async_client,
        retry=policy,
    )


def _of_url(
    url: str,
    api_key: str | None,
    given: dict[str, Any],
    async_client: Any,
    policy: RetryPolicy,
) -> Connection:
    settings: dict[str, Any] = {
        **given,
        "url": url,
        "api_key": (os.environ.get("QDRANT_API_KEY") if api_key is None else api_key) or None,
        # The version check is one more request, made before there is anybody to hear of it.
        "check_compatibility": False,
    }
    try:
        client = QdrantClient(**settings)
    except ValueError as error:
        raise StoreError(f"{url!r} cannot be used: {error}") from error

    def make_async() -> AsyncQdrantClient:
        return AsyncQdrantClient(**settings)

    return Connection(
        client,
        "server",
        url,
        owned=True,
        async_client=async_client,
        make_async=None if async_client is not None else make_async,
        retry=policy,
    )
