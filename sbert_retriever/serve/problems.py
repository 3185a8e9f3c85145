"""Errors as answers: one shape, one place, and never what a user wrote in a log."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from sbert_retriever.errors import (
    CollectionNotFoundError,
    GivenUpError,
    InputError,
    InputTypeError,
    SbertError,
    StoreAccessError,
    StoreError,
    StoreRequestError,
    TextTooLongError,
)
from sbert_retriever.serve.gate import NOTED, error_body
from sbert_retriever.serve.logs import LOGGER
from sbert_retriever.serve.reasons import reason
from sbert_retriever.serve.schemas import ErrorAnswer
from sbert_retriever.serve.workers import BusyError, OverdueError

_STATUS: dict[type[Exception], int] = {  # the first that fits
    CollectionNotFoundError: 404,
    StoreAccessError: 503,  # the key is the service's, and no fault of who asks
    StoreRequestError: 400,
    StoreError: 503,
    TextTooLongError: 400,
    GivenUpError: 503,
    InputError: 400,
    InputTypeError: 400,
    SbertError: 500,
}
_MEANINGS = {
    400: "The request cannot be answered as it is; the message says why.",
    401: "The API key is missing or wrong.",
    403: "The service does not answer to this host name.",
    404: "There is no such thing here.",
    405: "The path has no such method.",
    408: "The body took too long to arrive.",
    409: "There is one already.",
    413: "The body is too large.",
    415: "The body is no JSON.",
    422: "A field is missing, unknown, or has the wrong type or size.",
    429: "The service is busy: come back after Retry-After seconds.",
    500: "A fault of the service.",
    503: "The service cannot answer now.",
    504: "It took too long.",
}
_OF_ALL = (400, 401, 403, 413, 429, 500, 503, 504)
_OF_BODIES = (408, 415, 422)


def responses(*more: int, body: bool = True) -> dict[int | str, dict[str, Any]]:
    """The errors of a route, for OpenAPI."""
    statuses = sorted({*_OF_ALL, *more, *(_OF_BODIES if body else (422,))})
    found: dict[int | str, dict[str, Any]] = {
        status: {"model": ErrorAnswer, "description": _MEANINGS[status]} for status in statuses
    }
    seconds = {"description": "Seconds to wait.", "schema": {"type": "integer"}}
    found[429]["headers"] = {"Retry-After": seconds}
    return found


def answer_errors(app: FastAPI) -> None:
    """Have an application answer errors in our shape."""
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(BusyError, _busy)
    app.add_exception_handler(OverdueError, _overdue)
    app.add_exception_handler(SbertError, _ours)


def problem(status: int, message: str, headers: dict[str, str] | None = None) -> Response:
    """An error."""
    return Response(
        error_body(status, message),
        status_code=status,
        media_type="application/json",
        headers=headers,
    )


async def _invalid(_: Request, error: Exception) -> Response:
    """Which field is wrong, and why, without what was written there."""
    found = error.errors() if isinstance(error, RequestValidationError) else ()
    first = next(iter(found), {"loc": (), "msg": "it cannot be read"})
    # A field of several types has an error of each, of which this one says what to do.
    first = next((each for each in found if each["type"] == "too_long"), first)
    place = ".".join(str(part) for part in first["loc"][1:] if isinstance(part, str | int))
    return problem(422, f"{_clean(place) or 'the body'}: {first['msg']}")


async def _http(_: Request, error: Exception) -> Response:
    status = getattr(error, "status_code", 500)
    if status == 400:
        return problem(400, "the body is no JSON: expected UTF-8, without NaN, nested in bounds")
    message = {404: "there is nothing at this path: see /openapi.json"}.get(status)
    headers = getattr(error, "headers", None)
    return problem(status, message or str(getattr(error, "detail", "refused")), headers)


async def _busy(_: Request, error: Exception) -> Response:
    seconds = getattr(error, "retry_after_s", 1)
    return problem(429, str(error), {"retry-after": str(seconds)})


async def _overdue(_: Request, __: Exception) -> Response:
    return problem(504, "it took too long: ask for less, or give it more time (--timeout-s)")


async def _ours(request: Request, error: Exception) -> Response:
    """What the caller did wrong, in full; what the service did wrong, by its kind."""
    status = next(status for kind, status in _STATUS.items() if isinstance(error, kind))
    if status < 500:
        return problem(status, _clean(str(error)))
    kind = type(error).__name__
    request.scope.get(NOTED, {})["error"] = kind
    LOGGER.error("fault", exc_info=error, extra={"fields": {"status": status}})
    return problem(status, reason(error), {"retry-after": "5"} if status == 503 else None)


def _clean(text: str) -> str:
    """A text that any JSON can carry."""
    return text.encode("utf-8", "replace").decode("utf-8")[:2000]
