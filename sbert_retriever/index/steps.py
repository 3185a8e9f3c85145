"""One implementation of each operation, for threads and for event loops alike.

An operation is a generator that yields what it wants done (a `Call` of the Qdrant client, or
`Work` on the processor) and is sent the result. `run` drives it with a synchronous client,
`arun` with an asynchronous one, where `Work` and a synchronous client's calls go to a thread.
Retries and the mapping of foreign errors live here, so no operation knows of either.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, TypeVar

import tenacity

from sbert_retriever.errors import (
    CollectionNotFoundError,
    ModelError,
    SbertError,
    StoreAccessError,
    StoreRequestError,
    StoreUnavailableError,
)
from sbert_retriever.index.faults import Fault, classify, says_missing

T = TypeVar("T")


@dataclass(frozen=True)
class Call:
    """A call of the Qdrant client: a method's name and its keyword arguments.

    Args:
        method: The client's.
        kwargs: Its arguments.
        deadline_s: Seconds after which it is not tried again; None is the policy's.
        gone: What to say where the collection that was found before is not there; None is what
            the engine says.
    """

    method: str
    kwargs: dict[str, Any]
    deadline_s: float | None = None
    gone: str | None = None


@dataclass(frozen=True)
class Work:
    """A function that keeps the processor busy, with its arguments."""

    function: Callable[..., Any]
    args: tuple[Any, ...] = ()


Steps: TypeAlias = Generator[Call | Work, Any, T]


def call(method: str, **kwargs: Any) -> Call:
    """A `Call`, written as one would write the call itself."""
    return Call(method, kwargs)


def work(function: Callable[..., Any], *args: Any) -> Work:
    """A `Work`, written as one would write the call itself."""
    return Work(function, args)


@dataclass(frozen=True, kw_only=True)
class RetryPolicy:
    """How long and how often a call that failed in passing is tried again.

    Exponential back-off with jitter: from half of a pause's bound to all of it. A server's
    Retry-After is waited for in full.

    Args:
        deadline_s: Seconds from the first attempt after which no new attempt begins.
        initial_s: Upper bound of the first pause, in seconds; it doubles with each attempt.
        longest_s: Upper bound of any pause, in seconds.
    """

    deadline_s: float = 60.0
    initial_s: float = 0.25
    longest_s: float = 15.0

    def pause(self, state: tenacity.RetryCallState) -> float:
        """Seconds to wait before the next attempt."""
        fault = _fault_of(state)
        if fault.retry_after_s is not None:
            return fault.retry_after_s
        bound = min(self.longest_s, self.initial_s * 2 ** (state.attempt_number - 1))
        return random.uniform(bound / 2, bound)

    def within(self, deadline_s: float | None) -> RetryPolicy:
        """The same with less patience, where a call has a deadline of its own."""
        if deadline_s is None or deadline_s >= self.deadline_s:
            return self
        return replace(self, deadline_s=deadline_s)

    def gives_up(self, state: tenacity.RetryCallState) -> bool:
        """Whether the next attempt would begin after the deadline."""
        return (state.seconds_since_start or 0.0) + state.upcoming_sleep > self.deadline_s


def _fault_of(state: tenacity.RetryCallState) -> Fault:
    outcome = state.outcome
    error = outcome.exception() if outcome is not None else None
    return classify(error) if error is not None else Fault(transient=False, sentence="")


def _settings(policy: RetryPolicy) -> dict[str, Any]:
    return {
        "retry": tenacity.retry_if_exception(lambda error: classify(error).transient),
        "wait": policy.pause,
        "stop": policy.gives_up,
        "reraise": True,
    }


def run(steps: Steps[T], client: Any, policy: RetryPolicy) -> T:
    """Drive an operation to its end with a synchronous client.

    Raises:
        StoreRequestError: The engine refused a request.
        StoreUnavailableError: The engine did not answer within the policy's deadline.
    """

    def perform(step: Call | Work) -> Any:
        if isinstance(step, Work):
            return _worked(step)
        retrying = tenacity.Retrying(**_settings(policy.within(step.deadline_s)))
        return _mapped(retrying, getattr(client, step.method), step)

    outcome: Any = None
    error: BaseException | None = None
    try:
        while True:
            step = steps.send(outcome) if error is None else steps.throw(error)
            outcome, error = None, None
            try:
                outcome = perform(step)
            except SbertError as raised:
                error = raised
    except StopIteration as stop:
        result: T = stop.value
        return result
    finally:
        steps.close()


def _worked(step: Work) -> Any:
    """What the work returns.

    Raises:
        ModelError: It ended with StopIteration, which neither a generator nor a future can pass on.
    """
    try:
        return step.function(*step.args)
    except StopIteration as error:
        raise ModelError(
            "an encoder or scorer raised StopIteration, expected an answer: one of its next(...) "
            "calls found nothing; give it a default, or catch it"
        ) from error


def _mapped(retrying: tenacity.Retrying, method: Callable[..., Any], step: Call) -> Any:
    try:
        return retrying(method, **step.kwargs)
    except Exception as error:
        raise translated(error, gone=step.gone) from error


async def arun(steps: Steps[T], client: Any, policy: RetryPolicy, *, native: bool) -> T:
    """Drive an operation to its end without blocking the event loop.

    Args:
        steps: The operation.
        client: An AsyncQdrantClient where `native`, else a synchronous client.
        policy: When to try again.
        native: Whether the client's methods are coroutines.

    Raises:
        StoreRequestError: The engine refused a request.
        StoreUnavailableError: The engine did not answer within the policy's deadline.
    """

    async def perform(step: Call | Work) -> Any:
        if isinstance(step, Work):
            return await asyncio.to_thread(_worked, step)
        method = getattr(client, step.method)
        settings = _settings(policy.within(step.deadline_s))
        if not native:
            retrying = tenacity.Retrying(**settings)
            return await asyncio.to_thread(_mapped, retrying, method, step)
        try:
            return await tenacity.AsyncRetrying(**settings)(method, **step.kwargs)
        except Exception as error:
            raise translated(error, gone=step.gone) from error

    outcome: Any = None
    error: BaseException | None = None
    try:
        while True:
            step = steps.send(outcome) if error is None else steps.throw(error)
            outcome, error = None, None
            try:
                outcome = await perform(step)
            except SbertError as raised:
                error = raised
    except StopIteration as stop:
        result: T = stop.value
        return result
    finally:
        steps.close()


def translated(error: BaseException, *, gone: str | None = None) -> BaseException:
    """Our error for a foreign one; our own, and what is no engine's fault, pass unchanged.

    Args:
        error: Any.
        gone: What to say where it means that the collection is not there.
    """
    if isinstance(error, SbertError):
        return error
    if gone is not None and says_missing(error):
        return CollectionNotFoundError(gone)
    fault = classify(error)
    if fault.transient:
        return StoreUnavailableError(f"{fault.sentence}; gave up after trying again")
    if fault.access:
        return StoreAccessError(fault.sentence)
    if fault.sentence:
        return StoreRequestError(fault.sentence)
    return error
