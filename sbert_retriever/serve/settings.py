"""What a service allows: sizes, numbers, times, keys."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field

from sbert_retriever.errors import InputError
from sbert_retriever.serve.keys import Keys
from sbert_retriever.types.checks import whole

MOST_K, MOST_TEXT, MOST_BATCH = 1000, 20_000, 100_000
"""What requests may ask for at most, whatever the settings: it stands in the OpenAPI schema."""
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_LONGEST_PATIENCE_S = 5.0
_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://[^/?#\sA-Z]+")


@dataclass(frozen=True, kw_only=True)
class ServeSettings:
    """Limits of a service.

    Args:
        host: Where it listens.
        port: Where it listens; 0 takes a free one.
        keys: Who may ask; without any, everybody who reaches it.
        threads: Requests that are worked on at a time. Those that encode share batches.
        queue: Requests that may wait for their turn; the next ones get 429.
        timeout_s: Seconds after which a request is answered with 504.
        max_body: Bytes of a request's body.
        max_batch: Texts to embed, or documents to rerank, in a request; 100,000 at most.
        max_k: Hits of a search; 1,000 at most.
        max_text: Characters of a question; 20,000 at most.
        origins: Web pages of other origins that may ask, such as "https://example.org"; "*" is
            all of them. Without any, browsers keep other pages out (CORS).
        log_texts: Whether questions stand in the log.

    Raises:
        InputError: A value is out of range, or an origin is none.
        InputTypeError: A number is none.
    """

    host: str = "127.0.0.1"
    port: int = 8080
    keys: Keys = field(default_factory=Keys)
    threads: int = 16
    queue: int = 64
    timeout_s: float = 30.0
    max_body: int = 8 * 2**20
    max_batch: int = 2048
    max_k: int = MOST_K
    max_text: int = MOST_TEXT
    origins: tuple[str, ...] = ()
    log_texts: bool = False

    def __post_init__(self) -> None:
        for name in ("threads", "max_body", "max_batch", "max_k", "max_text"):
            whole(name, getattr(self, name), least=1)
        bounds = (("max_batch", MOST_BATCH), ("max_k", MOST_K), ("max_text", MOST_TEXT))
        for name, most in bounds:
            if getattr(self, name) > most:
                raise InputError(f"{name} is {getattr(self, name):,}, expected {most:,} at most")
        whole("queue", self.queue, least=0)
        if not 0 <= whole("port", self.port, least=0) < 65536:
            raise InputError(f"port is {self.port}, expected 0 to 65535")
        if not 0 < self.timeout_s < math.inf:
            raise InputError(f"timeout_s is {self.timeout_s}, expected seconds above 0")
        for origin in self.origins:
            if origin != "*" and not _ORIGIN.fullmatch(origin):
                raise InputError(
                    f"the origin {origin!r} is as no browser sends it: give a scheme and a host in "
                    "small letters, such as https://example.org, without a path or a last slash"
                )
        if not self.host.strip():
            raise InputError("host is empty: give 127.0.0.1, or an address of this machine")

    @property
    def loopback(self) -> bool:
        """Whether only this machine can reach it."""
        return self.host in _LOOPBACK

    @property
    def patience_s(self) -> float:
        """Seconds for which a Qdrant server that does not answer is asked again.

        A request may ask it more than once, and should tell of it before its own time is over.
        """
        return min(_LONGEST_PATIENCE_S, self.timeout_s / 3)

    @property
    def open_to_all(self) -> bool:
        """Whether other machines can reach it and no key is wanted."""
        return not self.loopback and not self.keys
