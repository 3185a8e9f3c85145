"""What an engine's or a client's exception means: passing or final, and in which words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from json import JSONDecodeError
from uuid import UUID

import grpc
import httpx
from qdrant_client.common.client_exceptions import QdrantException, ResourceExhaustedResponse
from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

# 408, 425 and 429 ask for another try; of the 5xx, those that a proxy or a starting node gives.
_PASSING_STATUS = frozenset({408, 425, 429, 500, 502, 503, 504})
_PASSING_CODES = frozenset(
    {
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        grpc.StatusCode.ABORTED,
    }
)
_KEY_HINT = " (check api_key or QDRANT_API_KEY)"
_NO_POINT = "No point with id"
"""How the engine, wherever it runs, begins what it says of a point that is not there."""
_UNTRUSTED = "CERTIFICATE_VERIFY_FAILED"
_TRUST_HINT = (
    " (for an authority of your own, name its file in SSL_CERT_FILE, and for gRPC in "
    "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH)"
)
# What a server in strict mode says of a filter on a field that has none.
_INDEX_HINT = (
    " (have the field indexed: Retriever.make_filterable({field: kind}) or `sbert-retriever index "
    "PATH --to LOCATION --filterable FIELD=KIND`; for a new collection, filterable={field: kind})"
)


@dataclass(frozen=True)
class Fault:
    """An exception, read.

    Args:
        transient: Whether the same call may succeed later.
        sentence: What happened; empty where the exception is not an engine's or a client's.
        retry_after_s: Seconds the server asked us to wait, if it did.
        access: Whether any other call would fare alike: the key, certificate or address is wrong.
    """

    transient: bool
    sentence: str
    retry_after_s: float | None = None
    access: bool = False


def classify(error: BaseException) -> Fault:
    """Read an exception of qdrant_client, gRPC or httpx."""
    if isinstance(error, ResourceExhaustedResponse):
        return Fault(True, f"the server is over its limit: {error}", float(error.retry_after_s))
    if isinstance(error, UnexpectedResponse):
        return _of_status(error)
    if isinstance(error, ResponseHandlingException):
        return _of_source(error.source)
    if isinstance(error, grpc.RpcError):
        return _of_rpc(error)
    if isinstance(error, httpx.TransportError):
        return _of_source(error)
    if isinstance(error, JSONDecodeError | UnicodeDecodeError | AssertionError):
        # What the client says of an answer that is a page, or JSON of another kind.
        said = f"what answered is no Qdrant server ({error}): check the address"[:500]
        return Fault(False, said, access=True)
    if isinstance(error, QdrantException):
        # The client gives this for a Retry-After that is a date; the limit itself is passing.
        return Fault("Retry-After" in str(error), f"the server answered oddly: {error}")
    if isinstance(error, KeyError) and _is_point_id(error.args):
        # What the client's local mode says of a point that is not there.
        return Fault(False, f"{_NO_POINT} {error.args[0]}")
    return Fault(transient=False, sentence="")


def _is_point_id(args: Sequence[object]) -> bool:
    """Whether an exception has the id of a point to say, and no more."""
    if len(args) != 1 or isinstance(args[0], int):
        return len(args) == 1
    try:
        UUID(str(args[0]))
    except ValueError:
        return False
    return True


def says_missing(error: BaseException) -> bool:
    """Whether it says that there is no such collection."""
    if isinstance(error, UnexpectedResponse):
        body = error.content.decode("utf-8", "replace")
        return error.status_code == httpx.codes.NOT_FOUND and _NO_POINT not in body
    if isinstance(error, grpc.RpcError):
        if not hasattr(error, "code") or error.code() != grpc.StatusCode.NOT_FOUND:
            return False
        return _NO_POINT not in str(error.details() if hasattr(error, "details") else "")
    # The client's local mode.
    return isinstance(error, ValueError) and "not found" in str(error)


def says_no_point(error: BaseException) -> bool:
    """Whether it says that a point to be changed is not there."""
    return _NO_POINT in str(error)


def _of_status(error: UnexpectedResponse) -> Fault:
    status = error.status_code or 0
    body = error.content.decode("utf-8", "replace").strip()[:500]
    sentence = f"the server answered {status} {error.reason_phrase}: {body}"
    if status in (401, 403):
        return Fault(False, sentence + _KEY_HINT, access=True)
    return Fault(status in _PASSING_STATUS, sentence + _index_hint(body))


def _of_source(source: object) -> Fault:
    if isinstance(source, httpx.TimeoutException):
        return Fault(True, "the server did not answer in time")
    if _UNTRUSTED in str(source):
        return _untrusted(source)
    if isinstance(source, httpx.TransportError):
        return Fault(True, f"the server cannot be reached: {source or type(source).__name__}")
    return Fault(False, f"the server's answer cannot be read: {source}"[:500])


def _of_rpc(error: grpc.RpcError) -> Fault:
    code = error.code() if hasattr(error, "code") else None
    details = error.details() if hasattr(error, "details") else str(error)
    name = code.name if code is not None else "error"
    sentence = f"the server answered {name}: {details}"[:500]
    if _UNTRUSTED in str(details):
        return _untrusted(details)
    if code in (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED):
        return Fault(False, sentence + _KEY_HINT, access=True)
    return Fault(code in _PASSING_CODES, sentence + _index_hint(details or ""))


def _untrusted(said: object) -> Fault:
    sentence = f"the server's certificate is not trusted: {said}{_TRUST_HINT}"
    return Fault(False, sentence, access=True)


def _index_hint(said: str) -> str:
    return _INDEX_HINT if "Index required" in said else ""
