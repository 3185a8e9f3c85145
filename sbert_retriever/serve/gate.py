"""What each request passes first: who asks, from where, how much; and what is noted of it."""

from __future__ import annotations

import asyncio
import json
import secrets
from time import perf_counter
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from sbert_retriever.serve.logs import LOGGER, log
from sbert_retriever.serve.metrics import Metrics
from sbert_retriever.serve.settings import ServeSettings

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

# Pages ask for these before anybody can type a key, and machines that watch the service have none.
OPEN_PATHS = frozenset({"/", "/healthz", "/readyz", "/openapi.json"})
OPEN_PREFIX = "/static/"
NOTED = "sbert_retriever_noted"
"""In the scope: what is to stand in the request's line of the log."""
_BODIES_AT_ONCE = 16
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_WITH_BODY = frozenset({"POST", "PUT", "PATCH"})
_LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
_CLOSED_PAGE = (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'")


class Refusal(Exception):  # noqa: N818  # a verdict, not a fault of ours
    """A request that goes no further.

    Args:
        status: Of the answer.
        message: What was found and what to do.
        headers: Of the answer, beside those of all.
    """

    def __init__(self, status: int, message: str, *headers: tuple[bytes, bytes]) -> None:
        super().__init__(message)
        self.status, self.message, self.headers = status, message, headers


def error_body(status: int, message: str) -> bytes:
    """An error as OpenAI's clients read it, and as everything here answers it."""
    kind = "invalid_request_error" if status < 500 else "server_error"
    error = {"message": message, "type": kind, "param": None, "code": str(status)}
    return json.dumps({"error": error}).encode()


class Gate:
    """Checks key, host, type and size of a request before the application sees it.

    The body is read here, whole and in bounds, so that the application cannot be made to wait.

    Args:
        app: The application.
        settings: What is allowed.
        metrics: What is counted.
    """

    def __init__(self, app: ASGIApp, *, settings: ServeSettings, metrics: Metrics) -> None:
        self._app, self._settings, self._metrics = app, settings, metrics
        self._held_bytes = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or hand it on."""
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        elif scope["type"] != "http":
            await self._app(scope, receive, send)
        else:
            await self._http(scope, receive, send)

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        started, answer = perf_counter(), _Answer(send)
        scope[NOTED] = {}
        size = 0
        try:
            self._check(scope)
            body = await self._body(scope, receive)
            size = len(body)
            await self._app(scope, _replayed(body, receive), answer)
        except Refusal as refusal:
            await _refuse(answer, refusal)
        except Exception as error:
            LOGGER.error("fault", exc_info=error, extra={"fields": {"id": answer.id}})
            if not answer.started:
                await _refuse(answer, Refusal(500, "a fault of the service: its log says where"))
        finally:
            self._held_bytes -= size
            self._note(scope, answer, perf_counter() - started)

    def _check(self, scope: Scope) -> None:
        headers = _headers(scope)
        self._check_host(headers)
        path, method = scope["path"], scope["method"]
        is_open = path in OPEN_PATHS or path.startswith(OPEN_PREFIX)
        if method == "OPTIONS":
            return
        if not self._settings.keys:
            if not is_open:
                self._check_site(headers)
            return
        if is_open and method not in _WITH_BODY:  # whose body would be read
            return
        if not self._settings.keys.accept(_key(headers)):
            raise Refusal(
                401,
                "the API key is missing or wrong: send Authorization: Bearer KEY",
                (b"www-authenticate", b"Bearer"),
            )

    def _check_host(self, headers: dict[str, str]) -> None:
        """Keep out pages whose own name was made to lead to this machine (DNS rebinding)."""
        if self._settings.keys or not self._settings.loopback:
            return
        if _host_name(headers.get("host", "")) not in _LOCAL_NAMES:
            raise Refusal(
                403, "this service answers to localhost alone: set API keys to give it other names"
            )

    def _check_site(self, headers: dict[str, str]) -> None:
        """Keep out other pages: a picture's address would be enough to set work off."""
        allowed = self._settings.origins
        if headers.get("sec-fetch-site") != "cross-site" or "*" in allowed:
            return
        if headers.get("origin") not in allowed:
            raise Refusal(
                403,
                "another web page sent this: let it in with --allow-origin, or set API keys",
            )

    async def _body(self, scope: Scope, receive: Receive) -> bytes:
        """The body, which counts among the bytes that are held from now on.

        Methods that have none by their meaning are answered as if they had none.
        """
        headers = _headers(scope)
        length = headers.get("content-length")
        if length is not None and (not length.isdecimal() or len(length) > 18):
            raise Refusal(400, "Content-Length is no number")
        if scope["method"] not in _WITH_BODY:
            return b""
        if "transfer-encoding" not in headers and int(length or 0) == 0:
            return b""
        self._check_size(int(length or 0))
        self._check_type(headers)
        try:
            async with asyncio.timeout(self._settings.timeout_s):
                return await self._received(receive)
        except TimeoutError:
            raise Refusal(
                408, "the body took too long to arrive", (b"connection", b"close")
            ) from None

    async def _received(self, receive: Receive) -> bytes:
        """A body, counted while it arrives: senders that stop half-way hold memory, too."""
        parts: list[bytes] = []
        size = 0
        try:
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise Refusal(400, "the body ended early", (b"connection", b"close"))
                part = message.get("body", b"")
                parts.append(part)
                size += len(part)
                self._held_bytes += len(part)
                self._check_size(size, counted=size)
                if not message.get("more_body", False):
                    return b"".join(parts)
        except BaseException:
            self._held_bytes -= size
            raise

    def _check_size(self, size: int, *, counted: int = 0) -> None:
        """Refuse a body of so many bytes, of which some are counted among those held."""
        most = self._settings.max_body
        if size > most:
            raise Refusal(
                413,
                f"the body is larger than {most:,} bytes: send less at a time",
                (b"connection", b"close"),
            )
        if self._held_bytes - counted + size > most * _BODIES_AT_ONCE:
            raise Refusal(429, "too many large bodies at once", (b"retry-after", b"1"))

    @staticmethod
    def _check_type(headers: dict[str, str]) -> None:
        # Other types go out from any page without the browser asking us first.
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json" and not kind.endswith("+json"):
            raise Refusal(
                415,
                "the body is no JSON: send Content-Type: application/json",
                (b"accept", b"application/json"),
            )

    def _note(self, scope: Scope, answer: _Answer, seconds: float) -> None:
        noted = scope[NOTED]
        route = noted.pop("route", "other")
        method = scope["method"] if scope["method"] in _METHODS else "other"
        self._metrics.request(route, method, answer.status, seconds)
        log(
            "request",
            id=answer.id,
            method=method,
            route=route,
            status=answer.status,
            ms=round(seconds * 1e3, 1),
            **noted,
        )


class _Answer:
    """Sends an answer, with headers of our own, and remembers its status."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.id = secrets.token_hex(8)
        self.status = 499  # the client left before there was one
        self.started = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status, self.started = message["status"], True
            headers = list(message.get("headers", []))
            names = {name.lower() for name, _ in headers}
            own = [*_HEADERS, _CLOSED_PAGE, (b"cache-control", b"no-store")]
            headers += [pair for pair in own if pair[0] not in names]
            headers.append((b"x-request-id", self.id.encode()))
            message = {**message, "headers": headers}
        await self._send(message)


async def _refuse(send: Send, refusal: Refusal) -> None:
    body = error_body(refusal.status, refusal.message)
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        *refusal.headers,
    ]
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _replayed(body: bytes, receive: Receive) -> Receive:
    """Hands out a body that was read already, and then whatever comes."""
    sent = False

    async def replay() -> Message:
        nonlocal sent
        if sent:
            return await receive()
        sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay


def _headers(scope: Scope) -> dict[str, str]:
    pairs = scope["headers"]
    return {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in pairs}


def _key(headers: dict[str, str]) -> str | None:
    scheme, _, key = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return key.strip()
    return headers.get("x-api-key")


def _host_name(host: str) -> str | None:
    try:
        return urlsplit(f"//{host}").hostname
    except ValueError:
        return None
