"""Connections: one on which no request comes is closed."""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.h11_impl import H11Protocol


class HeadTimedProtocol(H11Protocol):
    """HTTP/1.1 as uvicorn speaks it, for clients that send the head of a request in time.

    uvicorn itself closes a connection that is silent after an answer; one that never asked, or
    sends a head byte by byte, it would keep.

    Attributes:
        head_s: Seconds for a head.
    """

    head_s = 30.0
    _closing: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a head."""
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        """Wait no more where it was the rest of a head."""
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._forget()
        super().connection_lost(exc)

    @property
    def _answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _watch(self) -> None:
        if self._answering or self.transport.is_closing():
            self._forget()
        elif self._closing is None:
            self._closing = self.loop.call_later(self.head_s, self._close)

    def _forget(self) -> None:
        if self._closing is not None:
            self._closing.cancel()
            self._closing = None

    def _close(self) -> None:
        self._closing = None
        if not self._answering:
            self.transport.close()
