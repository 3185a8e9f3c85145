"""What the service does, without HTTP: each method is called in a thread and gives plain values."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field
from os import PathLike
from typing import TYPE_CHECKING, Any

from sbert_retriever.errors import CollectionNotFoundError, InputError, StoreUnavailableError
from sbert_retriever.index.steps import RetryPolicy
from sbert_retriever.retriever import Retriever
from sbert_retriever.serve.logs import LOGGER
from sbert_retriever.serve.models import SharedModels, Wanted
from sbert_retriever.serve.paper import Paper
from sbert_retriever.serve.reasons import reason

if TYPE_CHECKING:
    from sbert_retriever.faq import Faq
    from sbert_retriever.types import Encoder, RetrieverInfo

_WARM_UP = "water"
# A request asks a server more than once, and has half a minute.
_PATIENCE = RetryPolicy(deadline_s=5.0)


@dataclass
class Service:
    """A collection to search, an FAQ, and the models of both. Made by `open_service`.

    Args:
        models: Shared by all.
        retriever: Over the collection; None where only an FAQ is served.
        faq: None where there is none.
        closing: Further things to close.
    """

    models: SharedModels
    retriever: Retriever | None = None
    faq: Faq | None = None
    closing: list[Any] = field(default_factory=list)
    ready: bool = False
    failure: str | None = None

    def __post_init__(self) -> None:
        self.paper = Paper(self.models)
        self._reranked: Retriever | None = None

    def searched(self, *, rerank: bool) -> Retriever:
        """The retriever, with the shared cross-encoder where one is needed.

        Raises:
            CollectionNotFoundError: Only an FAQ is served.
            InputError: There is no cross-encoder.
        """
        if self.retriever is None:
            raise CollectionNotFoundError("this service has no collection to search, only an FAQ")
        saved = self.retriever.profile
        standing = saved is not None and saved.reranks
        if not rerank and not standing:
            return self.retriever
        if self._reranked is None:
            wanted = Wanted.PROFILE if standing else Wanted.REQUEST
            self._reranked = self.retriever.with_reranker(self.models.reranker(wanted))
        return self._reranked

    def asked(self) -> Faq:
        """The FAQ.

        Raises:
            CollectionNotFoundError: None is served.
        """
        if self.faq is None:
            raise CollectionNotFoundError(
                "this service has no FAQ: import one with `sbert-retriever faq import` and start "
                "the service again"
            )
        return self.faq

    def warm_up(self) -> bool:
        """Load what the first question needs; `ready` or `failure` says how it went.

        Returns:
            Whether it failed for what can pass, so that another try may go better.
        """
        try:
            self._warm_up()
        except Exception as error:  # of whatever kind: nobody else would hear of it
            self.failure = reason(error)
            # No user has asked yet whom its words could quote.
            LOGGER.error("not ready", exc_info=error, extra={"fields": {"message": str(error)}})
            return isinstance(error, StoreUnavailableError)
        self.ready, self.failure = True, None
        return False

    def _warm_up(self) -> None:
        self.models.encoder.warm_up()
        self.models.encoder.encode_queries([_WARM_UP])
        if self.faq is not None:
            self.faq.warm_up()
        if self.retriever is not None:
            profile = self.retriever.profile
            self.searched(rerank=profile is not None and profile.reranks).search(_WARM_UP, 1)

    def info(self) -> RetrieverInfo | None:
        """What is known of the collection."""
        return None if self.retriever is None else self.retriever.info()

    def close(self) -> None:
        """Write to the disk, and let go of the location."""
        for each in (self.faq, self.retriever, *self.closing):
            if each is not None:
                each.close()
        self.models.close()


def open_service(
    location: str | PathLike[str],
    *,
    collection_name: str = "default",
    faq_name: str = "faq",
    model: str | PathLike[str] | Encoder | None = None,
    reranker: str | None = None,
    device: str = "auto",
    dtype: str = "auto",
    api_key: str | None = None,
    tenant: str | None = None,
    faq_rerank: bool = False,
    log_unanswered: bool = False,
    log: str | PathLike[str] | None = None,
    retry: RetryPolicy | None = None,
) -> Service:
    """Open a collection, an FAQ, or both, to be served.

    Args:
        location: A folder or a URL.
        collection_name: Which collection is searched.
        faq_name: Which collection is the FAQ.
        model: As for `Retriever.open`.
        reranker: The cross-encoder; None is the one of the collection's profile, or the package's.
        device: For all models.
        dtype: For all models.
        api_key: For a URL.
        tenant: As for `Retriever.open`; for the collection that is searched.
        faq_rerank: Whether the cross-encoder looks at the FAQ's best entries again.
        log_unanswered: As for `Faq.open`.
        log: As for `Faq.open`; feedback on an FAQ of a server needs it.
        retry: How long a call of a server that failed in passing is tried again; None is 5
            seconds, so that a request tells of it within its own time.

    Raises:
        CollectionNotFoundError: Neither is there.
        ContractError: One was built with another model.
        InputError: Both are there, and were built with different models.
        StoreUnavailableError: No server answered within a few seconds.
    """
    reached: dict[str, Any] = {"api_key": api_key, "retry": retry or _PATIENCE}
    settings: dict[str, Any] = {"device": device, "dtype": dtype, **reached}
    with ExitStack() as undone:
        first = _existing(undone, location, collection_name, model=model, tenant=tenant, **settings)
        second = _existing(undone, location, faq_name, model=model, **settings)
        opened = [each for each in (first, second) if each is not None]
        if not opened:
            raise CollectionNotFoundError(
                f"there is neither a collection {collection_name!r} nor an FAQ {faq_name!r} at "
                f"{location}: index something first, or import an FAQ"
            )
        models = _shared(opened, reranker, settings)
        served = Service(models, closing=opened)
        undone.callback(served.close)
        common: dict[str, Any] = {"model": models.encoder, "create": False, **reached}
        if first is not None:
            served.retriever = Retriever.open(
                location, collection_name=collection_name, tenant=tenant, **common
            )
        if second is not None:
            from sbert_retriever.faq import Faq

            served.faq = Faq.open(
                location,
                collection_name=faq_name,
                reranker=models.reranker(Wanted.FAQ) if faq_rerank else None,
                log_unanswered=log_unanswered,
                log=log,
                **common,
            )
        undone.pop_all()  # nothing went wrong: the service closes what is open
    return served


def _shared(
    opened: list[Retriever], reranker: str | None, settings: dict[str, Any]
) -> SharedModels:
    """One encoder for all collections."""
    _check_alike(opened[0], opened[-1])
    profile = opened[0].profile
    named = reranker or (profile.reranker if profile is not None else None)
    return SharedModels(
        opened[0].encoder, reranker=named, device=settings["device"], dtype=settings["dtype"]
    )


def _check_alike(first: Retriever, second: Retriever) -> None:
    """One service has one encoder."""
    mine, other = first.info().identity, second.info().identity
    if mine is not None and other is not None and (differing := mine.differences(other)):
        raise InputError(
            f"collection {first.store.collection_name!r} and FAQ {second.store.collection_name!r} "
            f"were built with different models ({', '.join(differing)}): serve them apart, each "
            "by its own --collection and --faq"
        )


def _existing(
    undone: ExitStack, location: str | PathLike[str], name: str, **settings: Any
) -> Retriever | None:
    """A collection that is there, to be closed where what follows fails."""
    try:
        found = Retriever.open(location, collection_name=name, create=False, **settings)
    except CollectionNotFoundError:
        return None
    undone.callback(found.close)
    return found
