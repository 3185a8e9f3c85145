"""From a request to an answer: in a thread, within the limits, counted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from time import monotonic
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute
from pydantic_core import from_json, to_json

from sbert_retriever.errors import InputError
from sbert_retriever.serve.gate import NOTED
from sbert_retriever.serve.metrics import Metrics
from sbert_retriever.serve.service import Service
from sbert_retriever.serve.settings import ServeSettings
from sbert_retriever.serve.workers import Workers


class StrictRequest(Request):
    """A request whose JSON is UTF-8 without NaN, lone surrogates or bottomless nesting."""

    async def json(self) -> Any:
        """The body.

        Raises:
            ValueError: It is no such JSON.
        """
        if not hasattr(self, "_json"):
            self._json = from_json(await self.body(), allow_inf_nan=False)
        return self._json


class StrictRoute(APIRoute):
    """Reads its JSON strictly, and says which route it is."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """What answers a request."""
        handler = super().get_route_handler()

        async def strict(request: Request) -> Response:
            request.scope[NOTED]["route"] = self.path
            return await handler(StrictRequest(request.scope, request.receive))

        return strict


class Calls:
    """What the routes share.

    Args:
        service: Does the work.
        settings: What is allowed.
        workers: Where it is done.
        metrics: What is counted.
    """

    def __init__(
        self, service: Service, settings: ServeSettings, workers: Workers, metrics: Metrics
    ) -> None:
        self.service, self.settings = service, settings
        self.workers, self.metrics = workers, metrics

    async def answer(
        self,
        function: Callable[[float], Mapping[str, Any]],
        *,
        status: int = 200,
        turn: asyncio.Lock | None = None,
    ) -> Response:
        """What a function gives, as JSON.

        Args:
            function: Called in a thread with the milliseconds that the request waited for it.
            status: Of the answer.
            turn: As for `Workers.run`.
        """

        def work(asked: float) -> bytes:
            return to_json(function((monotonic() - asked) * 1e3), inf_nan_mode="null")

        body = await self.workers.run(work, turn=turn)
        return Response(body, status_code=status, media_type="application/json")

    def note(self, request: Request, *, texts: Mapping[str, Any], **fields: Any) -> None:
        """Add fields to the request's line in the log; texts only where they are asked for."""
        noted = request.scope[NOTED]
        noted |= fields
        if self.settings.log_texts:
            noted |= texts

    def check_text(self, name: str, text: str, *, questions: int = 1) -> None:
        """Refuse a text that is too long.

        Args:
            name: What it is in the request.
            text: The text.
            questions: How many questions it may hold, with a space between them.

        Raises:
            InputError: It is.
        """
        most = self.settings.max_text * questions + questions - 1
        if len(text) > most:
            raise InputError(f"{name} has {len(text):,} characters, expected {most:,} at most")

    def check_k(self, k: int, *, group_size: int = 1) -> None:
        """Refuse to find too many hits.

        Args:
            k: How many hits, or groups of them.
            group_size: Hits of a group.

        Raises:
            InputError: There are.
        """
        hits, most = k * group_size, self.settings.max_k
        if hits > most:
            named = "k" if group_size == 1 else "k times group_size"
            raise InputError(f"{named} is {hits:,}, expected {most:,} at most")

    def check_count(self, name: str, count: int) -> None:
        """Refuse too many texts at once.

        Raises:
            InputError: There are.
        """
        if count > self.settings.max_batch:
            raise InputError(
                f"{name} has {count:,} texts, expected {self.settings.max_batch:,} at most: send "
                "them in several requests"
            )

    def close(self) -> None:
        """Let what is under way end, then close the collection."""
        self.workers.close()
        self.service.close()
